"""Catalog sync: a Hive Metastore, AWS Glue or a manifest file learn of a table and of its commits.

One plan (`sync_tool.py`), several clients (`catalog_client.py`). Hudi: the modules hudi-sync and hudi-aws.
"""
