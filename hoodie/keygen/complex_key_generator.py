"""Several key fields, any number of partition fields."""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.keygen.base_key_generator import KeyGenerator

__all__ = ["ComplexKeyGenerator", "has_field_prefix"]


@attrs.frozen
class ComplexKeyGenerator(KeyGenerator):
    """The record key is ``field:value`` for each field, in their order, joined by commas.

        id = 1, name = "Alice"   id:1,name:Alice
        id = 1, name = null      id:1,name:__null__
        id = 1, name = ""        id:1,name:__empty__

    Attributes:
        single_field_prefix: With one key field only: whether the key is ``field:value`` (Hudi up to 0.14.0, and again
            from 0.14.2, 0.15.1, 1.0.3 and 1.1 on) or the value alone (the releases between). A table keeps the form
            that it started with, and its properties do not store which one: see `has_field_prefix`.

    Hudi: org.apache.hudi.keygen.{ComplexKeyGenerator, ComplexAvroKeyGenerator}.
    """

    single_field_prefix: bool = True

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        if len(self.record_key_fields) == 1 and not self.single_field_prefix:
            return self._single_key(batch)
        return self._composite_key(batch)


def has_field_prefix(record_key: str, field: str) -> bool:
    """Whether a stored key of a table with one key field has the form ``field:value``.

    Args:
        record_key: Any record key of the table, for example the smallest one in a base file's footer.
        field: The key field.
    """
    return record_key.startswith(f"{field}:")
