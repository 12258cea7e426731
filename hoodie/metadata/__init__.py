"""The metadata table: what a table knows of its own files, so that nobody lists folders or reads footers for it."""
