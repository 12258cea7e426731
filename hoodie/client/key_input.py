"""Turn the keys that a caller passes into rows with keys, for deletes and look-ups.

Hudi has it in its clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property, reduce
from typing import Any
from uuid import UUID

import attrs
import numpy as np
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.stored_key_form import check_stored_key_form
from hoodie.common.data.record_source import key_arrays, record_batches
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    META_COLUMN_SET,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieKeyException, HoodieNotSupportedException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, read_footer
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.built_in_key_generators import has_field_prefix
from hoodie.keygen.key_generator import create_key_generator, key_form_depends_on_table
from hoodie.table.action.commit.record_preparer import RecordPreparer, WriterSchema
from hoodie.table.key_lookup import KeyedInput
from hoodie.table.table import HoodieTable


@attrs.frozen(kw_only=True)
class RecordKeysAlone(KeyGenerator):
    """Makes record keys of rows without partition columns; a global index finds the partition.

    Attributes:
        key_generator: The table's key generator.
    """

    key_generator: KeyGenerator

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """See `KeyGenerator.record_keys`."""
        return self.key_generator.record_keys(batch)


class KeyInput:
    """Makes the keys of a table's rows, from what a caller passes.

    Args:
        table: The table.
    """

    def __init__(self, table: HoodieTable) -> None:
        self._table = table
        self._snapshot = table.snapshot

    @cached_property
    def key_generator(self) -> KeyGenerator:
        """Makes the table's keys.

        Raises:
            HoodieKeyException: The stored keys have another format.
        """
        generator = create_key_generator(
            self._snapshot.table_config, self._single_field_prefix(), self._table.config.properties
        )
        check_stored_key_form(self._table, generator)
        return generator

    def with_stored_keys(self, data: HoodieData) -> HoodieData:
        """Rows without the meta columns that tell a place; without keys unless they have partition paths too.

        Args:
            data: Rows as `HoodieEngineContext.to_data` gives tagged ones.
        """
        names = data.schema.names
        dropped = {CURRENT_FILE_ID, *META_COLUMN_SET}
        if not {RECORD_KEY, PARTITION_PATH} <= set(names):
            dropped |= {RECORD_KEY, PARTITION_PATH}
        return data.select([name for name in names if name not in dropped])

    def keys(self, keys: Any) -> KeyedInput:
        """Keys in any form that `BaseHoodieWriteClient.delete` takes.

        Args:
            keys: The caller's argument.

        Raises:
            HoodieKeyException: Key or partition columns are missing, or the stored keys have another format.
            HoodieSchemaException: The keys have another type.
        """
        return self.keyed(self._keys_to_data(keys))

    def keyed(self, data: HoodieData) -> KeyedInput:
        """The rows, and the task that makes their keys as the table has them (``1``, not ``1.0``).

        Args:
            data: Rows with key and partition columns, or with reserved ones. A global index needs the key columns only.

        Raises:
            HoodieKeyException: See `keys`.
        """
        names = data.schema.names
        if RECORD_KEY in names:
            preparer = RecordPreparer(WriterSchema(), None, operation=RecordOperation.DELETE)
            return KeyedInput(data, (RECORD_KEY, PARTITION_PATH), preparer)
        generator = self.key_generator
        if generator.generates_keys:
            raise HoodieKeyException(
                f"{self._snapshot.base_path} has no record key fields, its keys are generated, and the rows lack "
                f"{RECORD_KEY_META} and {PARTITION_PATH_META}, which name stored rows: read the rows with these "
                "columns, or give a condition instead (delete(where=...)); nothing was written. Their columns are: "
                f"{', '.join(names)}"
            )
        columns = list(names)
        if not generator.reads_all_columns:
            fields = (*generator.record_key_fields, *generator.partition_fields)
            wanted = {top_level_name(data.schema, field) for field in fields}
            columns = [name for name in names if name in wanted]
        given = {name.partition(".")[0] for name in self._snapshot.table_config.partition_fields}
        if self._table.index.is_global and not given <= set(columns):
            generator = RecordKeysAlone(key_generator=generator, record_key_fields=generator.record_key_fields)
        schema = pa.schema([data.schema.field(name) for name in columns])
        writer_schema = WriterSchema(key_columns=_stored_types(schema, self._table_columns))
        preparer = RecordPreparer(writer_schema, generator.bind(schema), operation=RecordOperation.DELETE)
        return KeyedInput(data, columns, preparer)

    def _keys_to_data(self, keys: Any) -> HoodieData:
        if isinstance(keys, HoodieKey | str):
            keys = [keys]
        keys = _listed(keys)
        if isinstance(keys, list | tuple) and keys and all(isinstance(key, str) for key in keys):
            self._check_keys_alone()
            self._check_key_form(keys)
            keys = [HoodieKey(key) for key in keys]
        elif isinstance(keys, list | tuple) and keys and not any(isinstance(key, _NO_VALUES) for key in keys):
            return self._values_to_data(keys)
        if isinstance(keys, list | tuple) and all(isinstance(key, HoodieKey) for key in keys):
            schema = pa.schema([reserved_field(RECORD_KEY), reserved_field(PARTITION_PATH)])
            batch = pa.record_batch([*key_arrays(keys)], schema=schema)
            return self._table.context.generate([batch], as_it_is, schema)
        table_avro = self._snapshot.load_avro_schema()
        columns = to_arrow(table_avro) if table_avro else None
        if self.key_generator.generates_keys:
            return self.with_stored_keys(self._table.context.to_data(keys, columns, is_tagged=True))
        data = self._table.context.to_data(keys, columns)
        return data.select([name for name in data.schema.names if name not in META_COLUMN_SET])

    def _values_to_data(self, values: Sequence[Any]) -> HoodieData:
        """Values of the only key field as rows of it, in the type of the table's column."""
        fields = self._snapshot.table_config.record_key_fields or tuple(
            self._table.config.table.record_key_fields or ()
        )
        if not fields:
            raise HoodieKeyException(
                f"keys are values such as {short_repr(values[0])}, and {self._snapshot.base_path} has no record key "
                f"fields, its keys are generated: give HoodieKeys, or rows with {RECORD_KEY_META} and "
                f"{PARTITION_PATH_META}"
            )
        if len(fields) != 1:
            raise HoodieKeyException(
                f"keys are values such as {short_repr(values[0])}, and {self._snapshot.base_path} has "
                f"{len(fields)} record key fields ({', '.join(fields)}): give rows with these columns, or HoodieKeys"
            )
        self._check_keys_alone()
        names = fields[0].split(".") if fields[0] not in self._table_columns.names else [fields[0]]
        rows = [reduce(lambda inner, name: {name: inner}, reversed(names), value) for value in values]
        source = record_batches(rows, self._table_columns if len(self._table_columns) else None)
        return self._table.context.generate(list(source.batches), as_it_is, source.schema)

    def _check_keys_alone(self) -> None:
        """Refuse record keys as texts, and values of keys, if a record key may be in several partitions."""
        fields = self._snapshot.table_config.partition_fields
        if fields and not self._table.index.is_global:
            raise HoodieKeyException(
                f"keys are texts or values, and {self._snapshot.base_path} has partitions ({', '.join(fields)}), each "
                "of which may have a record of that key: give HoodieKey(record_key, partition_path), or rows with the "
                "key and partition columns, or use a global index (hoodie.index.type=GLOBAL_SIMPLE, GLOBAL_BLOOM or "
                "RECORD_INDEX)"
            )

    def _check_key_form(self, keys: Sequence[str]) -> None:
        """Refuse texts without the ``field:value`` parts that the table's keys have; such a key is never found.

        Where a text has another form, a stored key is looked at: `HoodieRecord`s may have brought keys of any form.
        """
        config = self._snapshot.table_config
        fields = config.record_key_fields
        form = re.compile(",".join(f"{re.escape(field)}:.*" for field in fields), re.DOTALL)
        other = next((key for key in keys if form.fullmatch(key) is None), None)
        if other is None or not fields:
            return
        try:
            if len(fields) == 1 and not key_form_depends_on_table(config):
                return
        except HoodieNotSupportedException:
            return
        stored = self._any_stored_key()
        if stored is not None and form.fullmatch(stored) is not None:
            raise HoodieKeyException(
                f"{short_repr(other)} is no record key of {self._snapshot.base_path}: its keys are "
                f"'{','.join(f'{field}:value' for field in fields)}', such as {short_repr(stored)}. Give keys of this "
                f"form, or rows with {'the column' if len(fields) == 1 else 'the columns'} {', '.join(fields)}"
            )

    def _single_field_prefix(self) -> bool | None:
        """Whether keys of one field start with its name; releases of Hudi differ in this.

        The stored keys of the table decide. Without any, ``hoodie.write.complex.keygen.new.encoding`` decides; Hudi
        ignores it on tables of version 9.
        """
        table_config = self._snapshot.table_config
        if not key_form_depends_on_table(table_config):
            return None
        key = self._any_stored_key()
        if key is not None:
            return has_field_prefix(key, table_config.record_key_fields[0])
        if table_config.table_version >= 9:
            return True
        new_encoding = self._table.config.table.complex_keygen_new_encoding
        return None if new_encoding is None else not new_encoding

    def _any_stored_key(self) -> str | None:
        """A record key of a base file of the table; None if there is none."""
        view = self._table.view
        files = (file for path in view.list_partitions() for file in view.latest_base_files(path))
        keys = (self._a_record_key(base_file.path) for base_file in files)
        return next((key for key in keys if key is not None), None)

    def _a_record_key(self, path: str) -> str | None:
        """Any stored key of a base file; None if it has no rows or its table has no meta fields."""
        storage = self._snapshot.storage
        key = read_footer(storage, path).min_record_key
        if key is not None:
            return key
        # The file has no bloom filter and so no key range in its footer.
        schema = pa.schema([(RECORD_KEY_META, pa.string())])
        with HoodieParquetReader(storage, path) as reader:
            for batch in reader.iter_batches([RECORD_KEY_META], schema, batch_rows=1):
                return batch.column(0)[0].as_py() if batch.num_rows else None
        return None

    @property
    def _table_columns(self) -> pa.Schema:
        return self._snapshot.load_schema() if self._snapshot.load_avro_schema() is not None else pa.schema([])


_NO_VALUES = (HoodieKey, HoodieRecord, Mapping, list, tuple, pa.RecordBatch, pa.Table)
"""Items of a list that are no values of a key field."""
_SCALARS = (int, float, bytes, Decimal, date, UUID, np.generic)


def _listed(keys: Any) -> Any:
    """Values in any container as a list; other keys as they are."""
    if isinstance(keys, _SCALARS):
        return [keys]
    if isinstance(keys, set | frozenset | range):
        return list(keys)
    if isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.dtype.names is None:
        return list(keys)
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return keys.to_pylist()
    is_column = type(keys).__module__.partition(".")[0] in ("pandas", "polars") and len(getattr(keys, "shape", ())) == 1
    return keys.to_list() if is_column else keys


def as_it_is(task: TaskIdentity, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A task that yields the batch that it is given."""
    yield batch


def _stored_types(schema: pa.Schema, table_schema: pa.Schema) -> pa.Schema:
    """The input's columns, with the table's types where the table has them."""
    known = set(table_schema.names)
    return pa.schema([table_schema.field(f.name).with_nullable(True) if f.name in known else f for f in schema])
