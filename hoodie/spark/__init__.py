"""Tables as Spark DataFrames."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from hoodie.spark.catalogs import sync_table as sync_table
    from hoodie.spark.merge_writer import merge_into as merge_into
    from hoodie.spark.reader import read as read
    from hoodie.spark.reader import register as register
    from hoodie.spark.streaming import foreach_batch_writer as foreach_batch_writer
    from hoodie.spark.writer import write as write

__all__ = ["foreach_batch_writer", "merge_into", "read", "register", "sync_table", "write"]

_MODULES = {
    "foreach_batch_writer": "hoodie.spark.streaming",
    "merge_into": "hoodie.spark.merge_writer",
    "read": "hoodie.spark.reader",
    "register": "hoodie.spark.reader",
    "sync_table": "hoodie.spark.catalogs",
    "write": "hoodie.spark.writer",
}


def __getattr__(name: str) -> _typing.Any:
    """Import the functions for the driver on first use: Python workers import this package for their tasks."""
    if name in _MODULES:
        return load("hoodie.spark", name, _MODULES[name])
    raise AttributeError(f"module 'hoodie.spark' has no attribute {name!r}")


def load(package: str, name: str, module: str) -> _typing.Any:
    """A public name that needs PySpark.

    Args:
        package: The package that has the name, for the message.
        name: The name.
        module: The module that defines it.

    Raises:
        ModuleNotFoundError: PySpark, or what it needs, is not installed; the message names the extra that installs it.
    """
    try:
        return getattr(_importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "hoodie":
            raise
        message = f"{package}.{name} needs PySpark: pip install 'hoodie[spark]' ({error})"
        raise ModuleNotFoundError(message, name=error.name, path=error.path) from error


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
