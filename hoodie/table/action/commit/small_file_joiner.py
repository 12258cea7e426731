"""Join files of one commit that came out too small.

How many records fill a file is known before writing only as well as the size of a record. Where the estimate is far
off, several buckets of a partition leave small files. Readers do not see these files yet: their rows are written again,
into fewer files, before the commit completes. The first files then count like those of task attempts that lost: they
have markers but no status, and are deleted before the commit completes.

Hudi has nothing like it: such files stay until later writes or clustering fill them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import make_file_id, new_file_id_prefix
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.common.model.write_status import MAX_REPORTED_ERRORS, WithoutEffect, WriteStatus
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.rewrite_handle import HoodieRewriteHandle
from hoodie.io.write_context import WriteContext
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

ROUNDS = 3
LEAST_FILL = 1.03
"""Total size of files, as a share of the small-file limit, that is sure to give one file that is not small."""


@attrs.frozen
class Chain:
    """Files of one partition whose rows are written again, one after the other.

    Attributes:
        statuses: The statuses of the files. The first may be the next version of an existing file group, which
            remains. All others are first files of new groups, which vanish.
    """

    statuses: tuple[WriteStatus, ...]


def plan_chains(statuses: Sequence[WriteStatus], config: HoodieWriteConfig, side_by_side: bool = True) -> list[Chain]:
    """Choose the files to write again, so that each partition has at most one small file.

    Args:
        statuses: The statuses of all files of the commit.
        config: The size of a small file. With a limit of 0, or a number of records a file, nothing is joined.
        side_by_side: Whether files that just fill one file together form a chain of their own. Otherwise each partition
            has one chain.
    """
    limit = config.compaction.parquet_small_file_limit
    if limit <= 0 or not config.compaction.copy_on_write_insert_auto_split:
        return []
    small: dict[str, list[WriteStatus]] = {}
    for status in statuses:
        if 0 < status.stat.file_size_bytes < limit and status.stat.num_writes and not status.stat.is_log_file:
            small.setdefault(status.partition_path, []).append(status)
    chains: list[Chain] = []
    for found in small.values():
        created = sorted((s for s in found if s.stat.prev_commit == NULL_COMMIT), key=_size, reverse=True)
        grown = max((s for s in found if s.stat.prev_commit != NULL_COMMIT), key=_size, default=None)
        least = LEAST_FILL * limit if side_by_side else math.inf
        chains += _chains(created, grown, least, config.storage.parquet_max_file_size)
    return chains


def _chains(created: list[WriteStatus], grown: WriteStatus | None, least: float, most: int) -> list[Chain]:
    """Chains that fill one file each, and one chain of the remaining files."""
    groups: list[list[WriteStatus]] = []
    for status in created:
        fitting = (g for g in groups if _total(g) < least and _total(g) + _size(status) <= most)
        group = next(fitting, None)
        if group is None:
            groups.append([status])
        else:
            group.append(status)
    rest = [status for group in groups if _total(group) < least for status in group]
    chains = [Chain(tuple(group)) for group in groups if _total(group) >= least]
    if len(rest) > 1 or (rest and grown is not None):
        chains.append(Chain((*([grown] if grown is not None else []), *rest)))
    return chains


def join_small_files(
    statuses: Sequence[WriteStatus], context: WriteContext, engine: HoodieEngineContext
) -> list[WriteStatus]:
    """Write small files again until at most one a partition is left.

    A joined file may be smaller than its parts were together, as their footers and dictionaries become one. Such files
    are joined again. The last round joins all small files of a partition in one chain.

    Args:
        statuses: The statuses of all files of the commit.
        context: The write.
        engine: Runs one task a chain.

    Returns:
        The statuses of the files that the commit has from now on.
    """
    kept = list(statuses)

    def candidates(found: Sequence[WriteStatus]) -> Sequence[WriteStatus]:
        # Files without record keys do not tell the keys of changes.
        return [one for one in found if not one.stat.cdc_stats] if context.has_virtual_keys else found

    for number in range(ROUNDS):
        chains = plan_chains(candidates(kept), context.config, side_by_side=number < ROUNDS - 1)
        if not chains:
            break
        joined = {status.stat.path for chain in chains for status in chain.statuses}
        logger.info("%d small files of %s are joined", len(joined), context.instant_time)
        written = engine.run_tasks(chains, _ChainWriter(context))
        kept = [status for status in kept if status.stat.path not in joined]
        kept += [status for part in written for status in part]
    return kept


@attrs.frozen
class _ChainWriter:
    """Task: writes the rows of a chain into as few files as they fill."""

    context: WriteContext

    def __call__(self, task: TaskIdentity, chain: Chain) -> list[WriteStatus]:
        statuses: list[WriteStatus] = []
        first = chain.statuses[0]
        stored = HoodieReaderContext(self.context.storage, self.context.schema_with_meta)
        before = first if first.stat.prev_commit != NULL_COMMIT else None
        prefix = new_file_id_prefix()
        handle = self._handle(task, first, first.file_id if before else make_file_id(prefix, 0), before)
        handle.open()
        try:
            for status in chain.statuses:
                path = join(self.context.base_path, str(status.stat.path))
                file_slice = FileSlice.of_base_file(status.partition_path, path, status.stat.file_size_bytes)
                reader = HoodieFileGroupReader(stored, file_slice)
                for batch in reader.iter_batches():
                    rows: pa.RecordBatch = batch
                    while rows.num_rows:
                        rows = handle.write(rows, are_new=status is not before)
                        if rows.num_rows:
                            statuses.append(handle.close())
                            handle = self._handle(task, first, make_file_id(prefix, len(statuses)), None)
                            handle.open()
            statuses.append(handle.close())
        except BaseException as error:
            handle.__exit__(type(error), error, error.__traceback__)
            raise
        return [_with_records_of(statuses[0], chain.statuses), *statuses[1:]]

    def _handle(
        self, task: TaskIdentity, first: WriteStatus, file_id: str, before: WriteStatus | None
    ) -> HoodieRewriteHandle:
        return HoodieRewriteHandle(self.context, first.partition_path, file_id, task, before)


def _with_records_of(status: WriteStatus, sources: Sequence[WriteStatus]) -> WriteStatus:
    """The status with the counts of incoming and failed records of the files that it stands for."""
    errors = [error for source in sources for error in source.errors]
    return attrs.evolve(
        status,
        stat=attrs.evolve(status.stat, total_write_errors=sum(source.stat.total_write_errors for source in sources)),
        total_record_count=sum(source.total_record_count for source in sources),
        error_count=sum(source.error_count for source in sources),
        errors=tuple(errors[:MAX_REPORTED_ERRORS]),
        without_effect=sum((source.without_effect for source in sources), WithoutEffect()),
    )


def _size(status: WriteStatus) -> int:
    return status.stat.file_size_bytes


def _total(group: Sequence[WriteStatus]) -> int:
    return sum(map(_size, group))
