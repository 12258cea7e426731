"""Change data: which change a record went through, and what a table stores of it."""
