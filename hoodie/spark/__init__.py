"""Tables as Spark DataFrames."""

from hoodie.spark.read import read
from hoodie.spark.write import write

__all__ = ["read", "write"]
