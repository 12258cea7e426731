"""Write metadata tables: initialise, keep up to date, take back, compact."""
