"""A validator that compares the rows of a commit with the offsets that its position has moved.

It is for topics whose messages become one row each: upserts that combine rows, filters, transaction markers and
compacted topics need a tolerance, or WARN_LOG.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.exception import HoodieValidationException
from hoodie.utilities.config.offset_validator_config import OffsetValidatorConfig, ValidationFailurePolicy

logger = logging.getLogger(__name__)

CLASS_NAMES: Final = (
    "SparkKafkaOffsetValidator",
    "org.apache.hudi.utilities.streamer.validator.SparkKafkaOffsetValidator",
)


class SparkKafkaOffsetValidator:
    """Compares rows with offsets; asked before each commit of the streamer. Works on both engines.

    Args:
        config: The tolerance, and what happens beyond it.

    Hudi: org.apache.hudi.utilities.streamer.validator.SparkKafkaOffsetValidator. Differs: deletes and messages that
    became errors count as rows.
    """

    def __init__(self, config: OffsetValidatorConfig) -> None:
        self._config = config
        self._before: str | None = None
        self._after: str | None = None
        self._errors = 0

    def begin(self, before: str | None, after: str | None) -> None:
        """Hear of the positions of the round that is going to be committed.

        Args:
            before: The position that the round began at; None for none.
            after: The position after it.
        """
        self._before, self._after, self._errors = before, after, 0

    def count_errors(self, errors: int) -> None:
        """Hear of messages of the round that became errors.

        Args:
            errors: The number.
        """
        self._errors = errors

    def __call__(self, commit: PendingCommit) -> None:
        """Compare.

        Args:
            commit: The commit.

        Raises:
            HoodieValidationException: The rows differ by more than the tolerance, and the policy is FAIL.
        """
        before, after = offsets_of(self._before), offsets_of(self._after)
        if before is None or after is None:
            return
        expected = offsets_between(before, after)
        result = commit.result
        written = result.written_count + result.deleted_count + self._errors
        if expected == written:
            return
        deviation = 100.0 if not expected else abs(expected - written) / expected * 100
        if deviation <= self._config.tolerance_percentage:
            return
        text = (
            f"the position moved from {self._before!r} to {self._after!r}, by {expected} offsets, and {written} rows "
            f"were written: a deviation of {deviation:.2f} percent. Give "
            "hoodie.precommit.validators.streaming.offset.tolerance.percentage, or "
            "hoodie.precommit.validators.failure.policy=WARN_LOG"
        )
        if self._config.failure_policy is ValidationFailurePolicy.FAIL:
            raise HoodieValidationException(text)
        logger.warning("%s", text)


def offsets_of(position: str | None) -> Mapping[int, int] | None:
    """The offsets of a position of Kafka.

    Args:
        position: ``topic,0:12,1:34``.

    Returns:
        Partition -> offset; None for a position of another form.

        >>> offsets_of("trips,0:12,1:34")
        {0: 12, 1: 34}
    """
    _, comma, parts = (position or "").partition(",")
    try:
        pairs = [part.split(":") for part in parts.split(",")] if comma else []
        found = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        return None
    return found or None


def offsets_between(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """The offsets from one position to another. A partition that began anew counts from 0 on, as in Hudi.

    Args:
        before: Partition -> offset.
        after: Partition -> offset.
    """
    total = 0
    for partition, offset in after.items():
        moved = offset - before.get(partition, 0)
        total += moved if moved >= 0 else offset
    return total
