"""Compare keys with one base file: with its bloom filter first, then with its keys.

Hudi: org.apache.hudi.index.bloom.HoodieBloomIndexCheckFunction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import BloomFilter
from hoodie.common.util.arrow_buffers import booleans_of, indices_of
from hoodie.engine.engine_context import Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException
from hoodie.index.bloom.index_file_filter import KeySlices
from hoodie.index.bloom.sorted_keys import SortedKeys
from hoodie.index.index_report import Decision
from hoodie.index.stored_keys import NOTHING_FOUND, FoundKeys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, RowGroupKeys
from hoodie.storage.storage import HoodieStorage

_SAMPLE = 1024
"""Size of the sample of keys that a filter is asked about before it is asked about many keys."""
_WORTHLESS_SHARE = 1 / 32
"""If a filter may contain more than this share of the sample, it saves nothing, and all keys are compared."""


@attrs.frozen
class FileToCheck:
    """A task's work at one file.

    Attributes:
        number: The number of the file, among the files that the index judges.
        path: Full path.
        group: Names the keys that its candidates are among.
        slices: The candidates.
    """

    number: int
    path: str
    group: str
    slices: KeySlices


@attrs.frozen(eq=False)
class CheckedFile:
    """The result of comparing keys with a file.

    Attributes:
        found: Keys that the file holds.
        decided_by: The step that decided.
        compared: Keys that were compared in that step.
        row_groups: Row groups of the file.
        row_groups_read: The number of row groups whose keys were read.
        has_filter: Whether a bloom filter was read.
        problem: Why the filter could not be used, if it could not.
    """

    found: FoundKeys
    decided_by: Decision
    compared: int
    row_groups: int
    row_groups_read: int
    has_filter: bool = False
    problem: str | None = None


@attrs.frozen
class CheckFiles:
    """Task: find the shared keys in base files.

    Attributes:
        storage: The storage of the files.
        keys: The shared mapping from group to `SortedKeys`' array.
    """

    storage: HoodieStorage
    keys: Shared

    def __call__(self, task: TaskIdentity, files: Sequence[FileToCheck]) -> list[CheckedFile]:
        groups = self.keys.value
        return [
            check_file(
                self.storage, file.path, [groups[file.group].slice(start, end - start) for start, end in file.slices]
            )
            for file in files
        ]


def check_file(storage: HoodieStorage, path: str, parts: Iterable[pa.Array], are_sorted: bool = True) -> CheckedFile:
    """Compare keys with a base file: with its bloom filter, then with its keys.

    Args:
        storage: The storage of the file.
        path: Full path of the file.
        parts: The keys (string), in one or more arrays.
        are_sorted: Whether they are distinct, and sorted by UTF-8 bytes.

    Raises:
        HoodieCorruptedDataException: The file cannot be read.
    """
    with HoodieParquetReader(storage, path) as reader:
        bloom_filter, problem = _open_filter(reader)
        possible, compared = [], 0
        for part in parts:
            compared += len(part)
            possible.append(part if bloom_filter is None else _may_contain(bloom_filter, part))
        keys = possible[0] if len(possible) == 1 else pa.concat_arrays(possible)
        if not len(keys):
            return CheckedFile(
                NOTHING_FOUND, Decision.FILTER, compared, reader.num_row_groups, 0, bloom_filter is not None, problem
            )
        checked = _check_keys(reader, keys if are_sorted else SortedKeys.of(keys).keys)
    return attrs.evolve(checked, has_filter=bloom_filter is not None, problem=problem)


def _open_filter(reader: HoodieParquetReader) -> tuple[BloomFilter | None, str | None]:
    """The bloom filter of a file, or why it cannot be used; neither where the footer has none.

    Args:
        reader: The open reader of the file.
    """
    try:
        return reader.footer().bloom_filter, None
    except (HoodieCorruptedDataException, HoodieNotSupportedException) as error:
        return None, str(error)


def _may_contain(bloom_filter: BloomFilter, keys: pa.Array) -> pa.Array:
    """The keys that a filter does not exclude; all keys if there are many and it excludes too few of them."""
    try:
        if len(keys) > 4 * _SAMPLE:
            sample = keys.take(pa.array(np.arange(0, len(keys), len(keys) // _SAMPLE)))
            if bloom_filter.might_contain(sample).mean() > _WORTHLESS_SHARE:
                return keys
        is_possible = bloom_filter.might_contain(keys)
    except HoodieKeyException:
        return keys
    return keys if is_possible.all() else keys.filter(booleans_of(is_possible))


def _check_keys(reader: HoodieParquetReader, keys: pa.Array) -> CheckedFile:
    """Compare keys with those of a file, in the row groups whose statistics do not exclude all keys.

    Args:
        reader: An open reader of the file.
        keys: Distinct keys, sorted by UTF-8 bytes.
    """
    groups = reader.row_group_keys()
    wanted = row_groups_for(SortedKeys(keys), groups)
    if not wanted:
        return CheckedFile(NOTHING_FOUND, Decision.RANGE, len(keys), len(groups), 0)
    entries, positions = reader.find_record_keys(keys, wanted)
    found = keys.take(indices_of(entries)), positions
    return CheckedFile(found, Decision.KEY_CHECK, len(keys), len(groups), len(wanted))


def row_groups_for(keys: SortedKeys, groups: Sequence[RowGroupKeys]) -> list[int]:
    """The numbers of the row groups that can hold one of the keys.

    Args:
        keys: The keys.
        groups: The statistics of each row group.
    """
    known = [n for n, group in enumerate(groups) if group.min_key is not None and group.max_key is not None]
    starts = keys.before([groups[n].min_key or b"" for n in known], with_equal=False)
    ends = keys.before([groups[n].max_key or b"" for n in known], with_equal=True)
    excluded = {n for n, start, end in zip(known, starts.tolist(), ends.tolist(), strict=True) if start >= end}
    return [n for n, group in enumerate(groups) if group.rows and n not in excluded]
