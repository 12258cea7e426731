"""The key generator of tables without partitions."""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.keygen.base_key_generator import KeyGenerator

__all__ = ["NonpartitionedKeyGenerator"]


@attrs.frozen
class NonpartitionedKeyGenerator(KeyGenerator):
    """The record key is the value of one field, or of several in the form of `ComplexKeyGenerator`; no partitions.

    Hudi: org.apache.hudi.keygen.{NonpartitionedKeyGenerator, NonpartitionedAvroKeyGenerator}.
    """

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        if len(self.record_key_fields) == 1:
            return self._single_key(batch)
        return self._composite_key(batch)
