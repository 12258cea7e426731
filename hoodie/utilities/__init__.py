"""Programs around tables: the streamer, which brings Kafka, folders and other sources into a table.

Hudi: the module hudi-utilities. Nothing below imports this package.
"""
