"""A catalog in memory, with the rules of real ones that a sync depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from hoodie.exception import CatalogChangeRefusedException, CatalogEntryExistsException, HoodieSyncException
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.catalog_entry import CatalogPartition, CatalogTable

_READS = ("table", "tables", "databases", "has_database", "partition_values", "partitions")


@attrs.define(eq=False)
class MemoryCatalog(HoodieCatalogClient):
    """Databases, tables and partitions; notes its calls, and runs a function before each.

    Attributes:
        known: Database -> name -> entry.
        parts: Database and name -> values -> partition.
        calls: The names of the calls, in order.
        before: Called with the name of each call; it may raise, or change the catalog.
    """

    known: dict[str, dict[str, CatalogTable]] = attrs.field(factory=lambda: {"default": {}})
    parts: dict[str, dict[tuple[str, ...], CatalogPartition]] = attrs.field(factory=dict)
    calls: list[str] = attrs.field(factory=list)
    before: Callable[[str], None] = lambda call: None
    refuses_types: bool = False

    @property
    def title(self) -> str:
        return "the catalog in memory"

    @property
    def changes(self) -> list[str]:
        """The calls that change something."""
        return [call for call in self.calls if call not in _READS]

    def entry(self, name: str, database: str = "default") -> CatalogTable:
        return self.known[database][name]

    def values(self, name: str, database: str = "default") -> list[tuple[str, ...]]:
        return sorted(self.parts.get(f"{database}.{name}", {}))

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)

    def databases(self) -> list[str]:
        self._note("databases")
        return sorted(self.known)

    def has_database(self, database: str) -> bool:
        self._note("has_database")
        return database in self.known

    def create_database(self, database: str) -> None:
        self._note("create_database")
        self.known.setdefault(database, {})

    def tables(self, database: str) -> list[str]:
        self._note("tables")
        return sorted(self.known.get(database, {}))

    def table(self, database: str, name: str) -> CatalogTable | None:
        self._note("table")
        return self.known.get(database, {}).get(name.lower())

    def create_table(self, table: CatalogTable) -> None:
        self._note("create_table")
        if table.database not in self.known:
            raise HoodieSyncException(f"no database {table.database}")
        if table.name.lower() in self.known[table.database]:
            raise CatalogEntryExistsException(f"{table.full_name} exists")
        assert table.stored is None
        self._keep(table)

    def _keep(self, table: CatalogTable) -> None:
        assert all(column.name == column.name.lower() for column in (*table.columns, *table.partition_keys))
        location = table.location if ":" in table.location else f"file:{table.location}"
        self.known[table.database][table.name.lower()] = attrs.evolve(
            table, name=table.name.lower(), location=location, stored=object()
        )

    def replace_table(self, table: CatalogTable, *, cascades: bool = False) -> None:
        self._note("replace_table")
        old = self.known.get(table.database, {}).get(table.name)
        if old is None:
            raise HoodieSyncException(f"no table {table.full_name}")
        types = [column.type for column in old.columns]
        if self.refuses_types and types != [column.type for column in table.columns[: len(types)]]:
            raise CatalogChangeRefusedException(
                "The following columns have types incompatible with the existing columns."
            )
        self._keep(table)

    def recreate_table(self, table: CatalogTable) -> None:
        self._note("recreate_table")
        self.parts.pop(table.full_name, None)
        self._keep(table)

    def drop_table(self, database: str, name: str) -> None:
        self._note("drop_table")
        self.known[database].pop(name, None)
        self.parts.pop(f"{database}.{name}", None)

    def partition_values(self, table: CatalogTable) -> list[tuple[str, ...]]:
        self._note("partition_values")
        return list(self.parts.get(table.full_name, {}))

    def partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        self._note("partitions")
        found = self.parts.get(table.full_name, {})
        return [found[key] for key in (found if values is None else values) if key in found]

    def add_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        self._note("add_partitions")
        for partition in partitions:
            assert len(partition.values) == len(table.partition_keys)
            self.parts.setdefault(table.full_name, {}).setdefault(partition.values, partition)

    def set_locations(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        self._note("set_locations")
        self.parts[table.full_name].update({partition.values: partition for partition in partitions})

    def touch_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        self._note("touch_partitions")
        assert all(partition.values in self.parts[table.full_name] for partition in partitions)

    def drop_partitions(self, table: CatalogTable, values: Iterable[tuple[str, ...]]) -> None:
        self._note("drop_partitions")
        for key in values:
            self.parts[table.full_name].pop(key, None)

    def close(self) -> None:
        pass
