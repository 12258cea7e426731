"""Tables and partitions as a catalog has them: plain values, the same for every catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class CatalogColumn:
    """A column of a catalog's table.

    Attributes:
        name: The name; catalogs keep it in lower case.
        type: The Hive type, lower case and without blanks: ``bigint``, ``struct<x:int,y:array<double>>``.
        comment: The comment; empty text if there is none.

    Hudi: org.apache.hudi.sync.common.model.FieldSchema.
    """

    name: str
    type: str
    comment: str = ""


@attrs.frozen
class CatalogTable:
    """A table of a catalog.

    Attributes:
        database: The database.
        name: The name.
        columns: The columns without those of the partitions.
        partition_keys: The partition columns, in the order of a partition's values.
        location: The folder, as the catalog gives it back: it may have a scheme that the user did not write.
        input_format: The Java class.
        output_format: The Java class.
        serde: The Java class.
        serde_parameters: All of them, those of others too.
        parameters: All parameters of the table, those of others too.
        kind: ``EXTERNAL_TABLE``, ``MANAGED_TABLE``, ``VIRTUAL_VIEW`` or what else the catalog says.
        stored: The client's own form of it (a struct of the metastore, an answer of Glue), from which it makes the
            changed entry, so that nothing that hoodie does not know is lost. None in an entry that is to be created.
    """

    database: str
    name: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    location: str
    input_format: str
    output_format: str
    serde: str
    serde_parameters: Mapping[str, str]
    parameters: Mapping[str, str]
    kind: str = "EXTERNAL_TABLE"
    stored: Any = attrs.field(default=None, repr=False, eq=False)

    @property
    def full_name(self) -> str:
        """Database and name, with a dot between them."""
        return f"{self.database}.{self.name}"


@attrs.frozen
class CatalogPartition:
    """A partition of a catalog's table.

    Attributes:
        values: One text for each partition column.
        location: The folder, as `CatalogTable.location`.
        stored: As `CatalogTable.stored`.
    """

    values: tuple[str, ...]
    location: str
    stored: Any = attrs.field(default=None, repr=False, eq=False)
