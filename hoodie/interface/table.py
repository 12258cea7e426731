"""`hoodie.Table`: what a person does with a table, by one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import attrs
import pyarrow as pa

from hoodie.client.held_input import hold_input
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.partitions_to_delete import Partitions
from hoodie.client.read_client import HoodieReadClient
from hoodie.client.table_writer import config_of_arguments, create_table, write_table
from hoodie.client.write_input import MadeOfTable
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import check_properties, is_sensitive
from hoodie.common.model.range_overlap import Overlap
from hoodie.common.model.record_columns import META_COLUMN_SET, TAGS
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import FileSummary, InstantSummary, PartitionSummary, SummaryTable
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieConfigException
from hoodie.interface.changed_rows import changed_rows, row_changes
from hoodie.interface.description import TableDescription, describe
from hoodie.interface.diagnosis import Diagnosis, diagnose
from hoodie.interface.erasure import Erasure, TableErasure
from hoodie.interface.following import Following, FollowResult
from hoodie.interface.instants import ExportedInstants, InstantDetails, TableDifference, compare, export, read_instant
from hoodie.interface.locks import TableLock, break_lock, find_locks
from hoodie.interface.merge import TableMerge
from hoodie.interface.optimization import Optimization
from hoodie.interface.queued_calls import one_after_another
from hoodie.interface.reads import read_options
from hoodie.interface.repairs import MarkedFile, markers_of, repair
from hoodie.interface.report import Report, write_report
from hoodie.interface.results import ArchiveResult, CleanResult, OptimizeResult, TableChanges, TableIndex, UndoResult
from hoodie.interface.row_update import RowUpdate
from hoodie.interface.table_reads import Columns, TableReads, check_limit
from hoodie.metadata.reader.index_definitions import load_index_definitions
from hoodie.picture.picture import Picture
from hoodie.picture.pictures import draw
from hoodie.query.arrow_reader import plan_rows
from hoodie.query.change_plan import ChangePlan
from hoodie.query.change_planner import plan_changes
from hoodie.query.planner import plan_of
from hoodie.query.read_plan import ReadPlan
from hoodie.query.slice_ranges import range_columns
from hoodie.query.table_query import Filters, QueryTime, QueryTimes, TableQuery
from hoodie.stats.table_numbers import TableNumbers
from hoodie.storage.storage_options import StorageOptions, secrets_of
from hoodie.sync.catalog_sync import sync_catalogs
from hoodie.sync.catalog_tables import CatalogTables, NamedTable, read_optimized_options
from hoodie.sync.sync_result import SyncResult
from hoodie.table.action.clean.clean_planner import CleanPlanner
from hoodie.table.action.commit.upsert_plan import UpsertPlan
from hoodie.table.action.savepoint.savepoint_action_executor import HoodieSavepoint, savepoints
from hoodie.table.action.ttl.partition_expiry import PartitionExpiry
from hoodie.table.open_table import look_as_writer
from hoodie.table.property_change import PropertiesChange, change_properties
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.table.table_removal import TableRemoval, drop_table
from hoodie.table.upgrade.version_change import TableVersionChange
from hoodie.validation.metadata_validation import MetadataTableValidation
from hoodie.validation.table_validator import validate

T = TypeVar("T")
_INDEX_PREFIXES = ("secondary_index", "expr_index")


class Table(TableReads):
    """A table, for a person: read, write, look and take care by one object, in this process, without Spark.

    ::

        trips = hoodie.Table.create("/data/trips", first_day, record_key_fields="uuid", partition_fields="city")
        trips.upsert(second_day)
        trips.read(where="fare > 50 and city = 'oslo'", columns=["rider", "fare"])
        trips.update(where="rider = 'ann'", set={"fare": 9.5})
        trips.as_of("2026-01-02").count()
        trips.history(limit=5)

    Making one reads nothing. Each call sees the newest commit, and each write is one commit. Threads may share it. It
    calls what `hoodie.write_table`, `hoodie.read_table` and the clients do; their pages say more.

    With a catalog the table is found by its name, when the object is made, and each write is told to that catalog::

        trips = hoodie.Table("rides.trips", catalog="thrift://metastore:9083")

    Args:
        path: The table's folder; with ``catalog`` its name, ``database.table``.
        catalog: The catalog that has the name: what `hoodie.catalog` returns or takes. The name of a read optimized
            view (``trips_ro``) reads base files only. ``hoodie.datasource.hive_sync.enable = false`` leaves the entry
            as it is.
        properties: Hudi's properties for all calls, such as ``hoodie.index.type``; see `HoodieWriteConfig`.
        storage_options: Options and credentials of the storage, or a function that returns them. A table with
            credentials as values cannot be pickled; one with a function can.

    Raises:
        HoodieConfigException: An argument has the wrong type, or a property is unknown or has a bad value.
        TableNotFoundException: The catalog has no such name, or it is none of a Hudi table.
        HoodieSyncException: The catalog refuses, or cannot be reached.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        catalog: CatalogTables | str | None = None,
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        check_properties(properties)
        self._named: NamedTable | None = None
        if catalog is not None:
            tables = CatalogTables.of(catalog, properties, storage_options)
            self._named = tables.resolve(str(path) if isinstance(path, os.PathLike) else path)
            path, storage_options = self._named.path, tables.storage_options
            properties = self._named.properties
            if self._named.is_read_optimized:
                properties = read_optimized_options(self._named, None, properties)
        if not isinstance(path, str | os.PathLike):
            raise HoodieConfigException(f"path is {shown_value(path)}: give the table's folder")
        self._path = os.fspath(path)
        self._properties = dict(properties or {})
        self._storage_options = storage_options
        self._config({})

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema_or_data: Any,
        *,
        record_key_fields: str | Sequence[str],
        partition_fields: str | Sequence[str] = (),
        ordering_fields: str | Sequence[str] = (),
        table_name: str | None = None,
        table_type: HoodieTableType | str | None = None,
        table_version: int | None = None,
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
        catalog: CatalogTables | str | None = None,
        location: str | os.PathLike[str] | None = None,
    ) -> Table:
        """Create a table, with the columns of a schema, or with the rows of some data in its first commit.

        If the first write fails, the folder is left as it was. With ``catalog`` and ``location`` the table's entry is
        made as well, after the table::

            hoodie.Table.create("rides.trips", rows, record_key_fields="uuid",
                                catalog="thrift://metastore:9083", location="s3://lake/trips")

        Args:
            path: The table's folder, which need not exist; with ``catalog`` the name, ``database.table``.
            schema_or_data: A `pyarrow.Schema` for a table without rows; or rows, as `HoodieLocalWriteClient` takes
                them, which are upserted: of several rows with one key one stays.
            record_key_fields: The column or columns that identify a row. The text ``generated`` makes a table without
                them, whose keys are generated; see ``docs/keyless-tables.md``.
            partition_fields: The columns whose values name the folders of the data.
            ordering_fields: The column or columns whose larger value wins of two rows with one key; else the
                later row wins.
            table_name: By default the folder's name.
            table_type: ``COPY_ON_WRITE``, the default, or ``MERGE_ON_READ``.
            table_version: 6, 8 or 9, the default; see ``docs/upgrading.md``.
            properties: See the class. Those that describe a table are stored in it.
            storage_options: See the class.
            catalog: The catalog that gets the name; see `hoodie.write_table`. A schema then makes a first commit
                without rows, as a catalog is told of commits.
            location: The folder, if a catalog is given.

        Raises:
            TableExistsException: The folder is a table already, or the name is taken.
            HoodieConfigException: The arguments do not describe a table, or the folder holds other files.
            HoodieSyncException: The entry could not be made; the table stays.
            HoodieException: Any error of `hoodie.write_table`.
        """
        described: dict[str, Any] = {
            "table_name": table_name,
            "record_key_fields": record_key_fields,
            "partition_fields": partition_fields,
            "ordering_fields": ordering_fields,
            "table_type": table_type,
            "table_version": table_version,
        }
        if catalog is not None or location is not None:
            if catalog is None or location is None:
                raise HoodieConfigException(
                    "catalog and location belong together: the first argument is the name of the table then, and "
                    "location its folder"
                )
            tables = CatalogTables.of(catalog, properties, storage_options)
            is_schema = isinstance(schema_or_data, pa.Schema)
            rows = schema_or_data.empty_table() if is_schema else schema_or_data
            write_table(rows, os.fspath(path), catalog=tables, location=location, **described)
            return cls(path, catalog=tables)
        made = cls(path, properties=properties, storage_options=storage_options)
        described |= {"properties": made._properties, "storage_options": storage_options}
        if isinstance(schema_or_data, pa.Schema):
            create_table(schema_or_data, config_of_arguments(made._path, **described))
        else:
            write_table(schema_or_data, made._path, mode="errorifexists", **described)
        return made

    @property
    def path(self) -> str:
        """The table's folder, as it was given."""
        return self._path

    def __repr__(self) -> str:
        if self._named is not None:
            return f"hoodie.Table({self._named.name!r}, catalog={self._named.catalog!r})"
        return f"hoodie.Table({self._path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._storage_options
        if isinstance(options, Mapping) and secrets_of(options):
            raise HoodieConfigException(
                f"{self!r} has credentials as values, and a pickle would carry them: give storage_options as a "
                "function that returns them"
            )
        if secret := [key for key in self._properties if is_sensitive(str(key))]:
            raise HoodieConfigException(f"{self!r} has {', '.join(secret)} as a value, and a pickle would carry it")
        return _unpickled, (self._path, self._properties, options, self._named)

    # --- reading ------------------------------------------------------------------------------------------------

    def _plan(self, columns: Columns, where: Filters, as_of: QueryTime | None = None) -> ReadPlan:
        return plan_rows(
            self._path,
            columns=columns,
            filters=where,
            as_of=as_of,
            options=self._read_options,
            storage_options=self._storage_options,
        )

    def schema(self) -> pa.Schema:
        """The columns of the newest commit, without Hudi's.

        Raises:
            TableNotFoundException: There is no table.
            HoodieSchemaException: The table was created without columns, and never written.
        """
        return self._load().load_schema()

    def as_of(self, time: QueryTime) -> PinnedTable:
        """The table as it was at a time, for reading.

        Args:
            time: An instant (``"20260102101530123"``), a date (``"2026-01-02"``), a time (``"2026-01-02 10:15:30"``),
                or a date or datetime of Python; see `hoodie.read_table`.

        Raises:
            HoodieConfigException: It is no time. (Reading raises if the files of that time were cleaned.)
        """
        times = QueryTimes(as_of=time)
        times.check(TableQuery.of().query_type)
        return PinnedTable(f"{self!r}.as_of({str(time)!r})", partial(self._plan, as_of=time))

    @contextmanager
    def snapshot(self) -> Iterator[PinnedTable]:
        """The table as it is now, for several reads of one state.

            with trips.snapshot() as now:
                now.count(), now.read(where="fare > 50")

        Files are not held: if a clean of a later commit deletes some, reading them raises `HoodieIOException`.
        """
        pinned = self._load()
        newest = pinned.active_timeline.completed_writes().last_instant

        def plan(columns: Columns, where: Filters) -> ReadPlan:
            query = TableQuery.of(columns=columns, filters=where, options=self._read_options)
            return plan_of(pinned, query)

        yield PinnedTable(f"{self!r} at {'no commit' if newest is None else newest.requested_time}", plan)

    def changes(
        self,
        since: QueryTime | None = None,
        until: QueryTime | None = None,
        *,
        columns: Columns = None,
        where: Filters = None,
        meta_columns: bool = False,
        deletes: bool = False,
    ) -> TableChanges:
        """The rows that were written in a range of commits, each once with its latest value in the range.

            day = trips.changes(since=last_time)
            ...
            last_time = day.until

        Deleted rows are among them only with ``deletes``. Then each change of a row is given, in an order in which
        they can be applied: ``op`` (``i``, ``u`` or ``d``), ``_hoodie_commit_time``, and the rows ``before`` and
        ``after``. Of a table that stores no changes (``hoodie.table.cdc.enabled``), these are the differences of its
        rows at both ends of the range.

        Args:
            since: The range begins after this time, in the forms of `as_of`; None for the beginning.
            until: It ends at this time; None for the newest commit.
            columns: See `read`; with ``deletes``, the columns of the rows before and after.
            where: See `read`; with ``deletes``, the row before or the row after passes.
            meta_columns: See `read`; refused with ``deletes``.
            deletes: Whether changes are given, deletes included.

        Returns:
            The rows, and the time to give as ``since`` next.

        Raises:
            HoodieIOException: Commits of the range were archived, or their files cleaned.
            HoodieException: See `hoodie.read_table`.
        """
        if deletes:
            if meta_columns:
                raise HoodieConfigException("changes(deletes=True, meta_columns=True): changes have no meta columns")
            options, storage = self._read_options, self._storage_options
            return row_changes(self._path, since, until, columns, where, options, storage)
        return changed_rows(
            self._path,
            since,
            until,
            columns,
            where,
            self._read_options,
            self._storage_options,
            meta_columns=meta_columns,
        )

    def lookup(self, keys: Any, columns: Columns = None, *, meta_columns: bool = False) -> pa.Table:
        """The rows with the given record keys, by the table's index, in no order.

        Args:
            keys: Values of the only key field (``["a", "b"]``), `HoodieKey`s, or rows with the key and partition
                columns; see `HoodieReadClient`.
            columns: See `read`.
            meta_columns: See `read`.

        Raises:
            HoodieKeyException: Keys are null, or do not name a row: give the partition too.
            HoodieException: See `HoodieReadClient.read`.
        """
        with HoodieReadClient(self._path, options=self._properties, storage_options=self._storage_options) as client:
            rows: pa.Table = client.read(keys, columns)
        if columns is not None or meta_columns:
            return rows
        return rows.select([name for name in rows.column_names if name not in META_COLUMN_SET])

    def explain_upsert(self, data: Any) -> UpsertPlan:
        """Show the file groups that an upsert would rewrite, and the files that it would make; writes nothing.

        Args:
            data: See `upsert`.
        """
        return self._by_client(lambda client: client.explain_upsert(data))

    # --- writing ------------------------------------------------------------------------------------------------

    def upsert(self, data: Any, *, properties: Mapping[str, Any] | None = None) -> HoodieWriteResult:
        """Update the rows whose key is in the table, insert the others.

        Args:
            data: Anything that exports Arrow (pyarrow, pandas, polars, DuckDB), a dataset of pyarrow, an iterator of
                record batches, or a list of dicts; see `HoodieLocalWriteClient`.
            properties: Hudi's properties for this call, on top of those of the table.

        Returns:
            The outcome, which is committed; prints as a table of files.

        Raises:
            TableNotFoundException: There is no table: `create` makes one.
            HoodieException: See `HoodieLocalWriteClient.upsert`.
        """
        return self._by_client(lambda client: client.upsert(data), properties)

    def insert(self, data: Any, *, properties: Mapping[str, Any] | None = None) -> HoodieWriteResult:
        """Insert rows without looking their keys up: a key that is in the table is then stored twice.

        Arguments, result and errors are those of `upsert`.
        """
        return self._by_client(lambda client: client.insert(data), properties)

    def bulk_insert(self, data: Any, *, properties: Mapping[str, Any] | None = None) -> HoodieWriteResult:
        """Insert rows into new files, reading the input once as a stream: for first loads.

        Arguments, result and errors are those of `upsert`.
        """
        return self._by_client(lambda client: client.bulk_insert(data), properties)

    def overwrite(
        self, data: Any, *, scope: str = "table", properties: Mapping[str, Any] | None = None
    ) -> HoodieWriteResult:
        """Replace rows by others, in one commit; the old files stay until a clean deletes them.

        Args:
            data: The new rows; see `upsert`.
            scope: ``table`` replaces all rows, ``partitions`` only those of the partitions that the new rows go to.
            properties: See `upsert`.

        Raises:
            HoodieConfigException: The scope is another one.
            HoodieException: See `HoodieLocalWriteClient.insert_overwrite`.
        """
        if scope not in ("table", "partitions"):
            raise HoodieConfigException(f"scope is {shown_value(scope)}: give 'table' or 'partitions'")
        data = _begun(data)
        if scope == "table":
            return self._by_client(lambda client: client.insert_overwrite_table(data), properties)
        return self._by_client(lambda client: client.insert_overwrite(data), properties)

    def delete(self, keys: Any = None, *, where: Filters = None) -> HoodieWriteResult:
        """Delete the rows with given keys, or those that a condition matches.

        Args:
            keys: See `lookup`; keys that are not in the table are ignored.
            where: Instead of keys: a condition, as in `read`.

        Raises:
            HoodieConfigException: Neither is given, or both.
            HoodieException: See `HoodieLocalWriteClient.delete`.
        """
        _refuse_no_condition(where)
        return self._by_client(lambda client: client.delete(keys, where=where))

    def delete_partitions(self, partitions: Partitions) -> HoodieWriteResult:
        """Delete whole partitions, without reading them.

        Args:
            partitions: Partition paths, as `partitions` lists them; those that the table lacks are skipped.
        """
        return self._by_client(lambda client: client.delete_partitions(partitions))

    def forget(self, where: Filters, *, yes: bool = False, give_up_savepoints: Sequence[str] = ()) -> Erasure:
        """Erase rows from all files of the table: no byte of them is left below its folder.

            print(trips.forget("customer = 'ana'"))
            trips.forget("customer = 'ana'", yes=True)

        The rows are deleted in one commit. Then all versions of files but the newest are deleted, log files are merged,
        the metadata table is built anew, and partitions that are left without rows go, also from the timeline and the
        archive. So the table can be read, restored and compared as of its newest commit only. If a call fails or dies,
        a second one takes all steps again. It takes the time of reading the table, and memory for the matching rows.

        What the table does not hold stays where it is: copies of the table, versions that an object store keeps, an
        index in a database, extra metadata that programs gave to commits.

        Args:
            where: A condition, as in `read`.
            yes: Whether to do it; else nothing is changed, and the plan is returned.
            give_up_savepoints: Instants of savepoints that may be deleted, since they hold old files.

        Returns:
            The plan, or what was done; prints as a table of partitions.

        Raises:
            HoodieConfigException: There is no condition, or no such savepoint.
            HoodieSavepointException: With ``yes``: a savepoint is not given up; nothing was changed.
            HoodieWriteConflictException: With ``yes``: something else prevents it, as the plan tells, and nothing was
                changed; or another writer worked beside it: call again.
            HoodieNotSupportedException: The table has no meta columns.
            HoodieException: See `HoodieLocalWriteClient.delete`; call again.
        """
        _refuse_no_condition(where)
        if where is None:
            raise HoodieConfigException("where is None: give a condition; drop() deletes a table")
        if isinstance(give_up_savepoints, str):
            raise HoodieConfigException("give_up_savepoints is text: give a list of instants")
        erasure = TableErasure(self._committing_config(None), where, tuple(give_up_savepoints))
        if not yes:
            return erasure.plan()
        with one_after_another(erasure.config):
            return erasure.run()

    def update(self, where: Filters = None, set: Mapping[str, Any] | None = None) -> HoodieWriteResult:
        """Set columns of the rows that a condition matches, in one commit.

            trips.update("city = 'oslo'", {"fare": 99.0})
            trips.update("tip is null", {"fare": pyarrow.compute.field("fare") * 1.1})

        The rows are read as they are when the write begins, and held in memory. If another writer commits before this
        write does, it fails with a conflict and nothing of it is committed. In a table with an ordering field, a row
        whose new ordering value is smaller than the stored one stays as it is, and counts as ignored. Rows of one key
        that an insert has put into one file are changed together.

        Args:
            where: A condition, as in `read`; None for all rows.
            set: Column -> a Python value, or an expression of pyarrow over the table's columns. Text is a value.

        Returns:
            The outcome; its ``updated_count`` is the number of rows.

        Raises:
            HoodieConfigException: ``set`` is no dict of columns.
            HoodieKeyException: A column is part of the record key or the partition path.
            HoodieSchemaException: A column is not in the table, or a value does not fit its type.
            HoodieWriteConflictException: Another writer committed meanwhile; calling again is safe.
            HoodieException: See `HoodieLocalWriteClient.upsert_prepped_records`.
        """
        _refuse_no_condition(where)
        change = RowUpdate(where, set if set is not None else {})
        change.check()
        return self._by_client(lambda client: client.upsert_prepped_records(MadeOfTable(change)))

    def merge(
        self, source: Any, on: str | Sequence[str] | None = None, *, properties: Mapping[str, Any] | None = None
    ) -> TableMerge:
        """Merge rows into the table: update, delete and insert in one commit.

            trips.merge(changes).when_matched().update(["fare"]).run()
            trips.merge(cancelled, on="uuid").when_matched().delete().run()
            (
                trips.merge(changes)
                .when_matched("s.is_cancelled").delete()
                .when_matched("s.ts > t.ts").update({"fare": hoodie.col("s.fare"), "state": "paid"})
                .when_not_matched("not s.is_cancelled").insert_all()
                .run()
            )

        ``s`` is a row of the source, ``t`` the stored row with its key; see `TableMerge`. Of several clauses that apply
        to a row the first one counts.

        Args:
            source: The rows to merge; see `upsert`. They may have columns that the table lacks. At most one of them may
                apply to each key.
            on: The columns that both sides are compared by, or a condition such as ``"t.uuid = s.id"``: the record key,
                and all partition fields or none of them. Without partition fields a key is found in whatever partition
                it is; it must not be stored in several. With a global index they are left out. None: the record key,
                and the partition fields if the source has them. Both sides must have the same types. Where keys are
                generated, any columns: they must be given.
            properties: See `upsert`.

        Returns:
            The merge, without clauses; `TableMerge.run` writes.

        Raises:
            HoodieConfigException: A property is unknown or has a bad value.
        """
        return TableMerge(self._committing_config(properties), hold_input(source), on)

    def follow(
        self, source: Table | str | os.PathLike[str], *, identity: str | None = None, from_scratch: bool = False
    ) -> FollowResult:
        """Bring this table, a copy, up to date with its source, deletes included.

            copy = hoodie.Table("/backup/trips")
            copy.follow("s3://lake/trips")    # makes the copy, with all rows
            copy.follow("s3://lake/trips")    # later: inserts, updates and deletes since then

        The copy is made with the record key, the partitions and the columns of the source. Rows and position are one
        commit of the copy: a call that died is repeated, and of two calls at a time one fails. Only these calls should
        write rows to it. Of a key that the source holds several times in a partition, the copy may have one row or
        several. The changes since the last call are held in memory. They are read from the change data
        that the source stores (``hoodie.table.cdc.enabled``); where it stores none, two states of its files are
        compared. Either needs files that the source has cleaned at some time: call this more often than that.

        Args:
            source: The table to copy, or its folder, which is opened with the storage options of this table.
            identity: The name of the source that the copy's commits hold, by default the source's folder. Another name
                than last time is refused, so give the old one if the folder was moved.
            from_scratch: Copy all rows anew, in one commit, whatever the copy holds.

        Returns:
            The counts of rows, and the time up to which the copy holds the source.

        Raises:
            TableNotFoundException: There is no source.
            HoodieConfigException: The copy follows another source, has rows that no call wrote, or has other keys or
                partitions than the source, or an ordering field.
            HoodieIOException: The files of the last position were cleaned, or its commits archived.
            HoodieException: The source was restored to a time before the position, or made anew.
            HoodieNotSupportedException: The source has no record key; or the index finds keys in all partitions.
            HoodieWriteConflictException: Another process has brought the copy up to date meanwhile.
        """
        of = source if isinstance(source, Table) else Table(source, storage_options=self._storage_options)
        config = self._config({})

        def changes(since: str) -> ChangePlan:
            query = TableQuery.of(query_type="incremental", query_format="cdc", begin=since, options=of._read_options)
            return plan_changes(of._path, query, of._storage_options)

        with one_after_another(config):
            return Following(config, of._load, changes, identity, from_scratch).run()

    def add_columns(self, columns: pa.Schema | Mapping[str, pa.DataType]) -> pa.Schema:
        """Add columns, which are null in the rows that are there.

        Args:
            columns: Names with types; nullable ones.

        Returns:
            The columns of the table after that.

        Raises:
            HoodieConfigException: A column is there already, or the argument is no schema.
            HoodieException: See `HoodieLocalWriteClient.upsert`.
        """
        if not isinstance(columns, pa.Schema):
            if not isinstance(columns, Mapping) or not columns:
                raise HoodieConfigException(
                    f"columns are {shown_value(columns)}: give a schema, or a dict such as {{'tip': pyarrow.float64()}}"
                )
            columns = pa.schema(list(columns.items()))

        def rows(table: Any) -> pa.Table:
            stored = table.snapshot.load_schema()
            names = {name.lower() for name in stored.names}
            if twice := [name for name in columns.names if name.lower() in names]:
                raise HoodieConfigException(f"{self._path} has the column {', '.join(twice)} already")
            keys = TAGS if table.snapshot.table_config.is_keyless else ()
            return pa.schema([*stored, *columns, *((name, pa.string()) for name in keys)]).empty_table()

        self._by_client(lambda client: client.upsert(MadeOfTable(rows)))
        return self.schema()

    # --- looking ------------------------------------------------------------------------------------------------

    def describe(self) -> TableDescription:
        """The table at one look: keys, columns, rows, files, sizes, pending instants, services and savepoints.

        Rows are counted by footers, and only where that is cheap.
        """
        config = self._config({})
        return describe(look_as_writer(config), config)

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def history(
        self, limit: int | None = None, *, archived: bool = False, pending: bool = False
    ) -> SummaryTable[InstantSummary]:
        """The instants, the newest first, with the results of completed writes.

        Args:
            limit: The most instants; None for all.
            archived: Whether to give those of the archive too.
            pending: Whether to give only those that are not completed.
        """
        check_limit(limit)
        found = self._meta_client().history(archived=archived, pending=pending, newest=limit)
        return SummaryTable(InstantSummary, reversed(found))

    def instant(self, instant_time: str, action: str | None = None) -> InstantDetails:
        """All that the timeline, or else the archive, holds of one instant: files, columns, extra metadata, its plan.

        Args:
            instant_time: The time of its request.
            action: Its action, where several instants have that time: a savepoint has that of its commit.

        Raises:
            HoodieConfigException: There is no such instant.
        """
        return read_instant(self._load(), instant_time, action)

    def diff(self, since: str, until: str) -> TableDifference:
        """The file groups that the commits after one instant, up to another, wrote or replaced.

        Args:
            since: An instant time; commits up to it do not count.
            until: A later one, which counts.

        Raises:
            HoodieConfigException: They are no instant times, or not in this order.
        """
        return compare(self._load(), since, until)

    def export(self, folder: str | os.PathLike[str], *, archived: bool = False) -> ExportedInstants:
        """Write each instant as a JSON file into a local folder: ``<instant time>.<action>.json``.

        Args:
            folder: The folder; it is made if it is missing. A file that is there is replaced.
            archived: Whether archived instants are written too.
        """
        return export(self._load(), folder, archived=archived)

    def files(self, limit: int | None = None) -> SummaryTable[FileSummary]:
        """The newest slice of each file group, by partition.

        Args:
            limit: The most slices; None for all.
        """
        check_limit(limit)
        return SummaryTable(FileSummary, list(self._meta_client().files())[:limit])

    def partitions(self, limit: int | None = None) -> SummaryTable[PartitionSummary]:
        """The partitions, sorted, with the number and size of their newest slices.

        Args:
            limit: The most partitions; None for all.
        """
        check_limit(limit)
        return SummaryTable(PartitionSummary, list(self._meta_client().partitions())[:limit])

    def properties(self) -> dict[str, str]:
        """The table's properties, as ``.hoodie/hoodie.properties`` holds them."""
        return dict(self._load().table_config.properties)

    def set_properties(
        self, properties: Mapping[str, Any] | None = None, *, unset: Iterable[str] = (), dry_run: bool = False
    ) -> PropertiesChange:
        """Change properties of the table, under its lock; a property that is so already is left as it is.

        Properties that stored files follow are refused: keys, partitions, version, type and others; so are those that
        merge rows, in a merge-on-read table. The message says what to do instead.

        Args:
            properties: Properties to set.
            unset: Properties to remove; missing ones are ignored.
            dry_run: Change nothing, and tell what would be changed.

        Raises:
            HoodieConfigException: A property cannot be changed.
            HoodieLockException: The lock was not given.
        """
        config = self._config({})
        with one_after_another(config):
            return change_properties(config, properties, unset, dry_run=dry_run)

    def indexes(self) -> SummaryTable[TableIndex]:
        """The partitions of the metadata table: listing, statistics and indexes; empty without a metadata table."""
        table = self._load()
        config = table.table_config
        definitions = load_index_definitions(table.storage, table.meta_path)
        found = []
        for state, names in (("ready", config.metadata_partitions), ("building", config.metadata_partitions_inflight)):
            for name in names:
                kind = next((prefix for prefix in _INDEX_PREFIXES if name.startswith(prefix)), name)
                definition = definitions.get(name)
                columns = ", ".join(definition.source_fields) if definition is not None else ""
                found.append(TableIndex(name, kind, columns or None, state))
        return SummaryTable(TableIndex, found)

    def savepoints(self) -> list[HoodieSavepoint]:
        """The savepoints, the oldest first."""
        return savepoints(self._load().active_timeline)

    def create_index(self, column: str, name: str | None = None) -> bool:
        """Build a secondary index on a column, which queries with a condition on it ask.

        Args:
            column: A column of strings, integers or booleans.
            name: The name, of letters, digits and underscores; by default the column's.

        Returns:
            False if the table has that index already.

        Raises:
            HoodieException: See `HoodieLocalWriteClient.create_index`.
        """
        return self._by_client(lambda client: client.create_index(column if name is None else name, column))

    def drop_index(self, name: str) -> bool:
        """Delete a secondary index.

        Args:
            name: See `create_index`.

        Returns:
            False if the table has no such index.
        """
        return self._by_client(lambda client: client.drop_index(name))

    # --- care ---------------------------------------------------------------------------------------------------

    def compact(self) -> HoodieWriteResult | None:
        """Make base files of the log files of a merge-on-read table; queries give the same rows before and after.

        Returns:
            What was written; None if there was nothing to compact.
        """
        return self._by_client(lambda client: client.compact())

    def log_compact(self) -> HoodieWriteResult | None:
        """Make one log file of the log files of a file group; see `HoodieLocalWriteClient.log_compact`.

        Returns:
            What was written; None if there was nothing to compact.
        """
        return self._by_client(lambda client: client.log_compact())

    def optimize(
        self,
        sort_by: str | Sequence[str] = (),
        *,
        layout: str = "linear",
        partitions: Sequence[str] | None = None,
        dry_run: bool = False,
        properties: Mapping[str, Any] | None = None,
    ) -> OptimizeResult:
        """Put small files together, and order rows by the columns that queries filter; queries give the same rows.

        Without columns, file slices below 300 MB that are not alone in their partition are put together, up to 1 GB a
        file. With columns, all file slices of the partitions are rewritten. It is one clustering: readers see the old
        files or the new ones, and the old ones stay until a clean deletes them. Writers may go on meanwhile: what they
        change is left as it is.

        Args:
            sort_by: Columns to order the rows of a partition by; none keeps the order in which they are stored.
            layout: ``linear``: by the first column, then by the second, and so on. ``zorder``, ``hilbert``: along a
                curve, so that queries that filter any of the columns read few files.
            partitions: The partition paths to look at; None for all.
            dry_run: Write nothing, and tell what would be done.
            properties: Hudi's options, such as ``hoodie.clustering.plan.strategy.small.file.limit``; they go before the
                arguments above.

        Returns:
            The partitions, their numbers of files before and after, and for each column the number of files that cover
            a value, before and after; after a dry run it is an estimate.

        Raises:
            HoodieConfigException: A column is not in the table, or its values have no order; or an option is wrong.
            HoodieNotSupportedException: The table has a bucket index.
        """
        work = Optimization.of(sort_by, layout, self._committing_config, properties)
        chosen = work.in_partitions(partitions, self._load)
        if dry_run:
            return self._with_client(chosen.config, partial(chosen.run, dry_run=True))
        before = self._overlaps(work.columns)
        done = self._with_client(chosen.config, partial(chosen.run, dry_run=False))
        done = attrs.evolve(done, overlap_before=before)
        return done if done.instant_time is None else attrs.evolve(done, overlap_after=self._overlaps(work.columns))

    def clean(self, *, dry_run: bool = False) -> CleanResult:
        """Delete the old file versions that ``hoodie.clean.*`` does not keep; savepoints keep theirs.

        Args:
            dry_run: Delete nothing, and tell what would be deleted.
        """
        if not dry_run:
            return CleanResult.done(self._by_client(lambda client: client.clean()))
        planner = CleanPlanner(LocalEngineContext(), self._config({}).clean, self._load())
        return CleanResult.planned(planner.make_plan(None, may_delete_partitions=False))

    def expire_partitions(self, *, dry_run: bool = False) -> PartitionExpiry:
        """Delete the partitions that are too old by ``hoodie.partition.ttl.*``, which say after how many days.

        Args:
            dry_run: Delete nothing, and tell what would be deleted.

        Raises:
            HoodieDeleteException: All partitions are too old, or one that was written last.
        """
        return self._by_client(lambda client: client.expire_partitions(dry_run))

    def archive(self) -> ArchiveResult:
        """Move old instants from the active timeline to the archive, once there are more than
        ``hoodie.keep.max.commits``.
        """
        return ArchiveResult(self._by_client(lambda client: client.archive()))

    def savepoint(self, instant_time: str | None = None, *, user: str = "", comment: str = "") -> HoodieSavepoint:
        """Keep the files of a commit from being cleaned, so that the table can be restored to it.

        Args:
            instant_time: The commit; None for the newest one.
            user: The name of the person who asks for it.
            comment: The reason.
        """
        return self._by_client(lambda client: client.savepoint(instant_time, user, comment))

    def delete_savepoint(self, instant_time: str) -> bool:
        """Delete a savepoint.

        Args:
            instant_time: Its commit.

        Returns:
            False if there is none.
        """
        return self._by_client(lambda client: client.delete_savepoint(instant_time))

    def restore(self, instant_time: str) -> UndoResult:
        """Make a commit the newest one again: everything that is newer is undone and deleted.

        Args:
            instant_time: The commit.

        Raises:
            HoodieRestoreException: Its files were cleaned, it is archived, or a savepoint is newer.
        """
        return UndoResult("restore", self._by_client(lambda client: client.restore_to_instant(instant_time)))

    def rollback(self, instant_time: str | None = None) -> UndoResult:
        """Undo the newest commit, a pending one, or all writes that failed.

        Args:
            instant_time: The newest commit, or a pending instant; None for the writes that failed.

        Raises:
            HoodieRollbackException: The instant is completed and cannot be undone; `restore` may do it.
        """
        if instant_time is None:
            return UndoResult("rollback", tuple(self._by_client(lambda client: client.rollback_failed_writes())))
        done = self._by_client(lambda client: client.rollback(instant_time))
        return UndoResult("rollback", (instant_time,) if done else ())

    def validate(self) -> MetadataTableValidation:
        """Compare the metadata table with the table's files, and tell each difference."""
        return validate(self._path, storage_options=self._storage_options)

    def doctor(self, *, deep: bool = False) -> Diagnosis:
        """Look for what is wrong with the table, or will be, and tell the call that repairs it; changes nothing.

        It looks at properties, unreadable instants, stuck locks, writers that died, services that lag, log files and
        small files.

        Args:
            deep: Whether to look at all files too: those that no commit explains, metadata files of partitions, and the
                metadata table beside the files. Takes time with the number of files.

        Returns:
            The findings; prints as a table.
        """
        return diagnose(self._config({}), deep=deep)

    def stats(self, picture: str, *, by: str | None = None, columns: Sequence[str] = ()) -> SummaryTable[Any]:
        """The numbers of a picture; `hoodie.stats` has a function for each, which tells its columns.

        Args:
            picture: ``timeline``, ``growth``, ``amplification``, ``sizes``, ``partitions``, ``slices``, ``overlap`` or
                ``versions``.
            by: For ``sizes``: ``commit`` or ``partition``, the spread of sizes in each.
            columns: For ``overlap``: the columns whose ranges are compared; by default those of key and ordering.

        Raises:
            HoodieConfigException: There is no such picture or group.
            HoodieSchemaException: The table has no such column.
        """
        return self._numbers().of(picture, by, columns)

    def plot(self, picture: str) -> Picture:
        """A picture, which a notebook shows, and `Picture.save` writes as SVG.

        Args:
            picture: See `stats`.

        Raises:
            HoodieConfigException: There is no such picture.
        """
        return draw(self._numbers(), picture)

    def report(self, path: str | os.PathLike[str]) -> Report:
        """Write one HTML file with what `doctor` finds, with `describe`, and with all pictures and their numbers.

        The file loads nothing from elsewhere. Of large tables it shows the newest commits and the largest partitions
        and file groups, and says so.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            OSError: The file cannot be written.
        """
        return write_report(self._numbers(), path)

    def repair(self, what: str, *, dry_run: bool = False, **options: Any) -> RepairResult:
        """Repair what `doctor` finds; ``docs/operations.md`` says more of each repair.

        ==============  ================================================  ==============================================
        what            it                                                options
        ==============  ================================================  ==============================================
        ``duplicates``  keeps one row of each key                         ``partitions=``, ``across_partitions=``
        ``orphans``     moves files that no commit explains               ``backup_folder=`` or ``delete=True``,
                                                                          ``include_visible=``
        ``partitions``  writes metadata files of partitions again
        ``properties``  makes a lost ``hoodie.properties`` again          ``properties=``, ``check_rows=``
        ==============  ================================================  ==============================================

        Args:
            what: The repair.
            dry_run: Change nothing, and tell what would be done.
            options: The options of the repair.

        Raises:
            HoodieConfigException: There is no such repair or option, or one is missing.
            HoodieException: See the functions of `hoodie.table.repair`.
        """
        return repair(self._committing_config({}), what, dry_run=dry_run, options=options)

    def recover(self) -> UndoResult:
        """Undo the writes that failed, as the next write does: those whose writer has no living heartbeat."""
        return self.rollback()

    def locks(self) -> SummaryTable[TableLock]:
        """The locks that keep writers apart, with their holders; takes none.

        The lock provider is that of ``hoodie.write.lock.provider``; locks in files of the table are shown in any case.
        """
        return find_locks(self._config({}), self._load())

    def break_lock(self, lock: TableLock) -> bool:
        """Take a lock from a holder that is dead. A writer of hoodie that lives fails before it commits.

        Args:
            lock: One of `locks`.

        Returns:
            False if it was released, renewed or taken by another writer since.

        Raises:
            HoodieLockException: It cannot be broken: its holder releases it, or ends.
        """
        return break_lock(self._config({}), self._load(), lock)

    def markers(self, instant_time: str) -> SummaryTable[MarkedFile]:
        """The files that a write announced that is not completed.

        Args:
            instant_time: The write.
        """
        return markers_of(self._load(), instant_time)

    def upgrade(self, to_version: int = 9, *, dry_run: bool = False) -> TableVersionChange:
        """Upgrade the table to version 8 or 9; rows and history stay.

        Args:
            to_version: 8 or 9.
            dry_run: Change nothing, and tell what would be done.
        """
        return HoodieTableMetaClient.upgrade(self._config({}), to_version, dry_run=dry_run)

    def downgrade(self, to_version: int = 6, *, dry_run: bool = False) -> TableVersionChange:
        """Downgrade the table to version 8 or 6; rows and history stay.

        Args:
            to_version: 8 or 6.
            dry_run: See `upgrade`.
        """
        return HoodieTableMetaClient.downgrade(self._config({}), to_version, dry_run=dry_run)

    def sync(
        self,
        catalog: str | None = None,
        *,
        properties: Mapping[str, Any] | None = None,
        check: bool = False,
        full: bool = False,
    ) -> list[SyncResult]:
        """Tell a catalog of the table, so that Spark, Trino and Athena find it by name.

        Args:
            catalog: ``hms``, ``glue`` or ``manifest``; None for what Hudi's options say, or for the catalog that the
                table was opened by. See `hoodie.sync_table`.
            properties: Hudi's options for this call, on top of those of the table.
            check: Change nothing, and tell all differences.
            full: Compare everything, and repair all differences.

        Raises:
            HoodieSyncException: The catalog refuses, or cannot be reached.
        """
        return sync_catalogs(self._config(properties), catalog, check=check, full=full)

    def drop(self, *, dry_run: bool = False) -> TableRemoval:
        """Delete the table: all files of its folder, which must hold nothing but the table.

        A table that was opened by name loses its entry first, with all names that a merge-on-read table has; the
        catalog deletes no data. Entries of other tables, other names and other catalogs stay.

        If the call fails or dies, readers and writers refuse what is left, and a second call goes on.

        Args:
            dry_run: Delete nothing, and list what would be deleted.

        Returns:
            The folders; prints as a table.

        Raises:
            HoodieConfigException: Other files are in the folder, which are named, the path is a link, or it is that of
                a metadata table; nothing was deleted.
            HoodieHeartbeatException: A writer is at work; nothing was deleted.
            HoodieIOException: A link is in the folder, and nothing was deleted; or storage failed: call again.
        """
        config = self._committing_config(None)
        with one_after_another(config):
            return drop_table(config, dry_run=dry_run, before=self._drop_entries)

    # --- parts --------------------------------------------------------------------------------------------------

    def _drop_entries(self) -> None:
        if self._named is not None:
            CatalogTables(self._named.catalog, properties=self._properties).drop_entries(self._named)

    @property
    def _read_options(self) -> dict[str, Any]:
        return read_options(self._properties)

    def _config(self, properties: Mapping[str, Any] | None) -> HoodieWriteConfig:
        check_properties(properties)
        return HoodieWriteConfig.from_properties(
            self._path, {**self._properties, **(properties or {})}, self._storage_options
        )

    def _load(self) -> TableSnapshot:
        return TableSnapshot.load(self._path, self._storage_options)

    def _overlaps(self, columns: Sequence[str]) -> tuple[Overlap, ...]:
        """The overlap of columns in the newest files; nothing for those that have none, which `optimize` refuses."""
        table = self._load()
        if not columns or table.load_avro_schema() is None:
            return ()
        stored = range_columns(table).names
        known = [name for name in columns if name in stored]
        return tuple(self._numbers().overlap(known)) if known else ()

    def _numbers(self) -> TableNumbers:
        return TableNumbers(self._load(), self._config({}))

    def _meta_client(self) -> HoodieTableMetaClient:
        return HoodieTableMetaClient.load(self._path, self._storage_options)

    def _by_client(self, call: Callable[[HoodieLocalWriteClient], T], properties: Mapping[str, Any] | None = None) -> T:
        return self._with_client(self._committing_config(properties), call)

    def _with_client(self, config: HoodieWriteConfig, call: Callable[[HoodieLocalWriteClient], T]) -> T:
        with one_after_another(config), HoodieLocalWriteClient(config) as client:
            return call(client)

    def _committing_config(self, properties: Mapping[str, Any] | None) -> HoodieWriteConfig:
        config = self._config(properties)
        if config.write.auto_commit:
            return config
        return attrs.evolve(config, write=attrs.evolve(config.write, auto_commit=True))


class PinnedTable(TableReads):
    """A table at one moment, for reading; made by `Table.as_of` and `Table.snapshot`.

    Args:
        name: The text that its repr shows.
        plan: Plans a read of it.
    """

    def __init__(self, name: str, plan: Callable[[Columns, Filters], ReadPlan]) -> None:
        self._name = name
        self._planned = plan

    def _plan(self, columns: Columns, where: Filters) -> ReadPlan:
        return self._planned(columns, where)

    def schema(self) -> pa.Schema:
        """The columns of that moment, without Hudi's."""
        return self.explain().result_schema

    def __repr__(self) -> str:
        return f"<{self._name}>"


def _refuse_no_condition(where: Filters) -> None:
    """Refuse an empty list, which a program makes that added no condition: it would stand for all rows."""
    if isinstance(where, list | tuple) and not where:
        raise HoodieConfigException(
            "where is an empty list, which names no rows: give a condition; nothing was changed"
        )


def _begun(data: Any) -> Any:
    """An iterator with its first item read; one without any item would leave an empty table.

    Raises:
        HoodieConfigException: It has none: it is used up, or was empty from the start.
    """
    if not isinstance(data, Iterator) or isinstance(data, pa.RecordBatchReader):
        return data
    first = next(data, data)
    if first is data:
        raise HoodieConfigException(
            "data is an iterator without any item, as one that was read before: nothing was changed. Make it anew, or "
            "give an empty table to leave no rows"
        )
    return chain([first], data)


def _unpickled(
    path: str, properties: Mapping[str, Any], storage_options: StorageOptions | None, named: NamedTable | None
) -> Table:
    made = Table(path, properties=properties, storage_options=storage_options)
    made._named = named
    return made
