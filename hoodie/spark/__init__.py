"""Tables as Spark DataFrames."""

from hoodie.spark.reader import read
from hoodie.spark.writer import write

__all__ = ["read", "write"]
