"""A sync: the plan from what the table is and what the catalog says, and its execution. The same for all catalogs.

Order, for each name of the table, as in Hudi:

1. Look at the entry. If it names the newest commit, nothing else is looked at.
2. Create it, or change what differs: columns, then formats and parameters. Nothing is taken away that others wrote.
3. Partitions: those that commits since the stored time touched, or all of them.
4. The time of the newest commit, last: a sync that dies before is made up for by the next one.

No call is made that changes anything before the values of all partitions are known to fit the partition columns. A sync
never holds the table's lock, and deletes no data.

Two syncs at once: the first change of an entry takes the time of its commit away, and the last one stores the new time.
A sync that finds a time there that it did not expect was met by another one: it begins again, with the table as it is
then, and compares everything. A sync that dies leaves an entry without a time, which the next one compares as a whole.

Hudi: org.apache.hudi.hive.HiveSyncTool and org.apache.hudi.sync.common.HoodieSyncClient.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs

from hoodie.avro.schema_converters import add_meta_columns
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_table import plural
from hoodie.exception import (
    CatalogChangeRefusedException,
    CatalogEntryChangedException,
    CatalogEntryExistsException,
    HoodieSyncException,
)
from hoodie.storage import storage_path
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.catalog_schema import TableColumns, table_columns
from hoodie.sync.partition_value_extractor import EXTRACTOR_KEY, create_partition_value_extractor, extract_values
from hoodie.sync.sync_result import SyncedEntry, SyncResult
from hoodie.sync.sync_settings import SyncSettings
from hoodie.sync.synced_commits import (
    LAST_COMMIT,
    LAST_COMPLETION,
    SyncedCommits,
    changed_partitions,
    derived_partition_fields,
    stored_partitions,
)

logger = logging.getLogger(__name__)

_PROVIDER = "spark.sql.sources.provider"
_PARQUET_INPUT = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
_REALTIME_INPUT = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_READ_OPTIMIZED = "hoodie.query.as.ro.table"
_MOST_ATTEMPTS = 3
_NO_COMMIT = (None, None)


@attrs.frozen
class View:
    """One name under which a catalog knows the table.

    Attributes:
        name: The name.
        is_realtime: Whether readers merge log files; the input format says so to Hive, Presto and Trino.
        is_read_optimized: Whether Spark reads base files only.
    """

    name: str
    is_realtime: bool
    is_read_optimized: bool


def views_of(settings: SyncSettings, table_type: HoodieTableType) -> tuple[View, ...]:
    """The names of a table in a catalog.

    Args:
        settings: The resolved options.
        table_type: Copy-on-write tables have one name; merge-on-read tables up to three.

    Hudi: org.apache.hudi.hive.HiveSyncTool.doSync.
    """
    name = settings.table
    if table_type == HoodieTableType.COPY_ON_WRITE:
        return (View(name, False, False),)
    match settings.strategy:
        case "RO":
            return (View(name, False, True),)
        case "RT":
            return (View(name, True, False),)
    read_optimized = View(name if settings.skip_ro_suffix else f"{name}_ro", False, True)
    views = (read_optimized, View(f"{name}_rt", True, False))
    if settings.snapshot_with_table_name and not settings.skip_ro_suffix:
        return (*views, View(name, True, False))
    return views


class HiveSyncTool:
    """Brings the entries of one table in one catalog up to date.

    Args:
        snapshot: The table.
        settings: The resolved options.
        client: The catalog; the caller closes it.

    Raises:
        HoodieConfigException: There is no such extractor of partition values.
    """

    def __init__(self, snapshot: TableSnapshot, settings: SyncSettings, client: HoodieCatalogClient) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._client = client
        self._extractor = create_partition_value_extractor(settings.extractor)
        self._values: dict[str, tuple[str, ...]] = {}
        self._warned: set[str] = set()
        self._begun: set[str] = set()
        """The names whose entries or partitions this sync has begun to change."""

    def sync(self, *, check: bool = False, full: bool = False) -> SyncResult:
        """Bring all entries up to date.

        Args:
            check: Change nothing, and tell all differences.
            full: Compare everything, even if the entry names the newest commit.

        Raises:
            HoodieSyncException: The catalog cannot be told; what was done until then stays, and the next sync
                continues.
            HoodieException: The table cannot be read.
        """
        if self._commits.newest is None:
            raise HoodieSyncException(
                f"{self._snapshot.base_path} has no completed commit yet, so there is nothing to tell "
                f"{self._client.title}: write to it first"
            )
        views = views_of(self._settings, self._snapshot.table_config.table_type)
        entries = [self._synced(view, check, full) for view in views]
        if check or full:
            entries += self._stale_entries({view.name for view in views}, check)
        return SyncResult(self._client.title, self._snapshot.base_path, self._commits.newest, tuple(entries), check)

    # --- one entry ------------------------------------------------------------------------------------------------

    def _synced(self, view: View, check: bool, full: bool) -> SyncedEntry:
        """Sync one entry; again, with the table as it is then, if another sync came in between."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return self._sync_view(view, check, full)
            except (CatalogEntryChangedException, CatalogEntryExistsException):
                if attempt == _MOST_ATTEMPTS:
                    raise
                self._look_again()
        raise AssertionError("the last attempt returns or raises")

    def _look_again(self) -> None:
        """Go on with the table as it is now."""
        self._snapshot = self._snapshot.refreshed()
        for computed in ("_commits", "_avro_schema"):
            self.__dict__.pop(computed, None)

    def _sync_view(self, view: View, check: bool, full: bool) -> SyncedEntry:
        found = self._client.table(self._settings.database, view.name)
        name = self._full_name(view)
        if found is not None:
            self._refuse_foreign(found)
            if self._commits.is_newer(found.parameters):
                # Another sync saw a newer state of the table; or that commit was undone.
                self._look_again()
        is_here = found is not None and _same_place(found.location, self._base_path)
        compares = check or full or self._settings.force_recreate or view.name in self._begun
        if found is not None and is_here and not compares and self._commits.are_told(found.parameters):
            return SyncedEntry(name)
        if check:
            return SyncedEntry(name, differences=tuple(self._differences(view, found)))
        if found is not None and not is_here:
            if not self._settings.moves_entries:
                raise HoodieSyncException(
                    f"{self._client.title}: {name} is the table at {found.location} by now, and not the one at "
                    f"{self._base_path}: its entry was left as it is. Open the table by its path or by another name"
                )
            logger.warning(
                "%s: %s was the table at %s and becomes the one at %s",
                self._client.title, name, found.location, self._base_path,
            )  # fmt: skip
            return self._recreate(view)
        if found is not None and self._settings.force_recreate:
            return self._recreate(view)
        if found is None:
            return self._create(view)
        try:
            return self._update(view, found, full)
        except CatalogChangeRefusedException as error:
            if not self._settings.recreate_on_error:
                raise
            logger.warning("%s: %s is made anew, as it could not be changed: %s", self._client.title, name, error)
            return self._recreate(view)

    def _create(self, view: View) -> SyncedEntry:
        wanted = self._wanted(view, None)
        added = self._all_to_add()
        self._ensure_database()
        self._client.create_table(wanted)
        self._begun.add(view.name)
        self._fill(view, added)
        return SyncedEntry(self._full_name(view), is_created=True, added=added)

    def _recreate(self, view: View) -> SyncedEntry:
        """Make an entry anew, with all partitions."""
        wanted = self._wanted(view, None)
        added = self._all_to_add()
        self._begun.add(view.name)
        self._client.recreate_table(wanted)
        self._fill(view, added)
        return SyncedEntry(self._full_name(view), is_recreated=True, added=added)

    def _all_to_add(self) -> tuple[str, ...]:
        paths = tuple(stored_partitions(self._snapshot)) if self._has_partitions else ()
        self._refuse_equal_values(paths)
        return paths

    def _fill(self, view: View, paths: tuple[str, ...]) -> None:
        """Give a new entry its partitions, and the time of the newest commit."""
        self._change_partitions(view, _PartitionPlan(add=paths))
        self._store_commit(view, _NO_COMMIT)

    def _update(self, view: View, found: CatalogTable, full: bool) -> SyncedEntry:
        """Change an entry and its partitions, then store the commit."""
        wanted = self._wanted(view, found)
        partitions = self._partitions_to_compare(found, compares_all=full or view.name in self._begun)
        known = self._known_partitions(found, partitions, full)
        plan = self._partition_plan(partitions, known)
        done = SyncedEntry(
            self._full_name(view),
            columns=tuple(_column_changes(found, wanted)),
            parameters=tuple(_parameter_changes(found, wanted)),
            added=plan.add, moved=plan.moved_paths, dropped=plan.drop, touched=plan.touched_paths,
        )  # fmt: skip
        expected = _told(found)
        if wanted != found or plan.has_changes:
            self._begin(view, found)
            expected = _NO_COMMIT
        self._change_partitions(view, plan)
        if not self._settings.conditional or done.is_changed or self._commits.are_far_ahead_of(found.parameters):
            self._store_commit(view, expected)
        return done

    def _begin(self, view: View, found: CatalogTable) -> None:
        """Change columns, formats and parameters, and take the time of the last commit away.

        As long as an entry has no such time, a sync is at work on it, or died: the next one compares everything.
        """
        now = self._entry_now(view)
        if _told(now) != _told(found):
            raise CatalogEntryChangedException(
                f"{self._client.title}: another sync wrote {now.full_name} meanwhile: sync again"
            )
        self._begun.add(view.name)
        wanted = self._wanted(view, now)
        parameters = {
            key: value for key, value in wanted.parameters.items() if key not in (LAST_COMMIT, LAST_COMPLETION)
        }
        wanted = attrs.evolve(wanted, parameters=parameters)
        if wanted == now:
            return
        changes = _column_changes(now, wanted)
        try:
            self._client.replace_table(wanted, cascades=bool(changes) and bool(now.partition_keys))
        except CatalogChangeRefusedException as error:
            types = _type_changes(now.columns, wanted.columns)
            if not types:
                raise
            raise CatalogChangeRefusedException(
                f"{str(error).rstrip('.')}. The changed columns of {now.full_name}: {'; '.join(types)}. With "
                "hoodie.datasource.hive_sync.recreate_table_on_error = true the entry is made anew then, and loses "
                "what others wrote into it"
            ) from error

    def _store_commit(self, view: View, expected: tuple[str | None, str | None]) -> None:
        """Store the newest commit.

        Args:
            view: The name.
            expected: The times that the entry has, if no other sync came.

        Raises:
            CatalogEntryChangedException: Another sync ended since this one began, so that partitions and columns may be
                those of either.
        """
        for _ in range(_MOST_ATTEMPTS):
            now = self._entry_now(view)
            if _told(now) != expected:
                if view.name not in self._begun and self._commits.is_newer(now.parameters):
                    logger.info("%s: a newer sync of %s was first", self._client.title, now.full_name)
                    return
                break
            wanted = self._wanted(view, now)
            wanted = attrs.evolve(wanted, parameters={**wanted.parameters, **self._commits.parameters})
            if wanted == now:
                return
            try:
                self._client.replace_table(wanted)
            except CatalogEntryChangedException:
                continue
            after = self._entry_now(view)
            if self._commits.are_told(after.parameters) or self._commits.is_newer(after.parameters):
                return
            # An older sync came on top.
            self._begun.add(view.name)
            break
        raise CatalogEntryChangedException(
            f"{self._client.title}: another sync of {self._full_name(view)} ended meanwhile: sync again"
        )

    def _stale_entries(self, names: set[str], check: bool) -> list[SyncedEntry]:
        """Entries of a merge-on-read table that this table has replaced: told, or removed."""
        found = []
        for suffix in ("_ro", "_rt", ""):
            name = f"{self._settings.table}{suffix}"
            entry = None if name in names else self._client.table(self._settings.database, name)
            if entry is None or not is_of_hudi(entry) or not _same_place(entry.location, self._base_path):
                continue
            if self._settings.strategy != "ALL" or self._snapshot.table_config.table_type != "COPY_ON_WRITE":
                continue
            if check:
                told = ("the entry is one of the merge-on-read table that was here before",)
                found.append(SyncedEntry(entry.full_name, differences=told))
            else:
                self._client.drop_table(entry.database, entry.name)
                found.append(SyncedEntry(entry.full_name, is_dropped=True))
        return found

    def _full_name(self, view: View) -> str:
        return f"{self._settings.database}.{view.name}"

    def _wanted(self, view: View, found: CatalogTable | None) -> CatalogTable:
        """The entry as it is to be, without the time of the last commit; what others wrote into it stays."""
        settings = self._settings
        columns = self._columns(found)
        serde = {**settings.serde_properties, "serialization.format": "1"}
        parameters = dict(settings.table_properties)
        if settings.sync_as_datasource:
            serde |= {"path": self._base_path, _READ_OPTIMIZED: str(view.is_read_optimized).lower()}
            parameters |= columns.spark_properties(
                piece_length=settings.schema_string_length_threshold,
                spark_version=settings.spark_version,
                with_comments=settings.sync_comment,
            )
        elif view.name not in self._warned:
            self._warned.add(view.name)
            logger.warning(
                "%s: %s.%s is written without spark.sql.sources.provider "
                "(hoodie.datasource.hive_sync.sync_as_datasource = false): Spark takes it for plain Parquet and reads "
                "all versions of its files",
                self._client.title, settings.database, view.name,
            )  # fmt: skip
        if settings.with_table_definition:
            parameters |= self._definition
        entry = CatalogTable(
            database=settings.database,
            name=view.name,
            columns=columns.columns,
            partition_keys=tuple(attrs.evolve(key, name=key.name.lower()) for key in columns.partition_keys),
            location=self._base_path,
            input_format=_REALTIME_INPUT if view.is_realtime else _PARQUET_INPUT,
            output_format=_OUTPUT,
            serde=_SERDE,
            serde_parameters=serde,
            parameters=parameters,
            kind="MANAGED_TABLE" if settings.create_managed_table else "EXTERNAL_TABLE",
        )
        if found is None:
            # By this parameter alone a metastore knows that the files are not its own.
            own = {} if settings.create_managed_table else {"EXTERNAL": "TRUE"}
            return attrs.evolve(entry, parameters={**own, **parameters})
        if [key.name for key in found.partition_keys] != [key.name for key in entry.partition_keys]:
            raise HoodieSyncException(
                f"{self._client.title}: {found.full_name} has the partition columns "
                f"({', '.join(key.name for key in found.partition_keys)}), and the table has "
                f"({', '.join(key.name for key in entry.partition_keys)}), which a catalog cannot change: sync once "
                "with hoodie.meta.sync.force.recreate.table = true"
            )
        stale = {
            key for key in found.parameters
            if key.startswith("spark.sql.sources.schema.") and key not in parameters and settings.sync_as_datasource
        }  # fmt: skip
        kept = {key: value for key, value in found.parameters.items() if key not in stale}
        comments = {} if settings.sync_comment else {column.name: column.comment for column in found.columns}
        return attrs.evolve(
            found,
            columns=tuple(
                attrs.evolve(column, comment=comments.get(column.name, column.comment)) for column in entry.columns
            ),
            input_format=entry.input_format,
            output_format=entry.output_format,
            serde=entry.serde,
            serde_parameters={**found.serde_parameters, **serde},
            parameters={**kept, **parameters},
        )

    def _columns(self, found: CatalogTable | None) -> TableColumns:
        """The columns; timestamps have the type that an existing entry gives them, unless an option says otherwise."""
        given = self._settings.support_timestamp
        columns = self._columns_with(True if given is None else given)
        if found is None or given is not None:
            return columns
        before = {column.name: column.type for column in found.columns}
        numbers = {column.name: column.type for column in self._columns_with(False).columns}
        return attrs.evolve(
            columns,
            columns=tuple(
                attrs.evolve(column, type=numbers[column.name])
                if column.type != numbers[column.name] and before.get(column.name) == numbers[column.name]
                else column
                for column in columns.columns
            ),
        )

    def _columns_with(self, as_timestamp: bool) -> TableColumns:
        settings = self._settings
        schema = self._avro_schema
        derived = derived_partition_fields(self._snapshot.table_config) if settings.derived_partition_columns else ()
        return table_columns(
            schema if settings.omit_metadata_fields else add_meta_columns(schema),
            settings.partition_fields,
            as_timestamp=as_timestamp,
            text_keys=set(derived) & set(settings.partition_fields),
            with_comments=settings.sync_comment,
        )

    @cached_property
    def _avro_schema(self) -> str:
        schema = self._snapshot.load_avro_schema()
        if schema is None:
            raise HoodieSyncException(
                f"{self._snapshot.base_path} has no columns yet, so there is nothing to tell {self._client.title}: "
                "write rows first"
            )
        return schema

    @cached_property
    def _definition(self) -> dict[str, str]:
        """Parameters that ``CREATE TABLE ... USING hudi`` stores; Hudi 0.15's ``INSERT INTO`` needs them."""
        table = self._snapshot.table_config
        found = {"type": "mor" if table.table_type == HoodieTableType.MERGE_ON_READ else "cow"}
        if table.record_key_fields:
            found["primaryKey"] = ",".join(table.record_key_fields)
        if table.ordering_fields:
            found["preCombineField"] = ",".join(table.ordering_fields)
        return found

    # --- partitions -----------------------------------------------------------------------------------------------

    @property
    def _has_partitions(self) -> bool:
        return bool(self._settings.partition_fields) and not self._settings.no_partition_metadata

    def _partitions_to_compare(self, found: CatalogTable, *, compares_all: bool) -> _Partitions:
        """The partitions of the table that are to be compared with the catalog's."""
        if not self._has_partitions:
            return _Partitions((), (), are_all=False)
        since = None
        if not compares_all and self._settings.incremental:
            since = changed_partitions(self._snapshot, self._commits, found.parameters)
        if since is None:
            return _Partitions(tuple(stored_partitions(self._snapshot)), (), are_all=True)
        present = stored_partitions(self._snapshot, since)
        return _Partitions(tuple(present), tuple(path for path in since if path not in set(present)), are_all=False)

    def _known_partitions(
        self, found: CatalogTable, partitions: _Partitions, full: bool
    ) -> dict[tuple[str, ...], CatalogPartition | None]:
        """The catalog's partitions: with their locations where these may differ, else None."""
        if not self._has_partitions:
            return {}
        if partitions.are_all and not full:
            # Names are cheap; and where all are compared, locations were right at the sync before.
            return dict.fromkeys(self._client.partition_values(found))
        wanted = None if partitions.are_all else [self._values_of(path) for path in partitions.touched]
        known = [] if wanted == [] else self._client.partitions(found, wanted)
        return {partition.values: partition for partition in known}

    def _partition_plan(
        self, partitions: _Partitions, known: Mapping[tuple[str, ...], CatalogPartition | None]
    ) -> _PartitionPlan:
        self._refuse_equal_values(partitions.present)
        add, moved, touched = [], [], []
        present = set()
        for path in partitions.present:
            values = self._values_of(path)
            present.add(values)
            if values not in known:
                add.append(path)
                continue
            partition = known[values]
            location = self._location_of(path)
            if partition is not None and not _same_place(partition.location, location):
                self._refuse_another(path, partition.location)
                moved.append((path, attrs.evolve(partition, location=location)))
            elif self._settings.touch_partitions and not partitions.are_all and partition is not None:
                touched.append((path, partition))
        absent = {values: partition for values, partition in known.items() if values not in present}
        if partitions.are_all:
            drop = list(absent)
        else:
            gone = {self._values_of(path): path for path in partitions.gone}
            drop = [values for values in absent if values in gone and self._is_at(absent[values], gone[values])]
        return _PartitionPlan(tuple(add), tuple(moved), tuple(touched), tuple(drop))

    def _is_at(self, partition: CatalogPartition | None, path: str) -> bool:
        """Whether a partition of the catalog is the one of a path, and not another one with the same values."""
        return partition is None or _same_place(partition.location, self._location_of(path))

    def _refuse_another(self, path: str, location: str) -> None:
        """Refuse to move a partition away from another partition of the table that has the same values."""
        base = _without_scheme(self._base_path) + "/"
        other = _without_scheme(location)
        if other.startswith(base) and stored_partitions(self._snapshot, [other.removeprefix(base)]):
            self._refuse_equal_values([other.removeprefix(base), path])

    def _change_partitions(self, view: View, plan: _PartitionPlan) -> None:
        if not plan.has_changes:
            return
        entry = self._entry_now(view)
        if LAST_COMMIT in entry.parameters:
            raise CatalogEntryChangedException(
                f"{self._client.title}: another sync of {entry.full_name} ended meanwhile: sync again"
            )
        if plan.add:
            new = [CatalogPartition(self._values_of(path), self._location_of(path)) for path in plan.add]
            self._client.add_partitions(entry, new)
        if plan.moved:
            self._client.set_locations(entry, [partition for _, partition in plan.moved])
        if plan.drop:
            self._client.drop_partitions(entry, plan.drop)
        if plan.touched:
            self._client.touch_partitions(entry, [partition for _, partition in plan.touched])

    def _values_of(self, path: str) -> tuple[str, ...]:
        if path not in self._values:
            values = extract_values(self._extractor, path)
            keys = self._settings.partition_fields
            if len(values) != len(keys):
                raise HoodieSyncException(
                    f"the partition {path!r} gives {plural(len(values), 'value')} "
                    f"({', '.join(values)}) by {type(self._extractor).__name__}, and the entry has "
                    f"{plural(len(keys), 'partition column')} ({', '.join(keys)}): set "
                    f"{EXTRACTOR_KEY} to one that fits, such as MultiPartKeysValueExtractor, "
                    "SlashEncodedDayPartitionValueExtractor or SinglePartPartitionValueExtractor"
                )
            self._values[path] = values
        return self._values[path]

    def _refuse_equal_values(self, paths: Iterable[str]) -> None:
        seen: dict[tuple[str, ...], str] = {}
        for path in paths:
            other = seen.setdefault(self._values_of(path), path)
            if other != path:
                raise HoodieSyncException(
                    f"the partitions {other!r} and {path!r} give the same values {self._values_of(path)} by "
                    f"{type(self._extractor).__name__}, so one of them would not be seen: set "
                    f"{EXTRACTOR_KEY} to one that tells them apart"
                )

    def _location_of(self, path: str) -> str:
        return storage_path.join(self._base_path, path) if path else self._base_path

    # --- the catalog's entry --------------------------------------------------------------------------------------

    @property
    def _base_path(self) -> str:
        return self._snapshot.base_path

    @cached_property
    def _commits(self) -> SyncedCommits:
        return SyncedCommits.of(self._snapshot)

    def _ensure_database(self) -> None:
        database = self._settings.database
        if self._client.has_database(database):
            return
        if not self._settings.auto_create_database:
            raise HoodieSyncException(
                f"{self._client.title} has no database {database!r}: create it, or set "
                "hoodie.datasource.hive_sync.auto_create_database = true"
            )
        self._client.create_database(database)

    def _entry_now(self, view: View) -> CatalogTable:
        entry = self._client.table(self._settings.database, view.name)
        if entry is None:
            raise CatalogEntryChangedException(
                f"{self._client.title}: {self._settings.database}.{view.name} was dropped during the sync: sync again"
            )
        self._refuse_foreign(entry)
        return entry

    def _refuse_foreign(self, found: CatalogTable) -> None:
        """Refuse to change what is no entry of a Hudi table."""
        if found.kind == "VIRTUAL_VIEW" or found.kind == "MATERIALIZED_VIEW":
            raise HoodieSyncException(
                f"{self._client.title}: {found.full_name} is a view: drop it, or set another name with "
                "hoodie.datasource.hive_sync.table"
            )
        if not is_of_hudi(found):
            raise HoodieSyncException(
                f"{self._client.title}: {found.full_name} is a table that is none of Hudi's, at {found.location}: drop "
                "it there if it is not needed, or set another name with hoodie.datasource.hive_sync.table"
            )

    # --- check ----------------------------------------------------------------------------------------------------

    def _differences(self, view: View, found: CatalogTable | None) -> list[str]:
        """All differences between an entry and the table, one line each."""
        if found is None:
            return ["there is no entry"]
        if not _same_place(found.location, self._base_path):
            return [f"the location is {found.location}, and the table is at {self._base_path}"]
        wanted = self._wanted(view, found)
        lines = [*_column_changes(found, wanted), *_parameter_changes(found, wanted)]
        keys = tuple(attrs.evolve(key, name=key.name.lower()) for key in self._columns(found).partition_keys)
        lines += [
            f"the partition {change}, which only hoodie.meta.sync.force.recreate.table = true changes"
            for change in _type_changes(found.partition_keys, keys)
        ]
        if wanted.kind != found.kind or (found.kind == "EXTERNAL_TABLE") == self._settings.create_managed_table:
            lines.append(f"the entry is a {found.kind}: dropping a managed table deletes its files")
        if not self._commits.are_told(found.parameters):
            lines.append(
                f"{LAST_COMMIT} is {found.parameters.get(LAST_COMMIT, 'absent')}, and the newest commit is "
                f"{self._commits.newest}"
            )
        partitions = self._partitions_to_compare(found, compares_all=True)
        plan = self._partition_plan(partitions, self._known_partitions(found, partitions, full=True))
        lines += [f"the partition {path} is missing" for path in plan.add]
        lines += [f"the partition {path} is at {known.location}" for path, known in self._moved_from(found, plan)]
        lines += [f"the partition ({', '.join(values)}) is not in the table" for values in plan.drop]
        return lines

    def _moved_from(self, found: CatalogTable, plan: _PartitionPlan) -> list[tuple[str, CatalogPartition]]:
        if not plan.moved:
            return []
        known = {p.values: p for p in self._client.partitions(found, [self._values_of(path) for path, _ in plan.moved])}
        return [(path, known[partition.values]) for path, partition in plan.moved if partition.values in known]


@attrs.frozen
class _Partitions:
    """Partition paths that are compared with a catalog: those with rows, those without, and whether they are all."""

    present: tuple[str, ...]
    gone: tuple[str, ...]
    are_all: bool

    @property
    def touched(self) -> tuple[str, ...]:
        return (*self.present, *self.gone)


@attrs.frozen
class _PartitionPlan:
    """The changes to the partitions of an entry."""

    add: tuple[str, ...] = ()
    moved: tuple[tuple[str, CatalogPartition], ...] = ()
    touched: tuple[tuple[str, CatalogPartition], ...] = ()
    drop: tuple[tuple[str, ...], ...] = ()

    @property
    def has_changes(self) -> bool:
        return bool(self.add or self.moved or self.touched or self.drop)

    @property
    def moved_paths(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.moved)

    @property
    def touched_paths(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self.touched)


def _column_changes(found: CatalogTable, wanted: CatalogTable) -> list[str]:
    """The differences of columns, one line each."""
    before = {column.name: column for column in found.columns}
    after = {column.name: column for column in wanted.columns}
    lines = [f"the column {name} ({column.type}) is missing" for name, column in after.items() if name not in before]
    lines += [f"the column {name} is not in the table" for name in before if name not in after]
    lines += [f"the {change}" for change in _type_changes(found.columns, wanted.columns)]
    if not lines and list(before) != list(after):
        lines.append(f"the columns are in another order: {', '.join(before)}")
    lines += [
        f"the comment of the column {name} is {before[name].comment!r}, and {column.comment!r} in the table"
        for name, column in after.items()
        if name in before and before[name].comment != column.comment
    ]
    return lines


def _type_changes(before: Iterable[CatalogColumn], after: Iterable[CatalogColumn]) -> list[str]:
    """The columns whose type differs, one line each."""
    types = {column.name: column.type for column in before}
    return [
        f"column {column.name} is {types[column.name]}, and {column.type} in the table"
        for column in after
        if column.name in types and types[column.name].replace(" ", "").lower() != column.type
    ]


def _told(entry: CatalogTable) -> tuple[str | None, str | None]:
    """The times of the commit that an entry names."""
    return entry.parameters.get(LAST_COMMIT), entry.parameters.get(LAST_COMPLETION)


def _parameter_changes(found: CatalogTable, wanted: CatalogTable) -> list[str]:
    """The differences of parameters, formats and serde, one line each."""
    lines = []
    for title, before, after in (
        ("the parameter", found.parameters, wanted.parameters),
        ("the serde parameter", found.serde_parameters, wanted.serde_parameters),
    ):
        lines += [f"{title} {key} is missing" for key in after if key not in before]
        lines += [f"{title} {key} is {before[key]}" for key in after if key in before and before[key] != after[key]]
        lines += [f"{title} {key} is stale" for key in before if key not in after]
    for title, one, other in (
        ("input format", found.input_format, wanted.input_format),
        ("output format", found.output_format, wanted.output_format),
        ("serde", found.serde, wanted.serde),
    ):
        if one != other:
            lines.append(f"the {title} is {one}")
    return lines


def is_of_hudi(found: CatalogTable) -> bool:
    """Whether an entry is one of a Hudi table, of whatever writer.

    Args:
        found: The entry.
    """
    if found.kind.endswith("_VIEW"):
        return False
    provider = found.parameters.get(_PROVIDER, "").lower()
    return provider == "hudi" or LAST_COMMIT in found.parameters or ".hudi." in found.input_format


def _same_place(one: str, other: str) -> bool:
    """Whether two locations are the same but for their schemes, as Hudi compares them."""
    return _without_scheme(one) == _without_scheme(other)


def _without_scheme(location: str) -> str:
    scheme, separator, rest = location.partition("://")
    if separator:
        return (rest if scheme.lower() not in ("file", "hdfs", "viewfs") else f"/{rest.partition('/')[2]}").rstrip("/")
    if location.startswith("file:"):
        location = location.removeprefix("file:")
    return location.rstrip("/")


def is_at(found: CatalogTable, path: str) -> bool:
    """Whether an entry is that of the Hudi table in a folder.

    Args:
        found: The entry.
        path: The folder; schemes do not count.
    """
    return is_of_hudi(found) and _same_place(found.location, path)
