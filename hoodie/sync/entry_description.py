"""An entry of a catalog, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import attrs

from hoodie.common.config.property import is_sensitive
from hoodie.common.util.shown_value import short_text
from hoodie.sync.catalog_entry import CatalogColumn, CatalogTable

_SHOWN_CHARACTERS = 100


@attrs.frozen(kw_only=True)
class EntryDescription:
    """All that a catalog says of a table; prints as lines. Secrets among the parameters are ``***``.

    Attributes:
        name: Database and table, with a dot between them.
        kind: ``EXTERNAL_TABLE``, ``MANAGED_TABLE``, ``VIRTUAL_VIEW`` or what else the catalog says.
        is_of_hudi: Whether it is a table of Hudi.
        location: The folder.
        columns: The columns without those of the partitions.
        partition_keys: The partition columns.
        partition_count: The number of partitions that the catalog has; None for an entry without partition columns.
        input_format: The Java class.
        output_format: The Java class.
        serde: The Java class.
        serde_parameters: The parameters of the serde, sorted.
        parameters: The parameters of the table, sorted.
    """

    name: str
    kind: str
    is_of_hudi: bool
    location: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    partition_count: int | None
    input_format: str
    output_format: str
    serde: str
    serde_parameters: Mapping[str, str]
    parameters: Mapping[str, str]

    @classmethod
    def of(cls, entry: CatalogTable, partition_count: int | None, *, is_of_hudi: bool) -> Self:
        """The description of an entry.

        Args:
            entry: The entry.
            partition_count: See the class.
            is_of_hudi: See the class.
        """
        return cls(
            name=entry.full_name,
            kind=entry.kind,
            is_of_hudi=is_of_hudi,
            location=entry.location,
            columns=entry.columns,
            partition_keys=entry.partition_keys,
            partition_count=partition_count,
            input_format=entry.input_format,
            output_format=entry.output_format,
            serde=entry.serde,
            serde_parameters=_shown(entry.serde_parameters),
            parameters=_shown(entry.parameters),
        )

    def __str__(self) -> str:
        lines = [
            self.name,
            f"kind: {self.kind}" + ("" if self.is_of_hudi else ", not a table of Hudi"),
            f"location: {self.location}",
            *_lines("columns", {column.name: _type(column) for column in self.columns}),
            *_lines("partition columns", {column.name: _type(column) for column in self.partition_keys}),
            *([] if self.partition_count is None else [f"partitions: {self.partition_count}"]),
            f"input format: {self.input_format}",
            f"output format: {self.output_format}",
            f"serde: {self.serde}",
            *_lines("serde parameters", self.serde_parameters),
            *_lines("parameters", self.parameters),
        ]
        return "\n".join(lines)


def _shown(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: "***" if is_sensitive(key) else value for key, value in sorted(parameters.items())}


def _type(column: CatalogColumn) -> str:
    return f"{column.type} ({column.comment})" if column.comment else column.type


def _lines(title: str, fields: Mapping[str, str]) -> list[str]:
    if not fields:
        return []
    return [f"{title}:", *(f"  {key}: {short_text(value, _SHOWN_CHARACTERS)}" for key, value in fields.items())]
