"""The streamer: rounds that fetch from a source and write to a table, each position together with its rows."""
