"""An index in a database: SQLite in this process, or PostgreSQL."""

from __future__ import annotations

import hashlib

import attrs

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.index.external.database_url import is_postgresql, sqlite_path
from hoodie.index.external.external_index import HoodieExternalIndex, StoreFactory
from hoodie.index.external.location_store import LocationStore
from hoodie.index.external.postgres_location_store import PostgresLocationStore
from hoodie.index.external.sqlite_location_store import SqliteLocationStore
from hoodie.storage.storage_path import normalise_path


class HoodieDatabaseIndex(HoodieExternalIndex):
    """Keeps key -> file group in a database; a key is unique in the whole table.

    ``hoodie.index.class=hoodie.index.external.database_index.HoodieDatabaseIndex`` chooses this index.
    ``hoodie.index.database.url`` names the database; see docs/indexes.md.

    Raises:
        HoodieConfigException: The URL names neither SQLite nor PostgreSQL, or it is missing for a table on an object
            store.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        index = config.index
        super().__init__(config, index.database_update_partition_path)
        base_path = normalise_path(config.base_path)
        prefix = index.database_table or f"hoodie_{hashlib.blake2b(base_path.encode(), digest_size=6).hexdigest()}"
        if is_postgresql(index.database_url):
            self._factory: StoreFactory = _PostgresFactory(str(index.database_url), prefix)
            self._factory.open().close()
        else:
            self._factory = _SqliteFactory(sqlite_path(index.database_url, base_path), prefix)

    def store_factory(self) -> StoreFactory:
        return self._factory


@attrs.frozen
class _SqliteFactory(StoreFactory):
    path: str
    prefix: str

    def open(self) -> LocationStore:
        return SqliteLocationStore(self.path, self.prefix)


@attrs.frozen
class _PostgresFactory(StoreFactory):
    url: str = attrs.field(repr=False)
    prefix: str
    is_shared_by_tasks = True

    def open(self) -> LocationStore:
        return PostgresLocationStore(self.url, self.prefix)
