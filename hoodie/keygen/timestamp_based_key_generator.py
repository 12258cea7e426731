"""One key field, and one partition field that holds times."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.partition_path_encoding import partition_level
from hoodie.keygen.timestamp_paths import TimestampPaths

__all__ = ["TimestampBasedKeyGenerator", "level_of_times", "texts_of_times"]


@attrs.frozen
class TimestampBasedKeyGenerator(KeyGenerator):
    """The record key is the value of one field; the partition path is a time, formatted by a pattern.

        UNIX_TIMESTAMP, yyyy/MM/dd    1700000000   2023/11/14

    A null counts as the beginning of 1970.

    Attributes:
        times: How folders are named by times.

    Hudi: org.apache.hudi.keygen.{TimestampBasedKeyGenerator, TimestampBasedAvroKeyGenerator}.
    """

    times: TimestampPaths = attrs.field(kw_only=True)

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch)

    def _check_partition_type(self, field: str, data_type: pa.DataType) -> None:
        self.times.check_type(field, data_type)

    def _level_of(self, values: pa.Array, field: str) -> pa.StringArray:
        return level_of_times(self.times, values, field, self)

    def _reason_against(self, text: str | None, field: str) -> str | None:
        return super()._reason_against(text, field) or self.times.reason_against(text or "")

    def _texts(self, values: pa.Array, field: str) -> list[str | None]:
        return texts_of_times(self.times, values)


def level_of_times(times: TimestampPaths, values: pa.Array, field: str, generator: KeyGenerator) -> pa.StringArray:
    """The level of a partition path for each time; null if it cannot be stored or the value is not a time."""
    strings = times.strings(values)
    level = partition_level(strings, field, generator.hive_style, generator.url_encode)
    if strings.null_count:
        level = pc.if_else(strings.is_valid(), level, pa.scalar(None, pa.string()))
    return level


def texts_of_times(times: TimestampPaths, values: pa.Array) -> list[str | None]:
    """The folder names of times, for explanations; the value itself where there is no folder name."""
    strings = times.strings(values)
    texts: list[str | None] = pc.coalesce(strings, values.cast(pa.string())).to_pylist()
    return texts
