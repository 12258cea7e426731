"""Queries of a table, planned once for every reader."""
