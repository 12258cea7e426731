"""The calls that a sync makes on a catalog."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from hoodie.sync.catalog_entry import CatalogPartition, CatalogTable


class HoodieCatalogClient(ABC):
    """A connection to a catalog. Subclass it for a catalog that hoodie does not know::

        properties = {"hoodie.meta.sync.client.tool.class": "my.module.MyClient"}
        hoodie.sync_table("/data/trips", properties=properties)
        hoodie.catalog("my.module.MyClient").table("rides.trips")

    A class of yours is made with the writer's `HoodieWriteConfig`, whose ``properties`` hold all that was given: keys
    that do not begin with ``hoodie.`` are yours.

    Every method is one request, or some where a catalog limits the size of a request; nothing is kept between calls.
    Methods raise `HoodieSyncException` with a message that names the catalog, the call and what to do; a name that is
    taken meanwhile is a `CatalogEntryExistsException`, an entry that another process changed meanwhile a
    `CatalogEntryChangedException` where the catalog can tell. No method deletes data. What an entry is to say is
    computed by the caller, the same for all catalogs; the values are those of `hoodie.sync.catalog_entry`.

    Hudi: org.apache.hudi.sync.common.HoodieMetaSyncOperations.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """The catalog for messages, such as ``the Hive metastore thrift://host:9083``; without secrets."""

    @abstractmethod
    def databases(self) -> list[str]:
        """The names of all databases, sorted."""

    def has_database(self, database: str) -> bool:
        """Whether there is such a database; by default, whether `databases` names it."""
        return database in self.databases()

    @abstractmethod
    def create_database(self, database: str) -> None:
        """Create a database at the catalog's default location; one that exists already is no error.

        Its description is ``automatically created by hoodie``, which is also what Hudi writes.
        """

    @abstractmethod
    def tables(self, database: str) -> list[str]:
        """The names of the tables and views of a database, sorted."""

    @abstractmethod
    def table(self, database: str, name: str) -> CatalogTable | None:
        """The entry of a table or view; None if there is none, or no such database."""

    @abstractmethod
    def create_table(self, table: CatalogTable) -> None:
        """Create an entry.

        Args:
            table: The entry; its owner is the user of this process.
        """

    @abstractmethod
    def replace_table(self, table: CatalogTable, *, cascades: bool = False) -> None:
        """Replace an entry: columns, partition columns' comments, formats, parameters and location.

        Args:
            table: An answer of `table`, changed by `attrs.evolve`; what else ``stored`` has stays.
            cascades: Change the columns of all partitions, too.
        """

    def recreate_table(self, table: CatalogTable) -> None:
        """Replace an entry and all its partitions by a new entry without partitions; by default, drop and create.

        Args:
            table: The new entry. Where the catalog can rename, the old entry stays until the new one is there.
        """
        self.drop_table(table.database, table.name)
        self.create_table(table)

    @abstractmethod
    def drop_table(self, database: str, name: str) -> None:
        """Remove an entry, never its data; one that is gone is no error."""

    def partition_values(self, table: CatalogTable) -> list[tuple[str, ...]]:
        """The values of all partitions, without their locations, by the cheapest call that the catalog has."""
        return [partition.values for partition in self.partitions(table)]

    @abstractmethod
    def partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """Partitions with their locations.

        Args:
            table: The table.
            values: The partitions that are asked for, those that do not exist are left out; None gives all.
        """

    @abstractmethod
    def add_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """Add partitions with the table's columns and formats; those that exist already are left as they are.

        Args:
            table: The table as the catalog has it.
            partitions: The partitions; sent in batches.
        """

    @abstractmethod
    def set_locations(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """Give partitions another location.

        Args:
            table: The table as the catalog has it.
            partitions: Answers of `partitions` with the new location.
        """

    def touch_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """Write partitions anew as they are, which gives them a new time of change; by default by `set_locations`.

        Args:
            table: The table as the catalog has it.
            partitions: Answers of `partitions`.
        """
        self.set_locations(table, partitions)

    @abstractmethod
    def drop_partitions(self, table: CatalogTable, values: Iterable[tuple[str, ...]]) -> None:
        """Remove partitions, never their data; those that are gone are no error.

        Args:
            table: The table as the catalog has it.
            values: The partitions.
        """

    def close(self) -> None:  # noqa: B027  (most catalogs have nothing to close)
        """Close the connection; a second call does nothing. By default nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
