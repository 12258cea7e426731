"""Any number of key fields, and partition fields with a type each."""

from __future__ import annotations

from enum import StrEnum

import attrs
import pyarrow as pa

from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.timestamp_based_key_generator import level_of_times, texts_of_times
from hoodie.keygen.timestamp_paths import TimestampPaths

__all__ = ["CustomKeyGenerator", "PartitionKeyType"]


class PartitionKeyType(StrEnum):
    """The type of a partition field of `CustomKeyGenerator`."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


@attrs.frozen
class CustomKeyGenerator(KeyGenerator):
    """Partition fields are values (SIMPLE) or times (TIMESTAMP): ``region:SIMPLE,ts:TIMESTAMP``.

    The record key is the value of one field, or of several fields in the form of `ComplexKeyGenerator`. Without
    partition fields there are no folders.

    Attributes:
        partition_types: The type of each partition field.
        times: How folders are named by times; None if no field is a time.

    Hudi: org.apache.hudi.keygen.{CustomKeyGenerator, CustomAvroKeyGenerator}.
    """

    partition_types: tuple[PartitionKeyType, ...] = attrs.field(kw_only=True)
    times: TimestampPaths | None = attrs.field(default=None, kw_only=True)

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch) if len(self.record_key_fields) == 1 else self._composite_key(batch)

    def _times_of(self, field: str) -> TimestampPaths | None:
        is_time = self.partition_types[self.partition_fields.index(field)] is PartitionKeyType.TIMESTAMP
        return self.times if is_time else None

    def _check_partition_type(self, field: str, data_type: pa.DataType) -> None:
        times = self._times_of(field)
        if times is not None:
            times.check_type(field, data_type)

    def _level_of(self, values: pa.Array, field: str) -> pa.StringArray:
        times = self._times_of(field)
        return super()._level_of(values, field) if times is None else level_of_times(times, values, field, self)

    def _reason_against(self, text: str | None, field: str) -> str | None:
        times = self._times_of(field)
        reason = super()._reason_against(text, field)
        return reason or (None if times is None else times.reason_against(text or ""))

    def _texts(self, values: pa.Array, field: str) -> list[str | None]:
        times = self._times_of(field)
        return super()._texts(values, field) if times is None else texts_of_times(times, values)
