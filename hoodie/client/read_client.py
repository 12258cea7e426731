"""The read client: look-ups of rows and their places by key.

Hudi: org.apache.hudi.client.HoodieReadClient.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, overload

import attrs
import pyarrow as pa

from hoodie.client.held_input import hold_input
from hoodie.client.key_input import KeyInput
from hoodie.client.shown_client import client_html
from hoodie.common.config.property import display_value
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieConfigException, HoodieException, HoodieIndexException
from hoodie.index.bloom.bloom_index import HoodieBloomIndex
from hoodie.index.bloom.global_bloom_index import HoodieGlobalBloomIndex
from hoodie.index.bucket.layout_check import check_layout
from hoodie.index.bucket.table_layout import TableLayout, config_of_table
from hoodie.index.index_factory import create_index
from hoodie.index.index_report import IndexReport, IndexWork
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.query.read_plan import check_columns
from hoodie.query.repeated_planning import plan_until_complete
from hoodie.query.table_query import checked_columns
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.key_lookup import KeyedInput, KeyLookup
from hoodie.table.open_table import look_as_writer
from hoodie.table.table import HoodieTable

T = TypeVar("T")
_INDEX_TYPE = "hoodie.index.type"
_INDEX_CLASS = "hoodie.index.class"
_SPARK_CLIENT = "hoodie.spark.spark_rdd_read_client", "SparkRDDReadClient"


class HoodieReadClient:
    """Looks up keys in one table; a context manager. It never writes, and never takes a lock.

    ``HoodieReadClient(base_path)`` works in this process, on all its cores, and gives Arrow tables.
    ``HoodieReadClient(spark, base_path)``, with a session or a `HoodieSparkEngineContext`, works with Spark's executors
    and gives DataFrames (it makes a `SparkRDDReadClient`). Each call sees the newest commit.

    The index names the file groups that can hold the keys; only these are searched, and only the row groups with a
    wanted row are read. Without ``hoodie.index.type`` the index is BLOOM, as in Hudi's read client. It finds the keys
    of any table, whichever index wrote it: it asks the key ranges, the bloom filters and the statistics of the base
    files. If the table has a record index of the whole table, that is asked first: for a key that it has in the key's
    own partition, only that file group is searched. hoodie stores no copies of a key in other file groups of such a
    table. If another writer has stored copies in one partition, the result has one of them, and all of them with
    ``hoodie.index.type=BLOOM``. In a table with buckets, BUCKET names one file group for each key; number of buckets
    and hash field must be those of the table's writers. With a global index a key is looked for in all
    partitions. If a table stores no keys (``hoodie.populate.meta.fields=false``), the key columns of its files are read
    instead.

    Keys are `HoodieKey`s; record keys as strings, if the table has no partitions or the index is global; or rows with
    the record key and partition columns (for a global index the key columns are enough), in any form that
    `HoodieLocalWriteClient` takes, or as a DataFrame on Spark. Use a client from one thread only.

    Args:
        spark_or_context: A session, or the context of an engine; left out for look-ups in this process.
        base_path: The table's folder.
        options: Hudi's properties, such as ``hoodie.index.type``; see `HoodieWriteConfig.from_properties`.
        storage_options: Options and credentials of the storage.

    Raises:
        HoodieConfigException: An argument has the wrong type, or an option is unknown or has a bad value.
        HoodieException: The session was stopped.

        >>> import hoodie
        >>> with hoodie.HoodieReadClient("/data/trips") as client:  # doctest: +SKIP
        ...     client.read([hoodie.HoodieKey("trip-17", "amsterdam")], columns=["rider", "fare"])

    Hudi: org.apache.hudi.client.HoodieReadClient (``read`` is its ``readROView``). Differs: reads only the rows of the
    keys; its results have a row for each key, duplicates too.
    """

    supported_indexes: ClassVar[frozenset[str]] = frozenset(map(str, IndexType))

    def __new__(cls, spark_or_context: Any = None, *arguments: Any, **named: Any) -> Self:
        """Choose the class for the engine."""
        is_local = spark_or_context is None or isinstance(spark_or_context, str | os.PathLike | LocalEngineContext)
        if cls is not HoodieReadClient or is_local:
            return super().__new__(cls)
        module, name = _SPARK_CLIENT
        try:
            # By its name: this package works where pyspark is absent.
            spark_client = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise HoodieConfigException(
                f"the first argument of HoodieReadClient is {shown_value(spark_or_context)}: give the table's folder, "
                f"or a SparkSession and the folder ({error}; install pyspark for that)"
            ) from error
        client: Self = super().__new__(spark_client)
        return client

    @overload
    def __init__(
        self,
        base_path: str | os.PathLike[str],
        /,
        *,
        options: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        base_path: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        spark_or_context: Any,
        base_path: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None: ...

    def __init__(
        self,
        spark_or_context: Any = None,
        base_path: Any = None,
        *,
        options: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        if base_path is None and isinstance(spark_or_context, str | os.PathLike):
            spark_or_context, base_path = None, spark_or_context
        if not isinstance(base_path, str | os.PathLike):
            raise HoodieConfigException(
                f"base_path of {type(self).__name__} is {shown_value(base_path)}: give the table's folder"
            )
        if isinstance(spark_or_context, str | os.PathLike):
            raise HoodieConfigException(
                f"HoodieReadClient got two paths, {spark_or_context!s} and {base_path!s}: give one, or a SparkSession "
                "and one"
            )
        given = dict(options or {}) if isinstance(options, Mapping | None) else options
        self._is_index_chosen = not isinstance(given, dict) or bool(given.keys() & {_INDEX_TYPE, _INDEX_CLASS})
        if isinstance(given, dict) and not self._is_index_chosen:
            given[_INDEX_TYPE] = IndexType.BLOOM.value
        self._config = HoodieWriteConfig.from_properties(base_path, given, storage_options)
        self._given_config = self._config
        index_type = str(self._config.index.index_type)
        if self._config.index.index_class is None and index_type not in self.supported_indexes:
            raise HoodieConfigException(
                f"{_INDEX_TYPE}={index_type} is not for {type(self).__name__}: use one of "
                + ", ".join(sorted(self.supported_indexes))
            )
        self._context = self._engine(spark_or_context)
        self._metrics = HoodieMetrics(
            self._context.job,
            (),
            self._context.check_running,
            display_value("hoodie.base.path", self._config.base_path).strip("'"),
        )
        self._index = create_index(self._config)
        # Finds rows in the file groups that the index names without them.
        self._exact = (HoodieGlobalBloomIndex if self._index.is_global else HoodieBloomIndex)(self._config)
        self._work = IndexWork()
        self._is_closed = False

    def __repr__(self) -> str:
        path = display_value("hoodie.base.path", self._config.base_path)
        closed = ", closed" if self._is_closed else ""
        return f"<{type(self).__name__} of {path}, index {self._config.index.index_name}{closed}>"

    def _repr_html_(self) -> str:
        return client_html(type(self).__name__, self._config, ["closed"] if self._is_closed else [])

    def __enter__(self) -> Self:
        self._check_open("with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the client keeps of the table, such as key ranges; every later call raises `HoodieException`.

        Results of earlier calls stay usable. A second call does nothing.
        """
        if not self._is_closed:
            self._is_closed = True
            del self._index, self._exact

    @property
    def config(self) -> HoodieWriteConfig:
        """The parsed options."""
        return self._config

    @property
    def metrics(self) -> HoodieMetrics:
        """The steps of the newest call."""
        return self._metrics

    @property
    def index_report(self) -> IndexReport:
        """The work of the index in the newest call: what it judged and read. If the engine joins, tasks read later."""
        return self._work.report()

    def read(self, keys: Any, columns: str | Sequence[str] | None = None) -> Any:
        """The stored rows with the given keys, in no order; keys that are not stored have none.

        A stored row comes once, however often its key is given. If a key is stored several times, all its rows come.

        Args:
            keys: See the class.
            columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first; [] for
                rows without columns, which can be counted.

        Returns:
            A `pyarrow.Table`, or on Spark a DataFrame. Its columns are those of `hoodie.read_table`.

        Raises:
            TableNotFoundException: There is no table at that path.
            HoodieKeyException: Keys are null or empty, key columns are missing, or record keys alone do not name a row.
            HoodieConfigException: The columns are not names; or the options contradict the table.
            HoodieIndexException: The table has other buckets than the options say.
            HoodieSchemaException: A column is not in the table, or the keys have another type.
            HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        """
        wanted = checked_columns(columns)
        held = hold_input(keys)

        def rows(snapshot: TableSnapshot) -> Any:
            schema = _columns_of(snapshot, wanted)
            names = schema.names if wanted is None else wanted
            look = self._look_up(snapshot, lambda table: KeyInput(table).keys(held))
            if snapshot.load_avro_schema() is None:
                return self._empty(pa.schema([schema.field(name) for name in names]))
            # Rows without any column would be lost where batches are put together.
            found = self._result(look.stored_rows(schema, names or schema.names[:1]))
            return found if names else found.select([])

        return self._planned("read", rows)

    def check_exists(self, keys: Any) -> Any:
        """Whether keys are stored: one row for each given key, in their order, duplicates too.

        On Spark with more keys than the driver holds (64 MB), the rows come in no order.

        Args:
            keys: See the class.

        Returns:
            A `pyarrow.Table`, or on Spark a DataFrame:

            ==========================  ========  ===================================================================
            ``_hoodie_record_key``      string    the record key
            ``_hoodie_partition_path``  string    its partition; with a global index, the one where the key is stored
                                                  (any of several), null if it is not stored
            ``exists``                  bool      whether it is stored
            ==========================  ========  ===================================================================

        Raises:
            HoodieException: See `read`.
        """
        held = hold_input(keys)
        return self._planned(
            "check_exists",
            lambda snapshot: self._result(
                self._look_up(snapshot, lambda table: KeyInput(table).keys(held)).existence()
            ),
        )

    def filter_exists(self, records: Any) -> Any:
        """The records whose key is not stored; those whose key is stored are dropped.

        Records are not combined: of several new records with one key all are kept.

        Args:
            records: Records as for the write clients.

        Returns:
            A `pyarrow.Table`, or on Spark a DataFrame: the records' columns without meta columns, in the types that
            are stored, in the given order. `HoodieRecord`s become such a table too; hoodie's reserved columns carry
            their keys, so that a write takes it.

        Raises:
            HoodieException: See `read`.
        """
        return self._planned_records("filter_exists", records, KeyLookup.not_stored)

    def tag_location(self, records: Any) -> Any:
        """The records with the location of their key, as an upsert tags them.

        A record whose key is stored several times comes once for each location. With a global index a record whose key
        is stored in another partition comes with that partition; it is not divided into a delete and an insert.

        Args:
            records: Records as for the write clients.

        Returns:
            A `pyarrow.Table`, or on Spark a DataFrame, which ``upsert_prepped_records`` takes: ``_hoodie_record_key``
            and ``_hoodie_partition_path`` (string), the records' columns, then, null for a key that is not stored:

            ===================================  ========  ========================================================
            ``__hoodie_current_instant_time``    string    the instant of the file slice that holds the key
            ``__hoodie_current_file_id``         string    its file group
            ``__hoodie_current_row_position``    int64     its row in that file, from 0; null if it has log files
            ===================================  ========  ========================================================

        Raises:
            HoodieException: See `read`.
        """
        return self._planned_records("tag_location", records, KeyLookup.located)

    # --- the engine -----------------------------------------------------------------------------------------------

    def _engine(self, given: Any) -> HoodieEngineContext:
        """The engine: the given one, or all cores of this process."""
        return given if given is not None else LocalEngineContext()

    def _read_again(self, data: HoodieData) -> HoodieData:
        """The rows, so that they can be read twice: for their keys, and for the result."""
        return data.persist()

    def _result(self, data: HoodieData) -> Any:
        """The rows in the form that callers get."""
        return data.collect()

    def _empty(self, schema: pa.Schema) -> Any:
        """No rows."""
        return schema.empty_table()

    # --- looking up -----------------------------------------------------------------------------------------------

    def _planned(self, name: str, plan: Callable[[TableSnapshot], T]) -> T:
        """Make a call on the newest snapshot, again if files that it needs were deleted meanwhile."""
        with self._call(name):
            return plan_until_complete(self._load, plan)

    def _planned_records(self, name: str, records: Any, rows: Callable[[KeyLookup], HoodieData]) -> Any:
        # Imported here: reads of keys prepare no records, and start earlier without.
        from hoodie.client.write_input import WriteInput

        held = hold_input(records)

        def given(table: HoodieTable) -> KeyedInput:
            return KeyInput(table).keyed(WriteInput(table).records_to_data(held))

        return self._planned(name, lambda snapshot: self._result(rows(self._look_up(snapshot, given))))

    def _load(self) -> TableSnapshot:
        config = self._config
        with self._metrics.step("load the table"):
            snapshot = look_as_writer(config)
            snapshot.table_config.check_readable()
            config.check_against_table(snapshot.table_config)
        return snapshot

    def _look_up(self, snapshot: TableSnapshot, given: Callable[[HoodieTable], KeyedInput]) -> KeyLookup:
        """Look up the keys of a caller's rows."""
        stores_keys = snapshot.table_config.populate_meta_fields
        layout = TableLayout(snapshot)
        if self._index.names_file_groups and stores_keys:
            config = config_of_table(self._given_config, layout)
            if config.index != self._config.index:
                self._config, self._index = config, create_index(config)
        table = HoodieTable(self._context, self._config, snapshot, self._index, self._metrics)
        if self._index.names_file_groups and stores_keys:
            try:
                check_layout(self._index, snapshot, table.record_key_fields, layout=layout)
            except HoodieIndexException as error:
                error.add_note(f"Nothing was read. Without {_INDEX_TYPE}, a read client finds the keys of any table.")
                raise
        key_generator = None if stores_keys else KeyInput(table).key_generator
        keyed = given(table)
        keyed = attrs.evolve(keyed, rows=self._read_again(keyed.rows))
        look = KeyLookup(table, keyed, self._exact, key_generator, is_index_chosen=self._is_index_chosen)
        self._work = look.work
        return look

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        self._check_open(name)
        self._metrics.restart()
        with self._metrics.operation(name):
            yield

    def _check_open(self, name: str) -> None:
        if self._is_closed:
            raise HoodieException(
                f"{name}: this client of {self._config.base_path} is closed, by close() or by the end of its with "
                f"block. Make a new {type(self).__name__} for further calls"
            )


def _columns_of(snapshot: TableSnapshot, wanted: Sequence[str] | None) -> pa.Schema:
    """All columns of a table, meta columns first, the wanted ones among them.

    Nothing may have been written yet. Then the wanted columns have no types.

    Raises:
        HoodieSchemaException: A wanted column is not in the table.
    """
    meta = pa.schema([(name, pa.string()) for name in META_COLUMNS])
    if snapshot.load_avro_schema() is None:
        return pa.schema([*meta, *((name, pa.null()) for name in wanted or () if name not in META_COLUMNS)])
    schema = pa.schema([*meta, *snapshot.load_schema()])
    check_columns(snapshot.base_path, schema, wanted or ())
    return schema
