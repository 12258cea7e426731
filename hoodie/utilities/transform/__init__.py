"""Changes of the rows between the source and the table."""
