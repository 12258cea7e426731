"""Tables as Spark DataFrames."""

from hoodie.spark.read import read

__all__ = ["read"]
