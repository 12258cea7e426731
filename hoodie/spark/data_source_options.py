"""The options of ``format("hoodie")``: texts, whose names Spark hands over in lower case.

::

    path, or load(path)           the table's folder
    columns                       names with commas between them, or a list in JSON
    filter                        which rows: hoodie.query.filter_text tells the form
    pushdown                      single-use: take the filters of where; the frame is used once
    storage.<name>                options of the storage; objects in JSON, true and false are not texts
    hoodie.*, as.of.instant       Hudi's read options: hoodie.config.read_config

A write takes ``path``, ``storage.<name>`` and the options of `hoodie.spark.write`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Self

import attrs
import pyarrow.compute as pc

from hoodie.common.config.property import all_keys
from hoodie.config.hudi_keys import load_hudi_keys
from hoodie.config.read_config import HoodieReadConfig, QueryType
from hoodie.config.write_config import GROUPS, METADATA_PREFIX_KEY
from hoodie.exception import HoodieConfigException
from hoodie.query.filter_text import parse_filter
from hoodie.query.table_query import TableQuery

_STORAGE = "storage."
_OF_READS = ("columns", "filter", "pushdown")
_SINGLE_USE = "single-use"
_OWN = ("path", *_OF_READS)
_OF_SPARK = ("path", "checkpointlocation")
"""Options of a write that Spark or this module reads."""


@attrs.frozen
class DataSourceOptions:
    """The options of a read.

    Attributes:
        path: The table's folder.
        columns: Names, in the order of the result; None for all.
        filters: The filters of rows; None for all.
        read_options: Options of Hudi.
        storage_options: Options of the storage; None for none.
        is_used_once: Whether the frame is used once, so that filters of ``where`` can be taken.
    """

    path: str
    columns: tuple[str, ...] | None = None
    filters: pc.Expression | None = attrs.field(default=None, eq=False)
    read_options: Mapping[str, str] = attrs.field(factory=dict)
    storage_options: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    is_used_once: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Check the options that a user gave.

        Args:
            options: Names to texts; case of names does not count.

        Raises:
            HoodieConfigException: Options are missing, unknown or malformed.
        """
        given = {str(name).lower(): str(value) for name, value in options.items()}
        if given.get("pushdown", _SINGLE_USE) != _SINGLE_USE:
            raise HoodieConfigException(
                f"pushdown = {given['pushdown']!r}: give {_SINGLE_USE!r} for a frame that is used once, or leave it out"
            )
        if "paths" in given and "path" not in given:
            raise HoodieConfigException("load was called with several paths: hoodie reads one table, give its folder")
        _check_path(given, "load(path)")
        rest = {name: value for name, value in given.items() if name not in _OWN and not name.startswith(_STORAGE)}
        _check_known(rest)
        filters = [given["filter"]] if "filter" in given else []
        config = HoodieReadConfig.from_options(rest)
        if config.incremental_filters and config.query_type is QueryType.INCREMENTAL:
            filters += filter(None, map(str.strip, config.incremental_filters.split(",")))
        condition: pc.Expression | None = None
        for text in filters:
            parsed = parse_filter(text)
            condition = parsed if condition is None else condition & parsed
        return cls(
            path=given["path"],
            columns=_names(given["columns"]) if "columns" in given else None,
            filters=condition,
            read_options=rest,
            storage_options=_storage_options(given),
            is_used_once="pushdown" in given,
        )

    def query(self) -> TableQuery:
        """The query of a batch read.

        Raises:
            HoodieException: Options contradict each other.
        """
        query = TableQuery.of(columns=self.columns, filters=self.filters, options=self.read_options)
        return query.as_on_spark()


@attrs.frozen
class DataSourceWriteOptions:
    """The options of a write.

    Attributes:
        path: The table's folder.
        properties: Hudi's options, in Hudi's spelling; those that neither hoodie nor Hudi knows are in lower case.
        storage_options: Options of the storage; None for none.
    """

    path: str
    properties: Mapping[str, str]
    storage_options: Mapping[str, Any] | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Divide the user's options by their purpose. `HoodieWriteConfig` checks Hudi's options.

        Args:
            options: Names to texts; the case of names is ignored.

        Raises:
            HoodieConfigException: The path is missing, or options are those of reads.
        """
        given = {str(name).lower(): str(value) for name, value in options.items()}
        _check_path(given, "save(path) or start(path)")
        if wrong := [name for name in _OF_READS if name in given]:
            raise HoodieConfigException(
                f"the option {' and '.join(wrong)} is for reads: leave it out, and choose the rows and columns of the "
                "DataFrame with its own where and select; nothing was written"
            )
        known = {key.lower(): key for key in (*all_keys(GROUPS.values()), *load_hudi_keys())}
        properties = {
            known.get(name, name): value
            for name, value in given.items()
            if name not in _OF_SPARK and not name.startswith(_STORAGE)
        }
        if METADATA_PREFIX_KEY in properties:
            # The names that it selects are in lower case.
            properties[METADATA_PREFIX_KEY] = properties[METADATA_PREFIX_KEY].lower()
        return cls(given["path"], properties, _storage_options(given))


def _check_path(given: Mapping[str, str], call: str) -> None:
    if not given.get("path", "").strip():
        raise HoodieConfigException(f"the table's folder is missing: give it to {call}, or as the option path")


def _storage_options(given: Mapping[str, str]) -> dict[str, Any] | None:
    found = {name[len(_STORAGE) :]: value for name, value in given.items() if name.startswith(_STORAGE)}
    return {name: _storage_value(name, value) for name, value in found.items()} or None


def _check_known(names: Mapping[str, str]) -> None:
    """Refuse unknown names without Hudi's prefix: a misspelled ``filter`` would give more rows."""
    known = {key.lower() for key in (*all_keys([HoodieReadConfig]), *load_hudi_keys())}
    unknown = sorted(name for name in names if name not in known and not name.startswith("hoodie."))
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*_OWN, "as.of.instant"], n=1)
        raise HoodieConfigException(
            f"unknown option {', '.join(unknown)}"
            + (f", did you mean {near[0]}?" if near else "")
            + f'; format("hoodie") takes {", ".join(_OWN)}, {_STORAGE}<name> and Hudi\'s read options'
        )


def _names(text: str) -> tuple[str, ...]:
    names: Any = [name.strip() for name in text.split(",")]
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise HoodieConfigException(
            f"the option columns is {text!r}: give names with commas between them, such as 'rider, fare', or a list in "
            'JSON, such as ["rider", "total, net"]'
        )
    return tuple(names)


def _storage_value(name: str, text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise HoodieConfigException(f"the option {_STORAGE}{name} begins with {{, and is no object in JSON") from None
