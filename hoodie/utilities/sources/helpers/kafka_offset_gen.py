"""The offsets that a round reads: from the position of the table to what the topic has now.

Nothing is left out in silence. A position that does not fit to the topic is refused: messages after it expired, it is
ahead of the end, the topic was made again, a partition vanished, or it is one of another topic. With
``enable.failOnDataLoss=false`` such a partition is read from its earliest message on, and a line says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.config.kafka_source_config import (
    AUTO_OFFSET_RESET,
    CHECKPOINT_TYPE,
    FAIL_ON_DATA_LOSS,
    KafkaCheckpointType,
    KafkaResetOffsetStrategies,
    KafkaSourceConfig,
)
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.kafka_cluster import KafkaCluster, TopicDescription
from hoodie.utilities.sources.helpers.kafka_consumer_properties import GROUP_ID, KafkaClientSettings
from hoodie.utilities.sources.helpers.kafka_offset_ranges import (
    OffsetRange,
    TopicOffsets,
    compute_offset_ranges,
    position_after,
)

TOPIC_ID_KEY = "hoodie.streamer.kafka.topic.id"
"""The key of the id of the topic, beside the position."""


LimitOf = Callable[[TopicDescription, Mapping[int, int], Mapping[int, int]], int]
"""A limit that depends on the messages: takes the topic, the first offset and the end of each partition."""


@attrs.frozen
class OffsetPlan:
    """The offsets that a round reads.

    Attributes:
        topic: The topic.
        ranges: The ranges, empty ones too: each partition has one at least.
        checkpoint: The position after them.
        backlog: The number of offsets that are there now and not in the ranges.
        delay: The number of offsets that were new for this round.
        earliest: Partition -> the earliest offset.
        lines: Lines for the log.
    """

    topic: TopicDescription
    ranges: Sequence[OffsetRange]
    checkpoint: Checkpoint
    backlog: int
    delay: int
    earliest: Mapping[int, int]
    lines: Sequence[str]

    @property
    def count(self) -> int:
        """The number of offsets in the ranges."""
        return sum(one.count for one in self.ranges)


class KafkaOffsetGen:
    """Finds the offsets of rounds.

    Args:
        config: The properties.
        settings: The settings of clients, for the group.
        cluster: The cluster.

    Hudi: org.apache.hudi.utilities.sources.helpers.KafkaOffsetGen. Differs: see the module; and a partition that is
    new begins at its earliest message, not at 0.
    """

    def __init__(self, config: KafkaSourceConfig, settings: KafkaClientSettings, cluster: KafkaCluster) -> None:
        self._config = config
        self._settings = settings
        self._cluster = cluster
        self._lines: list[str] = []

    def plan(
        self,
        checkpoint: Checkpoint | None,
        limit: int | None,
        min_partitions: int,
        limit_of: LimitOf | None = None,
    ) -> OffsetPlan:
        """The next offsets.

        Args:
            checkpoint: The position of the table; None for none.
            limit: The most offsets; None for that of the properties.
            min_partitions: The least number of ranges.
            limit_of: A further limit that depends on the messages.

        Raises:
            HoodieConfigException: The position is not one of this source.
            HoodieReadFromSourceException: Messages after the position are gone, or the position does not fit.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        self._lines = []
        topic = self._cluster.describe()
        earliest = self._cluster.earliest(topic.partitions)
        given = self._given_offsets(checkpoint, topic, earliest)
        if given is None:
            starts = self._first_offsets(topic, earliest)
            ends = self._cluster.ends(topic.partitions)
            # What came in between is read now: without a position, it would be passed over.
            ends = {partition: max(end, starts[partition]) for partition, end in ends.items()}
        else:
            ends = self._cluster.ends(topic.partitions)
            starts = self._checked_starts(given, checkpoint, topic, earliest, ends)
            ends = {partition: max(end, starts[partition]) for partition, end in ends.items()}
        most = self._config.max_events if limit is None else limit
        delay = sum(ends[partition] - starts[partition] for partition in ends)
        if limit_of is not None and delay:
            most = min(most, limit_of(topic, starts, ends))
        ranges = compute_offset_ranges(starts, ends, most, min_partitions)
        own = {TOPIC_ID_KEY: topic.topic_id} if topic.topic_id is not None else {}
        after = Checkpoint(str(position_after(topic.name, ranges)), own=own)
        backlog = delay - sum(one.count for one in ranges)
        return OffsetPlan(topic, ranges, after, backlog, delay, earliest, tuple(self._lines))

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit a position to Kafka for the group.

        Args:
            checkpoint: The position.

        Raises:
            HoodieConfigException: There is no group.
            HoodieReadFromSourceException: The cluster refuses it, or does not answer.
        """
        found = TopicOffsets.parse(checkpoint.position)
        if found is not None:
            self._cluster.commit(self._group("hoodie.streamer.source.kafka.enable.commit.offset"), found.offsets)

    def _group(self, option: str) -> str:
        if not self._settings.has_group:
            raise HoodieConfigException(f"{option} needs {GROUP_ID}")
        return self._settings.settings[GROUP_ID]

    def _given_offsets(
        self, checkpoint: Checkpoint | None, topic: TopicDescription, earliest: Mapping[int, int]
    ) -> TopicOffsets | None:
        if checkpoint is None or not checkpoint.position:
            return None
        position, kind = checkpoint.position, self._config.checkpoint_type
        if checkpoint.is_given and kind is not KafkaCheckpointType.STRING and position.isascii() and position.isdigit():
            if kind is KafkaCheckpointType.SINGLE_OFFSET:
                if len(topic.partitions) != 1:
                    raise HoodieConfigException(
                        f"{CHECKPOINT_TYPE} = single_offset: topic {topic.name} has {len(topic.partitions)} "
                        f"partitions, so the position names each of them: {topic.name},0:..,1:.."
                    )
                return TopicOffsets(topic.name, {topic.partitions[0]: int(position)})
            if len(position) in (10, 13):
                return TopicOffsets(topic.name, self._offsets_at(int(position), topic, earliest))
        found = TopicOffsets.parse(position)
        if found is None:
            raise HoodieConfigException(
                f"{position[:200]!r} is no position of topic {topic.name}: it reads {topic.name},0:12,1:34, with "
                f"each partition once and its next offset. A time in milliseconds needs {CHECKPOINT_TYPE} = "
                f"timestamp, one offset {CHECKPOINT_TYPE} = single_offset, each with --checkpoint. Is the table filled "
                "from another source?"
            )
        return found

    def _offsets_at(self, timestamp_ms: int, topic: TopicDescription, earliest: Mapping[int, int]) -> dict[int, int]:
        found = self._cluster.at(topic.partitions, timestamp_ms)
        without = [partition for partition, offset in found.items() if offset is None]
        if without:
            self._lines.append(
                f"topic {topic.name}: no message at or after {timestamp_ms} ms in partitions {_listed(without)}: they "
                "are read from their earliest message on"
            )
        return {partition: earliest[partition] if offset is None else offset for partition, offset in found.items()}

    def _first_offsets(self, topic: TopicDescription, earliest: Mapping[int, int]) -> Mapping[int, int]:
        reset = self._config.auto_offset_reset
        if reset is KafkaResetOffsetStrategies.EARLIEST:
            return self._past_retention(topic, dict(earliest))
        if reset is KafkaResetOffsetStrategies.GROUP:
            group = self._group(f"{AUTO_OFFSET_RESET} = group")
            found = self._cluster.committed(group, topic.partitions)
            lacking = [partition for partition in topic.partitions if partition not in found]
            if not lacking:
                return self._within(found, topic, earliest, self._cluster.ends(topic.partitions), "the group's offset")
            self._lines.append(
                f"topic {topic.name}: group {group} has no offset for partitions {_listed(lacking)}: all partitions "
                "are read from their end on"
            )
        else:
            self._lines.append(
                f"topic {topic.name}: the table has no position: only messages from now on are read. For those that "
                f"are there, give {AUTO_OFFSET_RESET}=earliest"
            )
        return self._cluster.ends(topic.partitions)

    def _checked_starts(
        self,
        given: TopicOffsets,
        checkpoint: Checkpoint | None,
        topic: TopicDescription,
        earliest: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> dict[int, int]:
        if given.topic != topic.name:
            self._lost(
                f"the position is one of topic {given.topic} ({given}), and this run reads topic {topic.name}",
                f"for a topic that was copied with its offsets, give --checkpoint {topic.name},0:.. with them",
                "all partitions are read from their earliest message on",
            )
            return self._past_retention(topic, dict(earliest))
        known_id = None if checkpoint is None or checkpoint.is_given else checkpoint.own.get(TOPIC_ID_KEY)
        if known_id is not None and topic.topic_id is not None and known_id != topic.topic_id:
            self._lost(
                f"topic {topic.name} was deleted and made again (its id was {known_id}, and is {topic.topic_id}): the "
                f"position {given} is one of the old topic; the new one has {_spans(earliest, ends)}",
                f"give --checkpoint {topic.name},0:.. with offsets of the new topic",
                "all partitions are read from their earliest message on",
            )
            return self._past_retention(topic, dict(earliest))
        vanished = sorted(set(given.offsets) - set(topic.partitions))
        if vanished:
            self._lost(
                f"topic {topic.name} has partitions {_listed(topic.partitions)}, and the position has "
                f"{', '.join(f'partition {p} at offset {given.offsets[p]}' for p in vanished)} besides",
                f"give --checkpoint {topic.name},0:.. without them",
                "they are left out",
            )
        new = [partition for partition in topic.partitions if partition not in given.offsets]
        if new:
            self._lines.append(
                f"topic {topic.name}: partitions {_listed(new)} are new: they are read from their earliest message on"
            )
        known = {partition: given.offsets[partition] for partition in topic.partitions if partition not in new}
        found = self._within(known, topic, earliest, ends, "the position")
        return {partition: found.get(partition, earliest[partition]) for partition in topic.partitions}

    def _within(
        self,
        offsets: Mapping[int, int],
        topic: TopicDescription,
        earliest: Mapping[int, int],
        ends: Mapping[int, int],
        what: str,
    ) -> dict[int, int]:
        """The offsets, with those that the topic does not have replaced by the earliest ones, or refused."""
        expired = {partition for partition, offset in offsets.items() if offset < earliest[partition]}
        ahead = {partition for partition, offset in offsets.items() if offset > ends[partition]}
        if ahead:
            # Messages of open transactions are there, and are read later.
            last = self._cluster.ends(ahead, with_open_transactions=True)
            ahead = {partition for partition in ahead if offsets[partition] > last[partition]}
        if expired:
            self._lost(
                f"messages of topic {topic.name} expired before they were read: "
                + ", ".join(
                    f"partition {p}: {what} is offset {offsets[p]}, the earliest one is {earliest[p]} "
                    f"({earliest[p] - offsets[p]} are gone)"
                    for p in sorted(expired)
                ),
                "",
                "these partitions are read from their earliest message on",
            )
        if ahead:
            self._lost(
                f"topic {topic.name} ends before {what}: "
                + ", ".join(
                    f"partition {p}: {what} is offset {offsets[p]}, the end is {ends[p]}" for p in sorted(ahead)
                )
                + ". The topic was made again, or the cluster lost messages",
                f"give --checkpoint {topic.name},0:.. with offsets that it has",
                "these partitions are read from their earliest message on",
            )
        replaced = self._past_retention(topic, {partition: earliest[partition] for partition in expired | ahead})
        return {**offsets, **replaced}

    def _lost(self, what: str, way_out: str, otherwise: str) -> None:
        if self._config.enable_fail_on_data_loss:
            raise HoodieReadFromSourceException(
                f"{what}. {way_out[:1].upper()}{way_out[1:]}{'; or ' if way_out else 'To go on, '}give "
                f"{FAIL_ON_DATA_LOSS}=false: then {otherwise}"
            )
        self._lines.append(f"{what}: {otherwise}, as {FAIL_ON_DATA_LOSS}=false says")

    def _past_retention(self, topic: TopicDescription, starts: dict[int, int]) -> dict[int, int]:
        """Earliest offsets, without the messages that expire within the next minutes."""
        minutes = self._config.offset_skip_buffer_minutes
        retention_ms = self._cluster.retention_ms() if minutes > 0 and starts else None
        if retention_ms is None:
            return starts
        found = self._cluster.at(starts, int(time.time() * 1000) - retention_ms + minutes * 60_000)
        moved = {partition: max(starts[partition], found[partition] or 0) for partition in starts}
        skipped = {p: moved[p] - starts[p] for p in sorted(starts) if moved[p] > starts[p]}
        if skipped:
            self._lines.append(
                f"topic {topic.name}: messages that expire within {minutes} minutes are left out: "
                + ", ".join(f"{count} of partition {partition}" for partition, count in skipped.items())
            )
        return moved


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _spans(earliest: Mapping[int, int], ends: Mapping[int, int]) -> str:
    return ", ".join(f"partition {partition}: {earliest[partition]} to {ends[partition]}" for partition in sorted(ends))
