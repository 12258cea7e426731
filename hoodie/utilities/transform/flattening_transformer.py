"""Columns instead of structs: ``a.b`` becomes ``a_b``.

Hudi: org.apache.hudi.utilities.transform.FlatteningTransformer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieTransformException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.transform.transformer import Transformer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class FlatteningTransformer(Transformer):
    """Makes a column of each field of a struct, at any depth. Arrays and maps stay as they are.

    A null struct gives nulls in all of its columns. Dots in the names of columns become ``_`` too.

    Hudi: org.apache.hudi.utilities.transform.FlatteningTransformer. Differs: two columns of one name are refused.
    """

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """See `Transformer.apply`.

        Raises:
            HoodieTransformException: Two columns would have the same name.
        """
        columns = [
            column
            for field, values in zip(table.schema, table.columns, strict=True)
            for column in _flat(field.name, field, values)
        ]
        _refuse_twins([field.name for field, _ in columns])
        return pa.Table.from_arrays(
            [values for _, values in columns], schema=pa.schema([field for field, _ in columns])
        )

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """See `Transformer.apply_to_frame`.

        Raises:
            HoodieTransformException: Two columns would have the same name.
        """
        # Imported here: only this method needs PySpark.
        from pyspark.sql.functions import col

        paths = list(_paths(frame.schema, ()))
        names = [_flat_name(".".join(path)) for path in paths]
        _refuse_twins(names)
        return frame.select(
            *(
                col(".".join(f"`{part.replace('`', '``')}`" for part in path)).alias(name)
                for path, name in zip(paths, names, strict=True)
            )
        )


def _flat(name: str, field: pa.Field, values: pa.ChunkedArray) -> Iterator[tuple[pa.Field, pa.ChunkedArray]]:
    if not pa.types.is_struct(field.type):
        yield field.with_name(_flat_name(name)), values
        return
    for index in range(field.type.num_fields):
        child = field.type.field(index)
        # This kernel hides what lies below a null struct.
        inner = pc.struct_field(values, [index])
        yield from _flat(f"{name}.{child.name}", child.with_nullable(field.nullable or child.nullable), inner)


def _paths(schema: StructType, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in schema.fields:
        path = (*above, field.name)
        if field.dataType.typeName() == "struct":
            yield from _paths(field.dataType, path)
        else:
            yield path


def _flat_name(path: str) -> str:
    return path.replace(".", "_")


def _refuse_twins(names: list[str]) -> None:
    if twins := [name for name, count in Counter(names).items() if count > 1]:
        raise HoodieTransformException(
            f"FlatteningTransformer would make several columns of the name {', '.join(twins)}: rename a column before, "
            "such as by SqlQueryBasedTransformer"
        )
