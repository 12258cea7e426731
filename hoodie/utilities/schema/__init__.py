"""Schemas of a source and of the table that it fills."""
