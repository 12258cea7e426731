"""Tools that compare the metadata table of a table with its files; users find them in `hoodie.metadata`."""
