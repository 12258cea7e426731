"""The key generators that Hudi has too.

Hudi: the classes of package org.apache.hudi.keygen that each class names.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.partition_path_encoding import partition_level
from hoodie.keygen.timestamp_paths import TimestampPaths


@attrs.frozen
class SimpleKeyGenerator(KeyGenerator):
    """The record key is the value of one field, the partition path the value of another.

    Hudi: org.apache.hudi.keygen.{SimpleKeyGenerator, SimpleAvroKeyGenerator}.
    """

    @property
    def has_plain_paths(self) -> bool:
        return True

    @property
    def has_composite_keys(self) -> bool:
        return False

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch)


@attrs.frozen
class NonpartitionedKeyGenerator(KeyGenerator):
    """The record key is the value of one field, or of several in the form of `ComplexKeyGenerator`; no partitions.

    Hudi: org.apache.hudi.keygen.{NonpartitionedKeyGenerator, NonpartitionedAvroKeyGenerator}.
    """

    @property
    def has_plain_paths(self) -> bool:
        return True

    @property
    def has_composite_keys(self) -> bool:
        return len(self.record_key_fields) > 1

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._composite_key(batch) if self.has_composite_keys else self._single_key(batch)


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

    @property
    def has_plain_paths(self) -> bool:
        return True

    @property
    def has_composite_keys(self) -> bool:
        return len(self.record_key_fields) > 1 or self.single_field_prefix

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._composite_key(batch) if self.has_composite_keys else self._single_key(batch)


@attrs.frozen
class TimesKeyGenerator(KeyGenerator):
    """A key generator with partition fields that may be times."""

    @abstractmethod
    def times_of(self, field: str) -> TimestampPaths | None:
        """The folder names for times of a partition field; None if its values are not times.

        Args:
            field: One of the partition fields.
        """

    def _check_partition_type(self, field: str, data_type: pa.DataType) -> None:
        times = self.times_of(field)
        if times is not None:
            times.check_type(field, data_type)

    def _level_of(self, values: pa.Array, field: str) -> pa.StringArray:
        times = self.times_of(field)
        if times is None:
            return super()._level_of(values, field)
        strings = times.strings(values)
        level = partition_level(strings, field, self.hive_style, self.url_encode)
        if strings.null_count:
            level = pc.if_else(strings.is_valid(), level, pa.scalar(None, pa.string()))
        return level

    def _reason_against(self, text: str | None, field: str) -> str | None:
        times = self.times_of(field)
        reason = super()._reason_against(text, field)
        return reason or (None if times is None else times.reason_against(text or ""))

    def _texts(self, values: pa.Array, field: str) -> list[str | None]:
        """The folder names, for explanations; the value itself where there is no folder name."""
        times = self.times_of(field)
        if times is None:
            return super()._texts(values, field)
        texts: list[str | None] = pc.coalesce(times.strings(values), values.cast(pa.string())).to_pylist()
        return texts


@attrs.frozen
class TimestampBasedKeyGenerator(TimesKeyGenerator):
    """The record key is the value of one field; the partition path is a time, formatted by a pattern.

        UNIX_TIMESTAMP, yyyy/MM/dd    1700000000   2023/11/14

    A null counts as the beginning of 1970.

    Attributes:
        times: The rule by which times name folders.

    Hudi: org.apache.hudi.keygen.{TimestampBasedKeyGenerator, TimestampBasedAvroKeyGenerator}.
    """

    times: TimestampPaths = attrs.field(kw_only=True)

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch)

    def times_of(self, field: str) -> TimestampPaths | None:
        return self.times


class PartitionKeyType(StrEnum):
    """The type of a partition field of `CustomKeyGenerator`."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


@attrs.frozen
class CustomKeyGenerator(TimesKeyGenerator):
    """Partition fields are values (SIMPLE) or times (TIMESTAMP): ``region:SIMPLE,ts:TIMESTAMP``.

    The record key is the value of one field, or of several fields in the form of `ComplexKeyGenerator`. Without
    partition fields there are no folders.

    Attributes:
        partition_types: The type of each partition field.
        times: The rule by which times name folders; None if no field is a time.

    Hudi: org.apache.hudi.keygen.{CustomKeyGenerator, CustomAvroKeyGenerator}.
    """

    partition_types: tuple[PartitionKeyType, ...] = attrs.field(kw_only=True)
    times: TimestampPaths | None = attrs.field(default=None, kw_only=True)

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self._single_key(batch) if len(self.record_key_fields) == 1 else self._composite_key(batch)

    def times_of(self, field: str) -> TimestampPaths | None:
        is_time = self.partition_types[self.partition_fields.index(field)] is PartitionKeyType.TIMESTAMP
        return self.times if is_time else None


def has_field_prefix(record_key: str, field: str) -> bool:
    """Whether a stored key of a table with one key field has the form ``field:value``.

    Args:
        record_key: Any record key of the table, for example the smallest one in a base file's footer.
        field: The key field.
    """
    return record_key.startswith(f"{field}:")
