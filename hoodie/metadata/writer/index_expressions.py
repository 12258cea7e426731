"""The functions of expression indexes that hoodie computes as Spark does.

==============  ==================================  ================================================================
function        columns                             reason
==============  ==================================  ================================================================
identity        see `_KEPT_AS_THEY_ARE`             nothing is computed
length          strings                             both count code points
lower, upper    strings of ASCII                    Java has rules of its own elsewhere: the sharp s, the last sigma
                                                    of a word, the Turkish i
==============  ==================================  ================================================================

All others differ between Spark and Arrow, or depend on the time zone of Spark's session. An index of another function
cannot be kept up.

Hudi: org.apache.hudi.index.expression.ExpressionIndexSparkFunctions.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_IDENTITY = "identity"
_OF_TEXTS = ("length", "lower", "upper")
_IN_DEFINITIONS_V1 = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
)
"""Types whose ranges have the same form in definitions of version V1 and V2."""
_KEPT_AS_THEY_ARE = (*_IN_DEFINITIONS_V1, pa.date32(), pa.timestamp("us", "UTC"))
_PRINTED_ALIKE = (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string())
"""Types whose values Arrow prints as Java does, as bloom filters need them."""


class UnknownValuesError(Exception):
    """The values of an expression index cannot be computed; the text says why."""


@attrs.frozen
class IndexExpression:
    """The expression of an index: a function of one column.

    Attributes:
        function: The function.
        field: The column, as a field of the table's schema.
        is_bloom_filter: Whether the index has bloom filters; ranges if not.
    """

    function: str
    field: pa.Field
    is_bloom_filter: bool

    @classmethod
    def of(cls, definition: HoodieIndexDefinition, schema: pa.Schema) -> IndexExpression:
        """The expression of a definition.

        Args:
            definition: The definition of an expression index.
            schema: The table's columns.

        Raises:
            UnknownValuesError: hoodie does not compute it.
        """
        if definition.index_type not in (COLUMN_STATS, BLOOM_FILTERS):
            raise UnknownValuesError(f"it is of the type {definition.index_type}")
        column = definition.source_fields[0] if len(definition.source_fields) == 1 else None
        number = -1 if column is None else schema.get_field_index(column)
        if column is None or number < 0:
            raise UnknownValuesError(f"the table has no column {', '.join(definition.source_fields)} on its top level")
        function, field = definition.function, schema.field(number)
        is_bloom_filter = definition.index_type == BLOOM_FILTERS
        known = _OF_TEXTS if pa.types.is_string(field.type) else ()
        if function not in (_IDENTITY, *known):
            raise UnknownValuesError(f"hoodie does not compute {function}({column}) of the type {field.type}")
        types = _KEPT_AS_THEY_ARE if definition.is_hashed_by_value else _IN_DEFINITIONS_V1
        if field.type not in (_PRINTED_ALIKE if is_bloom_filter else types):
            raise UnknownValuesError(f"hoodie does not index {column} of the type {field.type} by expressions")
        return cls(function, pa.field(column, field.type), is_bloom_filter)

    def compute(self, values: pa.Array) -> pa.Array:
        """The values of the expression.

        Args:
            values: Values of the column.

        Raises:
            UnknownValuesError: They are not ASCII, and the function changes them.
        """
        if self.function == _IDENTITY:
            return values
        if self.function == "length":
            return pc.utf8_length(values).cast(pa.int32())
        if pc.any(pc.invert(pc.string_is_ascii(values))).as_py():
            raise UnknownValuesError(
                f"{self.field.name} has values that are not ASCII, for which {self.function} differs"
            )
        change: Callable[[pa.Array], pa.Array] = pc.ascii_lower if self.function == "lower" else pc.ascii_upper
        return change(values)
