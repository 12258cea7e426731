"""Turn the records that a caller passes to a write into batches in flight, with checked types and keys.

Hudi: org.apache.hudi.HoodieCreateRecordUtils and the beginnings of HoodieSparkSqlWriter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa

from hoodie.avro.field_defaults import default_values
from hoodie.avro.schema_converters import (
    add_meta_columns,
    to_arrow,
)
from hoodie.client.key_input import KeyInput, RecordKeysAlone, as_it_is
from hoodie.client.write_schemas import WriteSchemas, absent_marks, has_no_rows_ever
from hoodie.common.data.exact_numbers import LOSSY_OPTION
from hoodie.common.data.schema_compatibility import ColumnChange
from hoodie.common.data.stored_types import field_finder, find_field, spelled_otherwise
from hoodie.common.data.unknown_columns import unknown_columns
from hoodie.common.model.field_path import top_level_name, type_at
from hoodie.common.model.record import HoodieRecord
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    FILE_NAME_META,
    IS_DELETED_FIELD,
    META_COLUMN_SET,
    OPERATION,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_IDENTITY,
    TAGS,
    reserved_field,
)
from hoodie.common.model.unprepared_rows import SAMPLED_BAD_ROWS
from hoodie.common.model.write_operation_type import HoodieTableType, RecordOperation, WriteOperationType
from hoodie.config.payload_config import NewColumnPolicy
from hoodie.config.write_options import InsertDupPolicy, KeylessUpsert
from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    MissingSchemaFieldException,
    NullColumnException,
    SchemaCompatibilityException,
)
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.merge.appended_rows import refuse_changes_that_lose
from hoodie.merge.ordering_values import check_ordering_types, ordering_key
from hoodie.query.planner import plan_of
from hoodie.query.read_plan import PlannedSlice
from hoodie.query.table_query import Filters, TableQuery
from hoodie.table.action.commit.record_preparer import RecordChecks, RecordPreparer, WriterSchema
from hoodie.table.table import HoodieTable

logger = logging.getLogger(__name__)

PREPPED_OPERATIONS = frozenset(
    {
        WriteOperationType.INSERT_PREPPED,
        WriteOperationType.UPSERT_PREPPED,
        WriteOperationType.BULK_INSERT_PREPPED,
    }
)
"""Operations whose input brings keys and locations."""


_COMBINED_INSERTS = frozenset(
    {
        WriteOperationType.INSERT,
        WriteOperationType.BULK_INSERT,
        WriteOperationType.INSERT_OVERWRITE,
        WriteOperationType.INSERT_OVERWRITE_TABLE,
    }
)
"""Inserts that ``hoodie.combine.before.insert`` applies to."""
_UPSERTS = (WriteOperationType.UPSERT, WriteOperationType.UPSERT_PREPPED)
_OPERATIONS_WITHOUT_STORED_KEYS = _COMBINED_INSERTS | {
    WriteOperationType.INSERT_PREPPED,
    WriteOperationType.BULK_INSERT_PREPPED,
}


@attrs.frozen
class Where:
    """Keys to delete, given by a filter."""

    filters: Filters


@attrs.frozen
class MadeOfTable:
    """Records that are computed from the table's rows, as these are when the write begins.

    Attributes:
        make: Computes them from the table that the write sees.
    """

    make: Callable[[HoodieTable], Any]


@attrs.frozen
class PreparedInput:
    """Batches in flight, with their schemas and key generator.

    Attributes:
        records: Rows as `RecordPreparer` makes them.
        schemas: The write's schemas.
        key_generator: Explains rows without a key; None when the input brought its keys.
        operation: The operation that writes them: the one that was asked for, or an insert instead of an upsert.
    """

    records: HoodieData
    schemas: WriteSchemas
    key_generator: KeyGenerator | None
    operation: WriteOperationType


class WriteInput:
    """Turns what a caller passes into batches in flight.

    Args:
        table: The table that is written.
    """

    def __init__(self, table: HoodieTable) -> None:
        self._table = table
        self._context = table.context
        self._config = table.config
        self._snapshot = table.snapshot
        self._keys = KeyInput(table)

    def prepare(self, operation: WriteOperationType, records: Any) -> PreparedInput:
        """Prepare the input of an operation.

        Args:
            operation: The operation.
            records: The caller's argument; for a delete, keys or a `Where`.

        Raises:
            HoodieKeyException: Key or partition columns are missing, or the stored keys have another format.
            SchemaCompatibilityException, MissingSchemaFieldException: The columns do not fit the table's.
        """
        self._check_virtual_keys(operation)
        if isinstance(records, MadeOfTable):
            records = records.make(self._table)
        key_generator = self._keys.key_generator
        try:
            if operation is WriteOperationType.DELETE:
                return self._prepare_keys(records)
            if operation is WriteOperationType.DELETE_PREPPED:
                batch = records.in_flight()
                return PreparedInput(
                    self._context.generate([batch], as_it_is, batch.schema), self.table_schemas(), None, operation
                )
            return self._prepare_records(operation, records, key_generator)
        except NullColumnException as error:
            if error.column not in self._snapshot.table_config.record_key_fields:
                raise
            raise HoodieKeyException(
                f"column '{error.column}', a record key field of the table, is null in all records; nothing was written"
            ) from error

    def _check_virtual_keys(self, operation: WriteOperationType) -> None:
        """Refuse operations that need stored keys, if the table stores none."""
        if self._snapshot.table_config.populate_meta_fields:
            return
        property_name = "hoodie.populate.meta.fields=false"
        path = self._snapshot.base_path
        if operation not in _OPERATIONS_WITHOUT_STORED_KEYS:
            raise HoodieNotSupportedException(
                f"{operation.value.lower()}: {path} stores no record keys ({property_name}), so stored records cannot "
                "be found by them; nothing was written. insert and bulk_insert work; to change records use Hudi, or "
                "copy the rows into a table with meta fields"
            )
        write = self._config.write
        if write.duplicates_of_inserts is not InsertDupPolicy.NONE or not write.merge_allow_duplicate_on_inserts:
            raise HoodieNotSupportedException(
                f"{operation.value.lower()}: {path} stores no record keys ({property_name}), so records that "
                "are there already cannot be recognised; nothing was written. Leave out "
                "hoodie.datasource.write.insert.drop.duplicates, "
                "hoodie.datasource.insert.dup.policy and hoodie.merge.allow.duplicate.on.inserts"
            )

    def partition_paths(self, rows: Any) -> list[str]:
        """The partition paths of some rows, each once; tasks read the rows.

        Args:
            rows: Rows with the record key and partition columns, or `HoodieKey`s.

        Raises:
            HoodieKeyException: These columns are missing, or the path of some rows cannot be made.
        """
        keyed = self._keys.keys(rows)
        if isinstance(keyed.preparer.key_generator, RecordKeysAlone):
            fields = ", ".join(self._snapshot.table_config.partition_fields)
            raise HoodieKeyException(
                f"the rows lack the partition fields {fields} of the table, so the partitions to delete are not known; "
                f"nothing was written. Their columns are: {', '.join(keyed.rows.schema.names)}"
            )
        data = keyed.rows.select(keyed.columns)
        counts = data.map_batches(keyed.preparer, keyed.preparer.output_schema()).count_by([PARTITION_PATH])
        paths = counts[PARTITION_PATH].to_pylist()
        if None in paths:
            count = counts["count"][paths.index(None)].as_py()
            raise HoodieKeyException(
                f"{count} of the rows have no usable record key or partition path, so the partitions to delete are "
                f"not known; nothing was written. Correct these rows, or name the partitions"
            )
        return sorted(paths)

    def _prepare_keys(self, keys: Any) -> PreparedInput:
        if self._config.payload.partial_update:
            logger.debug("hoodie.write.partial.update = true concerns upserts only: the delete removes whole records")
        schemas = self.table_schemas()
        if isinstance(keys, Where):
            data = self._keys_where(keys)
            preparer = RecordPreparer(WriterSchema(), None, operation=RecordOperation.DELETE)
            return self._prepared(data, preparer, schemas, WriteOperationType.DELETE)
        keyed = self._keys.keys(keys)
        return self._prepared(keyed.rows.select(keyed.columns), keyed.preparer, schemas, WriteOperationType.DELETE)

    def _prepare_records(
        self, operation: WriteOperationType, records: Any, key_generator: KeyGenerator
    ) -> PreparedInput:
        is_prepped = operation in PREPPED_OPERATIONS
        generates_keys = key_generator.generates_keys
        if generates_keys and operation is WriteOperationType.UPSERT:
            data = self._keys.with_stored_keys(self.records_to_data(records, is_tagged=True))
        else:
            data = self.records_to_data(records, is_prepped)
        has_keys = RECORD_KEY in data.schema.names
        if generates_keys:
            operation = self._operation_without_key_fields(operation, has_keys)
            _check_text(data.schema, {RECORD_KEY: RECORD_KEY_META, PARTITION_PATH: PARTITION_PATH_META})
        is_tagged = operation is WriteOperationType.UPSERT_PREPPED
        if is_tagged and not {RECORD_KEY, PARTITION_PATH, CURRENT_FILE_ID} <= set(data.schema.names):
            raise HoodieKeyException(
                "the records do not carry their location: upsert_prepped_records takes rows with "
                f"{', '.join(TAGS)} as hoodie.read_table and hoodie.spark.read give them (null {FILE_NAME_META}: a new "
                "record), or a list of HoodieRecords with current_location. Or use upsert, which looks the keys up"
            )
        if not has_keys:
            bound = key_generator.bind(data.schema)
            if operation is WriteOperationType.BULK_INSERT and data.held_table is not None:
                _refuse_null_keys(data.held_table, bound)
        absent = self._absent_columns(operation, records, data.schema)
        marks = absent_marks(self._snapshot, self._table.merge_spec, [*data.schema.names, *absent])
        schemas = WriteSchemas.of(
            self._snapshot, self._config, pa.schema([*self._with_optional_marks(data.schema), *marks]), absent
        )
        # A table that never had a row takes the columns of the input: it keeps no others.
        absent = absent.intersection(schemas.columns.names)
        self._tell_of_relaxed_columns(schemas.changes)
        self._check_ordering_field(operation, schemas.columns)
        self._check_delete_flag(schemas.columns)
        merge_spec = self._table.merge_spec.for_input(schemas.columns, absent, default_values(schemas.avro))
        self._table.merge_spec = merge_spec
        if self._is_merge_on_read:
            refuse_changes_that_lose(merge_spec, schemas.columns)
        lacks_ordering = any(top_level_name(schemas.columns, field) in absent for field in merge_spec.ordering_fields)
        writer_schema = WriterSchema(
            schemas.columns,
            fills_missing=self._config.write.nulls_missing_columns or not self._has_schema or bool(absent or marks),
            rounded=self._rounded_columns(schemas),
        )
        checks = RecordChecks(
            ordering=self._is_merge_on_read or self._combines_upsert(operation),
            positions=self._is_merge_on_read,
            keys=key_generator
            if (is_prepped or generates_keys) and has_keys and OPERATION not in data.schema.names
            else None,
            # With hoodie.simple.index.update.partition.path=false a record may stay in another partition than its
            # columns say. Rows with generated keys name their place, so they cannot move.
            partitions=generates_keys or not self._table.index.is_global,
            max_key_bytes=self._config.write.record_key_max_bytes,
        )
        # Rows without keys among those that carry them: a merge inserts them, and so does an option.
        takes_new = generates_keys and (is_tagged or self._config.write.keyless_upsert is KeylessUpsert.INSERT)
        makes_keys = not has_keys or (takes_new and operation in _UPSERTS)
        preparer = RecordPreparer(
            writer_schema,
            key_generator.bind(schemas.columns) if makes_keys else None,
            () if lacks_ordering else merge_spec.ordering_fields,
            merge_spec=merge_spec,
            is_tagged=is_tagged,
            checks=checks,
        )
        if makes_keys and generates_keys:
            data = data.identify_rows(ROW_IDENTITY, operation not in _COMBINED_INSERTS)
        return self._prepared(data, preparer, schemas, operation)

    def _operation_without_key_fields(self, operation: WriteOperationType, has_keys: bool) -> WriteOperationType:
        """The operation on a table whose keys are generated.

        Args:
            operation: The operation that was asked for.
            has_keys: Whether the rows carry keys.

        Raises:
            HoodieKeyException: The rows of an upsert carry none, or those of an insert do.
        """
        path = self._snapshot.base_path
        if operation is WriteOperationType.UPSERT and not has_keys:
            if self._config.write.keyless_upsert is KeylessUpsert.INSERT:
                return WriteOperationType.INSERT
            raise HoodieKeyException(
                f"upsert: {path} has no record key fields, its keys are generated, and the rows do not carry the keys "
                f"of stored rows; nothing was written. insert adds them. To change stored rows, read them with "
                f"{RECORD_KEY_META} and {PARTITION_PATH_META} and upsert them with these columns, or use update() or "
                "merge() of hoodie.Table. hoodie.write.keyless.upsert=INSERT takes such an upsert for an insert, as "
                "Hudi does"
            )
        if operation in _COMBINED_INSERTS and has_keys:
            raise HoodieKeyException(
                f"{operation.value.lower()}: the records bring keys of their own, and those of {path} are generated; "
                "nothing was written. Give rows instead of HoodieRecords"
            )
        return operation

    @property
    def _is_merge_on_read(self) -> bool:
        """Whether rows are merged when they are read: what cannot be merged must not be stored.

        Readers disagree about null ordering values, or fail.
        """
        return self._snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ

    def _combines_upsert(self, operation: WriteOperationType) -> bool:
        return operation is WriteOperationType.UPSERT and self._config.write.combine_before_upsert

    def _rounded_columns(self, schemas: WriteSchemas) -> frozenset[str]:
        """Columns whose integers are rounded as ``hoodie.write.schema.widen.lossy`` allows; logs a warning for each."""
        rounded = [change for change in schemas.changes if change.is_rounded]
        for change in rounded:
            logger.warning("%s=true at %s: column %s", LOSSY_OPTION, self._snapshot.base_path, change)
        return frozenset(change.column for change in rounded)

    def _check_ordering_field(self, operation: WriteOperationType, columns: pa.Schema) -> None:
        """Refuse records without the ordering field, or with another spelling of it: their order would be unknown.

        As in Hudi, inserts that do not combine records need no ordering field.
        """
        fields = self._table.merge_spec.ordering_fields
        if not self._has_schema or self._snapshot.active_timeline.completed_writes().last_instant is None:
            check_ordering_types(columns, fields)
        field = next((field for field in fields if type_at(columns, field) is None), None)
        if field is None:
            return
        write = self._config.write
        combines = operation in _COMBINED_INSERTS and (
            write.combine_before_insert or write.duplicates_of_inserts is InsertDupPolicy.DROP
        )
        name = field.partition(".")[0]
        hint = spelled_otherwise(columns.names, [name])
        has_twin = name.lower() in map(str.lower, columns.names)
        if combines or has_twin or operation is WriteOperationType.UPSERT:
            raise MissingSchemaFieldException(
                f"the ordering field '{field}' of the table ({ordering_key(fields)}) is not a column of the "
                f"input{hint}, so it is unknown which record of a key is newer; nothing was written. Its columns "
                f"are: {', '.join(columns.names)}"
            )

    def _check_delete_flag(self, columns: pa.Schema) -> None:
        """Refuse a delete flag that is not boolean, unless the table already stores it as ordinary data."""
        flag = find_field(columns, IS_DELETED_FIELD)
        if flag is None or pa.types.is_boolean(flag.type):
            return
        if self._has_schema and find_field(self._snapshot.load_schema(), IS_DELETED_FIELD) is not None:
            return
        raise SchemaCompatibilityException(
            f"column '{flag.name}' has type {flag.type}: rows are deleted where {IS_DELETED_FIELD} is true, and a "
            "column of this type would be ordinary data; nothing was written. Make it boolean, or rename it"
        )

    def _absent_columns(self, operation: WriteOperationType, records: Any, schema: pa.Schema) -> frozenset[str]:
        """The table's columns that a partial update leaves unchanged."""
        is_asked_for = self._config.payload.partial_update
        if operation is not WriteOperationType.UPSERT or not (
            is_asked_for or self._table.merge_spec.keeps_absent_columns
        ):
            return frozenset()
        if is_asked_for:
            if RECORD_KEY in schema.names and not isinstance(records, list | tuple):
                raise HoodieSchemaException(
                    "an RDD of records does not show which columns are absent, so it cannot be a partial update: "
                    "give a DataFrame"
                )
            check_same_columns(records)
        if self._snapshot.load_avro_schema() is None:
            return frozenset()
        given = {name.lower() for name in schema.names}
        absent = frozenset(name for name in self._snapshot.load_schema().names if name.lower() not in given)
        if is_asked_for or absent:
            self._check_new_columns(schema)
        return absent

    def _with_optional_marks(self, schema: pa.Schema) -> list[pa.Field]:
        """The input's columns. Those that mark deletes may be null, whatever this input says: others may lack them."""
        marks = {name.lower() for name in self._table.merge_spec.delete_marks}
        return [field.with_nullable(True) if field.name.lower() in marks else field for field in schema]

    def _check_new_columns(self, schema: pa.Schema) -> None:
        """Refuse columns that a partial update would add to the table: they are usually misspelt."""
        payload, merge_spec = self._config.payload, self._table.merge_spec
        if payload.new_columns is NewColumnPolicy.ADD:
            return
        marks = [name for name in (IS_DELETED_FIELD, merge_spec.delete_field) if name is not None]
        unknown = unknown_columns(self._snapshot.load_schema(), schema, marks)
        if unknown:
            reason = "" if payload.partial_update else f", as {merge_spec.rules.short_name} takes it"
            raise SchemaCompatibilityException(
                f"the input is a partial update{reason}, and the table at {self._snapshot.base_path} does not have "
                f"its columns {', '.join(map(str, unknown))}; nothing was written. Correct these names, or set "
                "hoodie.write.partial.update.new.columns=ADD to add them to the table"
            )

    @staticmethod
    def _prepared(
        data: HoodieData, preparer: RecordPreparer, schemas: WriteSchemas, operation: WriteOperationType
    ) -> PreparedInput:
        prepared = data.map_batches(preparer, preparer.output_schema())
        # Keys to delete lack the columns that would explain which of them are bad.
        key_generator = preparer.key_generator if preparer.schema is not None else None
        return PreparedInput(prepared, schemas, key_generator, operation)

    def records_to_data(self, records: Any, is_tagged: bool = False) -> HoodieData:
        """The records as the engine's data; the types of values without types are those of the table.

        Args:
            records: The caller's argument.
            is_tagged: See `HoodieEngineContext.to_data`.

        Raises:
            HoodieSchemaException: The engine does not take them.
        """
        try:
            data = self._context.to_data(records, self._known_schema(), is_tagged)
        except HoodieSchemaException:
            # Values without types do not fit types that nobody chose.
            if not (isinstance(records, list | tuple) and has_no_rows_ever(self._snapshot)):
                raise
            declared = self._config.write.avro_schema
            data = self._context.to_data(records, to_arrow(declared) if declared else None, is_tagged)
        return data.select([name for name in data.schema.names if name not in META_COLUMN_SET])

    @property
    def _has_schema(self) -> bool:
        return self._snapshot.load_avro_schema() is not None

    def _tell_of_relaxed_columns(self, changes: Iterable[ColumnChange]) -> None:
        relaxed = [change.column for change in changes if change.takes_nulls]
        if relaxed:
            logger.info("%s: columns %s allow nulls from now on", self._snapshot.base_path, ", ".join(relaxed))

    def _known_schema(self) -> pa.Schema | None:
        """The types for input that has no schema: ``hoodie.avro.schema``, else the table's; names are the table's."""
        declared, stored = self._config.write.avro_schema, self._snapshot.load_avro_schema()
        if not declared or not stored:
            either = declared or stored
            return to_arrow(either) if either else None
        wanted = to_arrow(declared)
        find_wanted = field_finder(wanted)
        fields = [field.with_type((find_wanted(field.name) or field).type) for field in to_arrow(stored)]
        find = field_finder(fields)
        return pa.schema([*fields, *(field for field in wanted if find(field.name) is None)])

    def _keys_where(self, where: Where) -> HoodieData:
        """The keys of the stored rows that a filter matches; tasks read them."""
        snapshot = self._snapshot
        names = pa.schema([reserved_field(RECORD_KEY), reserved_field(PARTITION_PATH)])
        if snapshot.load_avro_schema() is None:
            return self._context.generate([], as_it_is, names)
        plan = plan_of(snapshot, TableQuery.of(filters=where.filters))
        context = attrs.evolve(plan.context, columns=(RECORD_KEY_META, PARTITION_PATH_META))
        return self._context.generate(plan.slices, _KeysWhere(context), names)

    def table_schemas(self) -> WriteSchemas:
        """The schemas of a write whose input has no data columns: the table's."""
        snapshot = self._snapshot
        avro = snapshot.load_avro_schema()
        if avro is None:
            return WriteSchemas(pa.schema([]), "", "")
        return WriteSchemas(snapshot.load_schema(), avro, add_meta_columns(avro))


def _refuse_null_keys(table: pa.Table, key_generator: KeyGenerator) -> None:
    """Refuse null keys of a bulk insert before it begins; a streamed input meets them only when files are written."""
    fields = {top_level_name(table.schema, field) for field in key_generator.record_key_fields}
    if not any(table[name].null_count for name in fields & set(table.schema.names)):
        return
    bad = [batch.filter(key_generator.record_keys(batch).is_null()) for batch in table.to_batches()]
    count = sum(batch.num_rows for batch in bad)
    if count:
        sample = next(batch for batch in bad if batch.num_rows).slice(0, SAMPLED_BAD_ROWS)
        raise HoodieKeyException(
            f"{count} of the records to bulk_insert have no usable key; nothing was written. "
            + key_generator.explain_bad_rows(sample)
        )


def check_same_columns(records: Any) -> None:
    """Refuse a partial update whose records have different columns: it is unclear whether a column is absent or null.

    Args:
        records: The caller's argument.

    Raises:
        HoodieSchemaException: They are dicts or `HoodieRecord`s with different columns.
    """
    if not isinstance(records, list | tuple):
        return
    kinds: dict[frozenset[str], int] = {}
    for number, record in enumerate(records):
        is_record = isinstance(record, HoodieRecord)
        data = (record.data or {}) if is_record else record
        # Deletes carry no columns.
        if isinstance(data, Mapping) and (data or (is_record and record.operation is RecordOperation.UPSERT)):
            kinds.setdefault(frozenset(data), number)
    if len(kinds) < 2:
        return
    (first, one), (second, other) = list(kinds.items())[:2]
    raise HoodieSchemaException(
        f"records {one} and {other} of a partial update have different columns, {', '.join(sorted(first ^ second))}: "
        "write records with the same columns together, and the others in another upsert"
    )


@attrs.frozen
class _KeysWhere:
    """Task: the keys of the rows in one file slice that a filter matches."""

    context: HoodieReaderContext

    def __call__(self, task: TaskIdentity, planned: PlannedSlice) -> Iterator[pa.RecordBatch]:
        for batch in planned.reader(self.context).scan():
            yield pa.RecordBatch.from_arrays(batch.columns, names=[RECORD_KEY, PARTITION_PATH])


def _check_text(schema: pa.Schema, columns: Mapping[str, str]) -> None:
    """Refuse keys and paths of rows that are no text.

    Args:
        schema: The columns in flight.
        columns: Their names -> the names that users know.

    Raises:
        HoodieKeyException: A column has another type.
    """
    for name, told in columns.items():
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_text = pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
        if not (is_text or pa.types.is_null(values)):
            raise HoodieKeyException(
                f"{told} is {kind}, and it names stored rows, so it must be text, as readers give it; "
                "nothing was written"
            )
