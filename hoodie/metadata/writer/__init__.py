"""Write metadata tables: build them, keep them up to date, roll them back, compact them."""
