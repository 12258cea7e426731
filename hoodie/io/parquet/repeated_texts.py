"""Columns of text whose rows all have one value: the bytes of these rows are in memory once for all batches."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from hoodie.common.util.arrow_buffers import pieces_of


class RepeatedTexts:
    """Replaces dictionaries of one value, as Hudi's meta columns mostly are, by text.

    A column of text is as long in memory as its rows are; here the batches of a file share one array. Use it from one
    thread.

    Args:
        kept: Columns that stay dictionaries.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self._kept = kept
        self._made: dict[str, tuple[bytes, pa.Array]] = {}

    def in_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch whose dictionaries of one value and without nulls are text; the others stay.

        Args:
            batch: A batch with checked indices.
        """
        columns = [
            self._repeated(field.name, column) if self._is_repeated(field, column) else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _is_repeated(self, field: pa.Field, column: pa.Array) -> bool:
        return (
            pa.types.is_dictionary(field.type)
            and field.name not in self._kept
            and pa.types.is_string(field.type.value_type)
            and len(column.dictionary) == 1
            and not column.null_count
            and not column.dictionary.null_count
        )

    def _repeated(self, name: str, column: pa.DictionaryArray) -> pa.Array:
        count, value = len(column), column.dictionary[0].as_buffer().to_pybytes()
        known, made = self._made.get(name, (None, None))
        if known != value or made is None or len(made) < count:
            # Half as many bytes as an array of text can have.
            if count * len(value) > 1 << 30:
                return column.dictionary_decode()
            offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(value))
            made = pieces_of(np.tile(np.frombuffer(value, np.uint8), count), offsets, pa.string())
            self._made[name] = value, made
        return made.slice(0, count)
