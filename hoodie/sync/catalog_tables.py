"""Tables by their names in a catalog: the one place where a name becomes a path, and options of reads and writes.

A merge-on-read table has up to three names. Whichever of them is given, writes are told to the names that the catalog
has, and to no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from hoodie.common.config.property import check_properties
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.util.class_loading import load_class
from hoodie.common.util.shown_value import short_text, shown_value
from hoodie.common.util.uris import without_user
from hoodie.config.read_config import QueryType
from hoodie.config.sync_config import HoodieSyncTableStrategy
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieSyncException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.storage.storage_options import StorageOptions
from hoodie.sync import catalog_sync
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.catalog_entry import CatalogTable
from hoodie.sync.entry_description import EntryDescription
from hoodie.sync.hive_sync_tool import is_at, is_of_hudi, views_of
from hoodie.sync.sync_settings import GLUE, HMS, REFUSED_CATALOGS, TOOL_KEY, sync_settings

T = TypeVar("T")

QUERY_TYPE_KEY = "hoodie.datasource.query.type"
_HIVE = "hoodie.datasource.hive_sync."
_URIS = _HIVE + "metastore.uris"
_MODE = _HIVE + "mode"
_DATABASE, _TABLE = _HIVE + "database", _HIVE + "table"
_NAMES_OF_GLUE = ("hoodie.datasource.meta.sync.glue.database_name", "hoodie.datasource.meta.sync.glue.table_name")
_SWITCHES = (_HIVE + "enable", "hoodie.datasource.meta.sync.enable", "hoodie.meta.sync.enable")
_MOVES = "hoodie.meta.sync.moved.table.enabled"
_STRATEGY, _SKIP_SUFFIX = _HIVE + "table.strategy", _HIVE + "skip_ro_suffix"
_SNAPSHOT_NAME = "hoodie.meta.sync.sync_snapshot_with_table_name"
_AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"
_FORMS = "'glue', 'hms', thrift://host:9083 or a class of yours (package.module.Class)"


@attrs.frozen(kw_only=True)
class NamedTable:
    """A table that was asked for by its name in a catalog.

    Attributes:
        name: Database and table, with a dot between them.
        path: The table's folder.
        catalog: The catalog, as `CatalogTables` takes it; without secrets.
        is_read_optimized: Whether the name stands for the base files alone.
        names: The names of the table in the database that were found beside it, itself included.
        properties: Options of all calls: those of the catalog, and those by which writes are told to these names.
    """

    name: str
    path: str
    catalog: str
    is_read_optimized: bool = False
    names: tuple[str, ...]
    properties: Mapping[str, Any] = attrs.field(repr=False)


class CatalogTables:
    """The tables of a catalog, by name. Each call is one or a few requests; nothing is kept.

    Args:
        name: ``hms``, ``glue``, the address of a Hive Metastore, or a user's `HoodieCatalogClient`.
        properties: Options of the connection and of the tables.
        storage_options: Options and credentials of the storage of the tables.

    Raises:
        HoodieConfigException: There is no such catalog, or its address is not known.
    """

    def __init__(
        self,
        name: str,
        *,
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise HoodieConfigException(f"the catalog is {shown_value(name)}: give {_FORMS}")
        check_properties(properties)
        given = dict(properties or {})
        self._name = without_user(name)
        self._kind = HMS if name.startswith("thrift://") else name
        if self._kind not in (HMS, GLUE):
            if "." not in name or "/" in name:
                advice = REFUSED_CATALOGS.get(name.lower(), f"give {_FORMS}")
                raise HoodieConfigException(f"there is no catalog {short_text(self._name)!r}: {advice}")
            load_class(name, "catalog", HoodieCatalogClient)
        if self._kind is not name:
            given = {**_without(given, _URIS), _URIS: self._name}
        self._properties = given
        self._storage_options = storage_options
        self._config = HoodieWriteConfig.from_properties("/", given)
        # Only the connection is needed of these, so any table will do.
        some_table = HoodieTableConfig({"hoodie.table.name": "any"})
        (self._settings,) = sync_settings(self._config, some_table, catalog=self._kind)

    @classmethod
    def of(
        cls,
        catalog: object,
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> CatalogTables:
        """The catalog that a caller names.

        Args:
            catalog: A `CatalogTables`, or its name.
            properties: Options, on top of those that the catalog has.
            storage_options: As for the class; None for those that the catalog has.

        Raises:
            HoodieConfigException: It is something else, or see the class.
        """
        check_properties(properties)
        if isinstance(catalog, CatalogTables):
            options = {**catalog._properties, **(properties or {})}
            own = catalog._storage_options if storage_options is None else storage_options
            return CatalogTables(catalog._name, properties=options, storage_options=own)
        if not isinstance(catalog, str):
            raise HoodieConfigException(f"catalog is {shown_value(catalog)}: give a hoodie.Catalog, {_FORMS}")
        return CatalogTables(catalog, properties=properties, storage_options=storage_options)

    @property
    def storage_options(self) -> StorageOptions | None:
        """Options and credentials of the storage of the tables."""
        return self._storage_options

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
            HoodieConfigException: It is no text.
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        if not isinstance(database, str) or not database:
            raise HoodieConfigException(f"database is {shown_value(database)}: give the name of a database")
        with self._open() as client:
            return client.tables(database)

    def path(self, name: str) -> str:
        """The folder of a table, for ``spark.read`` and other programs.

        Args:
            name: ``database.table``, or the name of a table in ``default``.

        Raises:
            HoodieConfigException: It is no name.
            TableNotFoundException: There is no such entry, or it is none of a Hudi table.
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        with self._open() as client:
            return _path_of(_entry(client, name))

    def describe(self, name: str) -> EntryDescription:
        """The entry of a table or view, field by field, also of one that is none of Hudi's.

        Args:
            name: See `path`.

        Raises:
            HoodieConfigException: It is no name.
            TableNotFoundException: There is no such entry.
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        with self._open() as client:
            entry = _entry(client, name, of_any_kind=True)
            count = len(client.partition_values(entry)) if entry.partition_keys else None
        return EntryDescription.of(entry, count, is_of_hudi=is_of_hudi(entry))

    def drop(self, name: str) -> None:
        """Remove one entry, never data: the table stays in its folder, also that of a managed table.

        The next write of a client that tells the catalog makes it anew. `hoodie.Table.drop` deletes a table.

        Args:
            name: See `path`.

        Raises:
            HoodieException: See `path`.
        """
        with self._open() as client:
            entry = _entry(client, name)
            client.drop_table(entry.database, entry.name)

    def resolve(self, name: str) -> NamedTable:
        """A table, with all that reads and writes of it need.

        Args:
            name: See `path`.

        Raises:
            HoodieException: See `path`.
        """
        with self._open() as client:
            entry = _entry(client, name)
            found = _layout(client, entry)
        return NamedTable(
            name=entry.full_name,
            path=_path_of(entry),
            catalog=self._name,
            is_read_optimized=_is_read_optimized(entry) or entry.name == found.read_optimized,
            names=found.names,
            properties=self._told_as(entry.database, found.table, found.options),
        )

    def new(self, name: str, location: str | os.PathLike[str], table_name: str | None = None) -> NamedTable:
        """A name and a folder for a table that is to be made; nothing is looked at.

        Args:
            name: See `path`.
            location: The folder.
            table_name: The name that the table has in its properties; None for that of the entry.

        Raises:
            HoodieConfigException: One of them has another form.
        """
        database, table = _parts(name)
        if not isinstance(location, str | os.PathLike):
            raise HoodieConfigException(f"location is {shown_value(location)}: give the folder of the new table")
        if ".hoodie" in os.fspath(location).replace(os.sep, "/").split("/"):
            raise HoodieConfigException(
                f"location {os.fspath(location)!r} is within a folder .hoodie, which belongs to another table and is "
                "deleted with it: give another folder"
            )
        described = {"hoodie.table.name": table, "hoodie.database.name": database}
        if table_name is not None:
            del described["hoodie.table.name"]
        properties = {**described, **self._told_as(database, table, {})}
        return NamedTable(
            name=f"{database}.{table}",
            path=os.fspath(location),
            catalog=self._name,
            names=(table,),
            properties=properties,
        )

    def make(self, new: NamedTable, config: HoodieWriteConfig, write: Callable[[HoodieWriteConfig], T]) -> T:
        """Make a table, and then its entry.

        Args:
            new: An answer of `new`.
            config: The configuration that describes the table, with the properties of ``new``.
            write: Makes the table and writes its first rows, with a configuration that tells no catalog; it refuses a
                table that is there.

        Returns:
            The answer of ``write``.

        Raises:
            TableExistsException: An entry has one of the names, or there is a table; nothing was written.
            HoodieSyncException: The catalog refuses, or cannot be reached. If the table was made by then, it stays, and
                the message says how to make the entry.
            HoodieException: Any error of ``write``.
        """
        self._refuse_taken(new, config)
        silent = attrs.evolve(config, sync=attrs.evolve(config.sync, enable=False, hive_sync_enable=False))
        named = {key: new.properties[key] for key in (_DATABASE, _TABLE, _URIS) if key in new.properties}
        advice = f"hoodie.sync_table({new.path!r}, {self._kind!r}, properties={named!r})"
        try:
            result = write(silent)
        except TableExistsException as error:
            raise TableExistsException(
                f"there is a table at {new.path}; nothing was written: to give it the name {new.name}, call {advice}, "
                "then write by the name without location"
            ) from error
        try:
            catalog_sync.sync_catalogs(config)
        except Exception as error:  # also one of a user's own catalog
            raise HoodieSyncException(
                f"the table at {new.path} is made and its rows are committed, but the catalog was not told of it: "
                f"{str(error).rstrip('.')}. The table stays; to make its entry, call {advice}"
            ) from error
        return result

    def _refuse_taken(self, new: NamedTable, config: HoodieWriteConfig) -> None:
        database, table = _parts(new.name)
        table_config = HoodieTableConfig({"hoodie.table.name": table})
        (settings,) = sync_settings(config, table_config, catalog=self._kind)
        with self._open() as client:
            for view in views_of(settings, config.table.table_type or HoodieTableType.COPY_ON_WRITE):
                entry = client.table(database, view.name)
                if entry is not None:
                    raise TableExistsException(
                        f"{client.title} has {entry.full_name} already, at {without_user(entry.location)}; nothing was "
                        "written: give another name, or leave location out to write to that table"
                    )

    def drop_entries(self, named: NamedTable) -> None:
        """Remove all names of a table, never data; those that are another table's by now stay.

        Args:
            named: An answer of `resolve`.

        Raises:
            HoodieSyncException: The catalog refuses, or cannot be reached; a second call goes on.
        """
        database, table = _parts(named.name)
        with self._open() as client:
            stems = {table, table[:-3] if table.endswith(("_ro", "_rt")) else table}
            # All names that a merge-on-read table may have: a call that failed may have left any of them.
            names = {*named.names, *(f"{stem}{suffix}" for stem in stems for suffix in ("", "_ro", "_rt"))}
            # The one that was asked for goes last: as long as it is there, a second call finds the others by it.
            for name in sorted(names, key=lambda name: (name == table, name)):
                entry = client.table(database, name)
                if entry is not None and is_at(entry, named.path):
                    client.drop_table(database, name)

    def _open(self) -> HoodieCatalogClient:
        return catalog_sync.open_catalog(self._settings, self._config)

    def _told_as(self, database: str, table: str, layout: Mapping[str, Any]) -> dict[str, Any]:
        """Options by which a table is told to this catalog, by this name; layout options that are given count."""
        given = _without(self._properties, _DATABASE, _TABLE, *_NAMES_OF_GLUE, TOOL_KEY)
        known = {key.lower() for key in given}
        told = {key: value for key, value in layout.items() if key not in known}
        if not known & set(_SWITCHES):
            told[_SWITCHES[0]] = True
        told |= {_DATABASE: database, _TABLE: table, _MOVES: False}
        own = self._kind
        if self._kind in (HMS, GLUE):
            own = "HiveSyncTool"
            given = _without(given, _MODE, _URIS)
            told[_MODE] = self._kind
        if self._kind == HMS:
            told[_URIS] = self._settings.uris
        others = [tool for tool in self._config.sync.client_tool_class if own not in (tool, tool.rpartition(".")[2])]
        if others or own is self._kind:
            told[TOOL_KEY] = ",".join([own, *others])
        return {**given, **told}


@attrs.frozen
class _Layout:
    """The names of a table in a catalog.

    Attributes:
        table: The name that they are made of.
        names: The names.
        options: The options by which a sync tells these names.
        read_optimized: The name that reads base files alone; None for none.
    """

    table: str
    names: tuple[str, ...]
    options: Mapping[str, Any]
    read_optimized: str | None = None


def _layout(client: HoodieCatalogClient, entry: CatalogTable) -> _Layout:
    """The names beside an entry that `views_of` would make for the same table."""
    path = _path_of(entry)
    known: dict[str, CatalogTable | None] = {entry.name: entry}

    def find(name: str) -> CatalogTable | None:
        if name not in known:
            known[name] = client.table(entry.database, name)
        found = known[name]
        return found if found is not None and is_at(found, path) else None

    if not _is_realtime(entry) and entry.serde_parameters.get(_AS_READ_OPTIMIZED, "").lower() == "false":
        return _Layout(entry.name, (entry.name,), {})
    stem = entry.name[:-3] if entry.name.endswith(("_ro", "_rt")) else entry.name
    for table in dict.fromkeys((stem, entry.name)):
        realtime = find(f"{table}_rt")
        if realtime is None or not _is_realtime(realtime):
            continue
        optimized, bare = find(f"{table}_ro"), find(table)
        is_skipped = optimized is None and bare is not None and not _is_realtime(bare)
        has_bare = bare is not None and _is_realtime(bare)
        if not is_skipped and optimized is None and not has_bare:
            continue
        read_optimized = table if is_skipped else f"{table}_ro"
        names = (read_optimized, f"{table}_rt", *((table,) if has_bare else ()))
        if entry.name not in names:
            continue
        return _Layout(
            table,
            names,
            {_STRATEGY: HoodieSyncTableStrategy.ALL, _SKIP_SUFFIX: is_skipped, _SNAPSHOT_NAME: has_bare},
            read_optimized,
        )
    strategy = (
        HoodieSyncTableStrategy.RT if _is_realtime(entry)
        else HoodieSyncTableStrategy.RO if _is_read_optimized(entry)
        else None
    )  # fmt: skip
    return _Layout(entry.name, (entry.name,), {_STRATEGY: strategy} if strategy else {})


def _is_realtime(entry: CatalogTable) -> bool:
    return ".realtime." in entry.input_format


def _is_read_optimized(entry: CatalogTable) -> bool:
    return entry.serde_parameters.get(_AS_READ_OPTIMIZED, "").lower() == "true"


def _entry(client: HoodieCatalogClient, name: str, *, of_any_kind: bool = False) -> CatalogTable:
    database, table = _parts(name)
    entry = client.table(database, table)
    if entry is None:
        raise TableNotFoundException(
            f"{client.title} has no table {database}.{table}: see hoodie.catalog(...).tables({database!r}), or make it "
            "with hoodie.write_table(..., catalog=..., location=...), or hoodie.sync_table if the table is there"
        )
    if not of_any_kind and not is_of_hudi(entry):
        raise TableNotFoundException(
            f"{client.title}: {entry.full_name} is none of a Hudi table, at {without_user(entry.location)}"
        )
    return entry


def _parts(name: object) -> tuple[str, str]:
    """Database and table of a name.

    Raises:
        HoodieConfigException: It is no name.
    """
    if not isinstance(name, str):
        raise HoodieConfigException(f"the name of the table is {shown_value(name)}: give database.table")
    database, dot, table = name.strip().rpartition(".")
    if not table or (dot and not database) or "/" in name or ":" in name:
        raise HoodieConfigException(
            f"{short_text(without_user(name))!r} is no name of a table in a catalog: give database.table, or leave "
            "catalog out for a path"
        )
    return database if dot else "default", table


def _path_of(entry: CatalogTable) -> str:
    given = entry.serde_parameters.get("path")
    if given and entry.location and not is_at(entry, given):
        raise HoodieSyncException(
            f"the entry {entry.full_name} names two folders, {without_user(entry.location)} as its location and "
            f"{without_user(given)} as the path of its serde: sync the table at the right one by its path, with "
            "full=True"
        )
    if not given and not entry.location:
        raise TableNotFoundException(f"the entry {entry.full_name} names no folder")
    path = entry.serde_parameters.get("path") or entry.location
    return path.removeprefix("file:") if path.startswith("file:/") and not path.startswith("file://") else path


def _without(properties: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if str(key).lower() not in keys}


def read_optimized_options(named: NamedTable, query_type: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a read of a name that stands for base files alone.

    Args:
        named: The table.
        query_type: The query type that the caller gives; None for none.
        options: The options that the caller gives.

    Raises:
        HoodieConfigException: The caller gives another query type.
    """
    given = query_type if query_type is not None else options.get(QUERY_TYPE_KEY)
    if given is not None and str(given).lower() != QueryType.READ_OPTIMIZED:
        raise HoodieConfigException(
            f"{named.name} reads base files only, and the query type is {given}: give another name of the table, or "
            "its path"
        )
    return {**options, QUERY_TYPE_KEY: QueryType.READ_OPTIMIZED.value}
