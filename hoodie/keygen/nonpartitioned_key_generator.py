"""Tables without partitions."""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.keygen.base_key_generator import KeyGenerator, composite_key, single_key

__all__ = ["NonpartitionedKeyGenerator"]


@attrs.frozen
class NonpartitionedKeyGenerator(KeyGenerator):
    """The record key is the value of one field, or of several as `ComplexKeyGenerator` writes them; no partitions.

    Hudi: org.apache.hudi.keygen.{NonpartitionedKeyGenerator, NonpartitionedAvroKeyGenerator}.
    """

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        if len(self.record_key_fields) == 1:
            return single_key(batch, self.record_key_fields[0])
        return composite_key(batch, self.record_key_fields)
