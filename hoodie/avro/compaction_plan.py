"""What a compaction plans: the classes behind its Avro record, as far as writers beside it read it."""

from __future__ import annotations

import attrs

from hoodie.avro.timeline_metadata import avro_field, tuple_of

__all__ = ["HoodieCompactionOperation", "HoodieCompactionPlan"]


@attrs.frozen
class HoodieCompactionOperation:
    """The slice of one file group that is compacted."""

    partition_path: str = attrs.field(metadata=avro_field("partitionPath", lambda value: value or ""))
    file_id: str = attrs.field(metadata=avro_field("fileId"))
    base_instant_time: str = attrs.field(metadata=avro_field("baseInstantTime"))


@attrs.frozen
class HoodieCompactionPlan:
    """The content of a requested compaction or log compaction."""

    operations: tuple[HoodieCompactionOperation, ...] = attrs.field(
        metadata=avro_field("operations", tuple_of(HoodieCompactionOperation))
    )
