"""Queries: what to read of a table, planned once for every reader."""
