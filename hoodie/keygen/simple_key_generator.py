"""One key field and one partition field."""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.keygen.base_key_generator import KeyGenerator

__all__ = ["SimpleKeyGenerator"]


@attrs.frozen
class SimpleKeyGenerator(KeyGenerator):
    """The record key is the value of one field, the partition path the value of another.

    Hudi: org.apache.hudi.keygen.{SimpleKeyGenerator, SimpleAvroKeyGenerator}.
    """

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch)
