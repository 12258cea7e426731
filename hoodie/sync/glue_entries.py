"""Entries of AWS Glue: from answers to values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.hive_type_change import needs_cascade


def s3a_to_s3(location: str) -> str:
    """A location with the scheme that Athena and Redshift know.

    Args:
        location: The location.

    Hudi: org.apache.hudi.common.fs.FSUtils.s3aToS3.
    """
    return f"s3{location[3:]}" if location[:6].lower() == "s3a://" else location


def must_follow(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> bool:
    """Whether columns of Glue must be replaced, by `needs_cascade`.

    Args:
        old: The columns of a table or partition, as Glue has them.
        new: The new columns of the table.
    """
    types = {column["Name"]: column.get("Type", "") for column in old}
    return any(needs_cascade(types[c["Name"]], c.get("Type", "")) for c in new if c["Name"] in types)


def glue_columns(columns: Iterable[CatalogColumn], stored: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Columns as Glue has them; what else it knows of them stays.

    Args:
        columns: The columns.
        stored: The columns that Glue has now.
    """
    old = {column["Name"]: column for column in stored}
    named = ((column.name.lower(), column) for column in columns)
    return [{**old.get(name, {}), "Name": name, "Type": c.type, "Comment": c.comment} for name, c in named]


def storage_descriptor(table: CatalogTable) -> dict[str, Any]:
    """The storage descriptor to send; what else Glue knows of the table stays in it.

    Args:
        table: The table.
    """
    stored = (table.stored or {}).get("StorageDescriptor", {})
    return {
        **stored,
        "Columns": glue_columns(table.columns, stored.get("Columns", ())),
        "Location": s3a_to_s3(table.location),
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "SerdeInfo": {
            **stored.get("SerdeInfo", {}),
            "SerializationLibrary": table.serde,
            "Parameters": dict(table.serde_parameters),
        },
    }


def holds(found: Any, given: Any) -> bool:
    """Whether an answer says what was given; Glue may add fields.

    Args:
        found: The answer, or a part of it.
        given: The request, or a part of it.
    """
    if isinstance(given, dict) and isinstance(found, dict):
        return all(key in found and holds(found[key], value) for key, value in given.items())
    if isinstance(given, list) and isinstance(found, list):
        return len(found) == len(given) and all(map(holds, found, given))
    return bool(found == given)


def _column(stored: Mapping[str, Any]) -> CatalogColumn:
    return CatalogColumn(stored["Name"], stored.get("Type", ""), stored.get("Comment", ""))


def table_of(stored: dict[str, Any]) -> CatalogTable:
    """The table of an answer of Glue.

    Args:
        stored: The answer; an empty storage descriptor is added if a view has none.
    """
    descriptor = stored.setdefault("StorageDescriptor", {})  # Views may have none.
    serde = descriptor.get("SerdeInfo", {})
    return CatalogTable(
        database=stored["DatabaseName"],
        name=stored["Name"],
        columns=tuple(_column(column) for column in descriptor.get("Columns", ())),
        partition_keys=tuple(_column(key) for key in stored.get("PartitionKeys", ())),
        location=descriptor.get("Location", ""),
        input_format=descriptor.get("InputFormat", ""),
        output_format=descriptor.get("OutputFormat", ""),
        serde=serde.get("SerializationLibrary", ""),
        serde_parameters=serde.get("Parameters", {}),
        parameters=stored.get("Parameters", {}),
        kind=stored.get("TableType", ""),
        stored=stored,
    )


def partition_of(stored: dict[str, Any]) -> CatalogPartition:
    """The partition of an answer of Glue.

    Args:
        stored: The answer.
    """
    return CatalogPartition(tuple(stored["Values"]), stored.get("StorageDescriptor", {}).get("Location", ""), stored)
