"""The name by which PySpark 4 finds ``format("hoodie")``: it looks for ``DefaultSource`` in modules ``pyspark_*``."""

from hoodie.spark.data_source import HoodieDataSource as DefaultSource

__all__ = ["DefaultSource"]
