"""Tables by their names in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.interface.table import Table
from hoodie.storage.storage_options import StorageOptions
from hoodie.sync.catalog_tables import CatalogTables


class Catalog(CatalogTables):
    """The tables of a Hive Metastore, of AWS Glue or of another catalog, by name; made by `hoodie.catalog`.

    Each call is one or a few requests; nothing is kept. `hoodie.Table`, `hoodie.read_table`, `hoodie.write_table` and
    the other functions take it as ``catalog``.

    Args:
        name: See `hoodie.catalog`.
        properties: See `hoodie.catalog`.
        storage_options: See `hoodie.catalog`.
    """

    def __repr__(self) -> str:
        return f"hoodie.catalog({self._name!r})"

    def table(self, name: str) -> Table:
        """A table, to read and write; the same as ``hoodie.Table(name, catalog=...)``.

        Args:
            name: See `path`.

        Raises:
            HoodieException: See `path`.
        """
        return Table(name, catalog=self)


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
            name; ``glue`` for AWS Glue; or a `hoodie.HoodieCatalogClient` of yours, as ``package.module.Class``.
        properties: Hudi's options of the connection and of the tables that are opened.
        storage_options: Options and credentials of the storage of the tables.

    Raises:
        HoodieConfigException: There is no such catalog, or its address is not known.
    """
    return Catalog(name, properties=properties, storage_options=storage_options)
