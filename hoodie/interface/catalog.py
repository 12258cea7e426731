"""Tables by their names in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.common.config.property import check_properties
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, TableNotFoundException
from hoodie.interface.table import Table
from hoodie.storage.storage_options import StorageOptions
from hoodie.sync.catalog_client import CatalogClient
from hoodie.sync.catalog_entry import CatalogTable
from hoodie.sync.catalog_sync import open_catalog
from hoodie.sync.hive_sync_tool import is_of_hudi
from hoodie.sync.sync_settings import sync_settings

_URIS = "hoodie.datasource.hive_sync.metastore.uris"
_READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}


class Catalog:
    """The tables of a Hive Metastore or of AWS Glue, by name; made by `hoodie.catalog`.

    Each call is one or two requests; nothing is kept.

    Args:
        name: See `hoodie.catalog`.
        properties: See `hoodie.catalog`.
        storage_options: See `hoodie.catalog`.
    """

    def __init__(
        self,
        name: str,
        *,
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise HoodieConfigException(f"the catalog is {shown_value(name)}: give 'glue', 'hms' or thrift://host:9083")
        check_properties(properties)
        self._properties = dict(properties or {})
        self._storage_options = storage_options
        kind = name
        if name.startswith("thrift://"):
            kind, self._properties = "hms", {**self._properties, _URIS: name}
        if kind not in ("hms", "glue"):
            raise HoodieConfigException(f"there is no catalog {name!r}: give 'glue', 'hms' or thrift://host:9083")
        self._name = name
        self._config = HoodieWriteConfig.from_properties("/", self._properties)
        # Only the connection is needed of these, so any table will do.
        some_table = HoodieTableConfig({"hoodie.table.name": "any"})
        (self._settings,) = sync_settings(self._config, some_table, catalog=kind)

    def __repr__(self) -> str:
        return f"hoodie.catalog({self._name!r})"

    def _open(self) -> CatalogClient:
        return open_catalog(self._settings, self._config)

    def databases(self) -> list[str]:
        """The names of the databases, sorted.

        Raises:
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        with self._open() as client:
            return client.databases()

    def tables(self, database: str = "default") -> list[str]:
        """The names of the tables and views of a database, sorted; also those that are none of Hudi's.

        Args:
            database: The database.

        Raises:
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        with self._open() as client:
            return client.tables(database)

    def path(self, name: str) -> str:
        """The folder of a table, for `hoodie.read_table`, `hoodie.write_table` and ``spark.read``.

        Args:
            name: ``database.table``, or the name of a table in ``default``.

        Raises:
            TableNotFoundException: There is no such entry, or it is none of a Hudi table.
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        return _path_of(self._entry(name))

    def table(self, name: str) -> Table:
        """A table, to read and write.

        The name that Hudi gives to the read optimized view (``trips_ro``) reads base files only.

        Args:
            name: See `path`.

        Raises:
            TableNotFoundException: See `path`.
            HoodieSyncException: See `path`.
        """
        entry = self._entry(name)
        properties = {key: value for key, value in self._properties.items() if key != _URIS}
        if entry.serde_parameters.get("hoodie.query.as.ro.table") == "true":
            properties |= _READ_OPTIMIZED
        return Table(_path_of(entry), properties=properties, storage_options=self._storage_options)

    def _entry(self, name: str) -> CatalogTable:
        database, dot, table = name.rpartition(".")
        with self._open() as client:
            entry = client.table(database if dot else "default", table)
            title = client.title
        if entry is None:
            raise TableNotFoundException(
                f"{title} has no table {name}: see tables({database or 'default'!r}) of the catalog, or tell it of a "
                "table with hoodie.sync_table"
            )
        if not is_of_hudi(entry):
            raise TableNotFoundException(f"{title}: {name} is none of a Hudi table, at {entry.location}")
        return entry


def catalog(
    name: str,
    *,
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
) -> Catalog:
    """Open a catalog, to read and write tables by name.

        trips = hoodie.catalog("thrift://metastore:9083").table("rides.trips")

    Args:
        name: ``thrift://host:9083`` for a Hive Metastore; ``hms`` for the one that the properties or ``HIVE_CONF_DIR``
            name; ``glue`` for AWS Glue.
        properties: Hudi's options of the connection and of the tables that are opened.
        storage_options: Options and credentials of the storage of the tables.

    Raises:
        HoodieConfigException: There is no such catalog, or its address is not known.
    """
    return Catalog(name, properties=properties, storage_options=storage_options)


def _path_of(entry: CatalogTable) -> str:
    path = entry.serde_parameters.get("path") or entry.location
    return path.removeprefix("file:") if path.startswith("file:/") and not path.startswith("file://") else path
