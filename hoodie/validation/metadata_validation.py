"""The result of a validation of a metadata table.

Hudi: org.apache.hudi.utilities.HoodieMetadataTableValidator (its log).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

import attrs

from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_table import plural
from hoodie.table.repair.repaired_table import RepairResult

MAX_DIFFERENCES = 1000
"""The most differences of a partition that a validation names."""


class MetadataDifferenceKind(StrEnum):
    """The kind of a difference between the metadata table and the table."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    DIFFERENT = "different"
    AMBIGUOUS = "ambiguous"
    MISPLACED = "misplaced"
    UNREADABLE = "unreadable"


@attrs.frozen
class MetadataDifference:
    """One wrong or missing entry of a metadata table.

    Attributes:
        partition: The partition of the metadata table; ``timeline`` for its instants.
        kind: MISSING: only the table has it. UNEXPECTED: only the metadata table has it. DIFFERENT: both have it, with
            other contents. AMBIGUOUS: the table has it in several places, and the metadata table can name only one.
            MISPLACED: it is in a file group where look-ups do not find it. UNREADABLE: the partition cannot be read.
        name: The subject: a partition of the table, a file, a file and a column, or a record key.
        expected: The content by storage, a footer or a row.
        found: The content by the metadata table; for an unreadable partition, the reason.
    """

    partition: str
    kind: MetadataDifferenceKind
    name: str
    expected: str = ""
    found: str = ""


@attrs.frozen(repr=False)
class MetadataTableValidation(RepairResult):
    """The differences between a metadata table and its table; none if the metadata table is right.

    Attributes:
        base_path: The table.
        entry_counts: For each partition of the metadata table that was validated, the number of its entries.
        differences: At most 1000 for each partition.
        difference_counts: For each partition with differences, their number.
        not_validated: For each partition that was not or only partly validated, the reason.
        advice: For each partition with differences that a new build does not repair, the repair.
        size_counts: For each partition, the number of entries in which only the byte sizes of a column differ. Writers
            state those of log files in different ways, and no reader uses them, so they are not differences.
    """

    base_path: str
    entry_counts: Mapping[str, int]
    differences: tuple[MetadataDifference, ...]
    difference_counts: Mapping[str, int]
    not_validated: Mapping[str, str]
    advice: Mapping[str, str] = attrs.field(factory=dict)
    size_counts: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether there are no differences."""
        return not self.difference_counts

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        counts = ", ".join(f"{name} ({plural(count, 'record')})" for name, count in self.entry_counts.items())
        text = f"{plural(sum(self.difference_counts.values()), 'difference')} in the metadata table of {self.base_path}"
        text += f", of which these partitions were validated: {counts}" if counts else ", which has no partitions"
        text += "".join(f"\n{name} was not validated in full: {why}" for name, why in self.not_validated.items())
        for name, count in self.size_counts.items():
            text += f"\n{name}: {plural(count, 'record')} with other sizes of columns than here, which change no row"
        return text + "".join(f"\n{name}: {what}" for name, what in self.advice.items())

    @property
    def table(self) -> SummaryTable[MetadataDifference]:
        """See `RepairResult`."""
        return SummaryTable(MetadataDifference, self.differences)


class Findings:
    """A collection of the differences that a validation finds."""

    def __init__(self) -> None:
        self.entry_counts: dict[str, int] = {}
        self.not_validated: dict[str, str] = {}
        self.advice: dict[str, str] = {}
        self._differences: list[MetadataDifference] = []
        self._counts: Counter[str] = Counter()
        self._size_counts: Counter[str] = Counter()

    def add(
        self, partition: str, kind: MetadataDifferenceKind, name: str, expected: object = "", found: object = ""
    ) -> None:
        """Note a difference; see `MetadataDifference`."""
        self._counts[partition] += 1
        if self._counts[partition] <= MAX_DIFFERENCES:
            self._differences.append(MetadataDifference(partition, kind, name, str(expected), str(found)))

    def note_other_sizes(self, partition: str) -> None:
        """Count an entry in which only sizes differ; see `MetadataTableValidation.size_counts`."""
        self._size_counts[partition] += 1

    def result(self, base_path: str) -> MetadataTableValidation:
        """The result of the validation.

        Args:
            base_path: The table.
        """
        return MetadataTableValidation(
            base_path,
            self.entry_counts,
            tuple(self._differences),
            dict(self._counts),
            self.not_validated,
            self.advice,
            dict(self._size_counts),
        )
