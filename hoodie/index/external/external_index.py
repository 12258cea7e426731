"""The base of all indexes that keep key -> file group outside of the table.

The store claims, the base files decide. A look-up asks the store which file groups may hold the keys, and looks the
keys up in the latest base files of these groups. So a claim that a failed, rolled back or deleted write left in the
store does no harm. A missing claim would. Therefore each look-up first compares the latest base files of the table with
those that the store knows, and claims the keys of the others: files of another writer, or files that a rollback or
restore brought back.

In Hudi the index in HBase has this role.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import COMMIT_TIME_META, RECORD_KEY, RECORD_KEY_META
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.timeline.instant_time import is_after, is_before
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieException,
    HoodieIndexException,
    HoodieIOException,
)
from hoodie.index.external.location_store import KnownFile, KnownGroup, LocationStore, claimed_keys
from hoodie.index.index import HoodieIndex, IndexedTable, Locations
from hoodie.index.index_report import Decision
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join, parent

logger = logging.getLogger(__name__)

_Group = tuple[str, str]
_GROUP_NUMBER = "group_number"


class StoreFactory(ABC):
    """Opens the store; picklable, so that tasks can.

    Attributes:
        is_shared_by_tasks: Whether tasks on other machines reach the store; otherwise only the driver writes to it.
    """

    is_shared_by_tasks: bool = False

    @abstractmethod
    def open(self) -> LocationStore:
        """A new connection."""


class HoodieExternalIndex(HoodieIndex):
    """Global index over a `LocationStore`, which a subclass chooses.

    Args:
        config: The writer's configuration.
        update_partition_path: Whether a record whose key lives in another partition moves to its own.
    """

    def __init__(self, config: HoodieWriteConfig, update_partition_path: bool = True) -> None:
        super().__init__(config)
        self._exact = HoodieGlobalSimpleIndex(config, update_partition_path)

    @property
    def is_global(self) -> bool:
        return True

    @abstractmethod
    def store_factory(self) -> StoreFactory:
        """The factory that opens the store."""

    def decides_by_keys(self, table: IndexedTable) -> bool:
        return self._exact.decides_by_keys(table)

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        with self._open(table.request.reads_only) as store:
            groups, claimed = self._known_groups(store, context, table)
            if groups:
                _, numbers = store.find(claimed_keys(keys[RECORD_KEY]))
                claimed |= {groups[number] for number in np.unique(numbers).tolist() if number in groups}
        return self._exact.find_locations(keys, context, self._narrowed(table, claimed))

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        with self._open(table.request.reads_only) as store:
            groups, claimed = self._known_groups(store, context, table)
        if groups:
            found = records.select([RECORD_KEY]).map_partitions_with_index(
                _FindGroups(self.store_factory()), pa.schema([(_GROUP_NUMBER, pa.int64())])
            )
            numbers = found.count_by([_GROUP_NUMBER])[_GROUP_NUMBER].to_pylist()
            claimed |= {groups[number] for number in numbers if number in groups}
        return self._exact.tag_location(records, context, self._narrowed(table, claimed))

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Claim the keys of the new files before the commit, so that no key is missed if the commit succeeds."""
        # Log files change records of claimed keys.
        written = [status for status in statuses if status.stat.path is not None and not status.stat.is_log_file]
        if not written:
            return
        with self._open() as store:
            known = store.add_groups({(s.partition_path, s.file_id) for s in written}, table.instant_time)
            files = [_claim_of(status, known[status.partition_path, status.file_id], table) for status in written]
            self._claim(store, context, table, files)

    def rollback_commit(self, instant_time: str) -> None:
        """Forget the instant's claims. If that fails, the next look-up forgets them."""
        try:
            with self._open() as store:
                known = store.groups()
                groups_of_instant = [g for g in known if g.instant_time == instant_time or _added_by(g, instant_time)]
                files = [(g.number, f.file_name) for g in known for f in g.files.values()]
                names = {f.file_name for g in known for f in g.files.values() if f.instant_time == instant_time}
                if groups_of_instant:
                    store.drop_groups([group.number for group in groups_of_instant])
                if names:
                    store.forget_files([(number, name) for number, name in files if name in names])
        except HoodieException as error:
            logger.warning(
                "the index could not forget instant %s (%s): the next write tries again", instant_time, error
            )

    def _open(self, reads_only: bool = False) -> LocationStore:
        store = self.store_factory().open()
        try:
            # Check each time: a store may be lost, or deleted to be built again, while the client lives.
            if not reads_only and not store.exists():
                store.create()
        except BaseException:
            store.close()
            raise
        return store

    @staticmethod
    def _narrowed(table: IndexedTable, claimed: Set[_Group]) -> IndexedTable:
        """The table with the given file groups; the others are noted as judged."""
        kept = [part for part in table.slices if (part.partition_path, part.file_id) in claimed]
        others = [part for part in table.slices if (part.partition_path, part.file_id) not in claimed]
        table.work.note_all(others, Decision.DATABASE)
        return table.narrowed_to(kept)

    def _known_groups(
        self, store: LocationStore, context: HoodieEngineContext, table: IndexedTable
    ) -> tuple[dict[int, _Group], Set[_Group]]:
        """The known file groups of the table by number, and the file groups to look into in any case.

        The latter have log files whose keys may be in no base file. Unless nothing may be written, the store knows all
        base files after this call; otherwise the file groups of unknown base files are among the latter as well.
        """
        beyond = {(part.partition_path, part.file_id) for part in table.slices if part.base_file is None}
        beyond |= table.listing.groups_with_new_keys
        if not table.request.reads_only:
            return self._catch_up(store, context, table), beyond
        live, known = _live(table), _known(store) if store.exists() else {}
        return {known[key].number: key for key in live if key in known}, beyond | _missing(live, known).keys()

    # --- keeping up with the table --------------------------------------------------------------------------------

    def _catch_up(self, store: LocationStore, context: HoodieEngineContext, table: IndexedTable) -> dict[int, _Group]:
        """Make the store know every latest base file, and forget file groups that are not in the table any more.

        Returns:
            The file groups of the table by their number.
        """
        live, known = _live(table), _known(store)
        gone_numbers = [group.number for key, group in known.items() if _is_gone(group, live.get(key), table)]
        if gone_numbers:
            logger.info(
                "the index of %s drops %d file groups that were rolled back or replaced",
                table.base_path,
                len(gone_numbers),
            )
            store.drop_groups(gone_numbers)
            known = {key: group for key, group in known.items() if group.number not in set(gone_numbers)}
        missing = _missing(live, known)
        if missing:
            known = self._read_missing(store, context, table, missing, known)
        self._forget_old(store, context, table, live, known)
        return {known[key].number: key for key in live}

    def _read_missing(
        self,
        store: LocationStore,
        context: HoodieEngineContext,
        table: IndexedTable,
        missing: Mapping[_Group, FileSlice],
        known: Mapping[_Group, KnownGroup],
    ) -> dict[_Group, KnownGroup]:
        """Claim the keys of latest base files that other writers wrote, or that a rollback or restore brought back."""
        started = time.monotonic()
        logger.warning(
            "the index of %s does not know %d of its %d base files, which were written without it: it reads their keys "
            "now", table.base_path, len(missing), len(table.slices),
        )  # fmt: skip
        for _ in range(2):
            groups = store.add_groups(missing.keys(), table.instant_time)
            claims = [
                _Claim(
                    groups[key],
                    file_slice.key_file.path,
                    KnownFile(_file_name(file_slice), file_slice.base_instant_time, removed=key in known),
                    None,
                )
                for key, file_slice in missing.items()
            ]
            refused = {_key(claim.group) for claim in self._claim(store, context, table, claims)}
            # Another writer took keys away meanwhile: try once more with the current groups.
            missing = {key: file_slice for key, file_slice in missing.items() if key in refused}
            if not missing:
                break
        else:
            raise HoodieIndexException(
                f"the index of {table.base_path} cannot keep up: other writers change it at the same time. Nothing was "
                "written; write again"
            )
        logger.warning("the index of %s knows all base files after %.1f s", table.base_path, time.monotonic() - started)
        return _known(store)

    def _claim(
        self, store: LocationStore, context: HoodieEngineContext, table: IndexedTable, claims: Sequence[_Claim]
    ) -> list[_Claim]:
        """Claim the keys of files and mark the files as known; return the claims of groups that changed meanwhile."""
        factory = self.store_factory()
        if factory.is_shared_by_tasks:
            done = context.run_tasks(claims, _ClaimInTask(table.storage, factory))
            return [claim for claim, is_known in zip(claims, done, strict=True) if not is_known]
        refused = []
        at_once = max(1, context.default_parallelism)
        for start in range(0, len(claims), at_once):
            wave = claims[start : start + at_once]
            for claim, keys in zip(wave, context.run_tasks(wave, _ReadKeys(table.storage)), strict=True):
                store.add_keys(claim.group.number, claimed_keys(keys))
                if not store.know(claim.group, claim.file):
                    refused.append(claim)
        return refused

    def _forget_old(
        self,
        store: LocationStore,
        context: HoodieEngineContext,
        table: IndexedTable,
        live: Mapping[_Group, FileSlice],
        known: Mapping[_Group, KnownGroup],
    ) -> None:
        """Mark older versions of base files as unknown, and remove the keys that the latest version does not have."""
        old: list[tuple[int, str]] = []
        for key, file_slice in live.items():
            group = known[key]
            older = [f for f in group.files.values() if is_before(f.instant_time, file_slice.base_instant_time)]
            if group.files[_file_name(file_slice)].removed and older:
                self._remove_deleted(store, table, group, file_slice, older)
            else:
                old += [(group.number, file.file_name) for file in older]
        if old:
            store.forget_files(old)

    @staticmethod
    def _remove_deleted(
        store: LocationStore,
        table: IndexedTable,
        group: KnownGroup,
        file_slice: FileSlice,
        older: Sequence[KnownFile],
    ) -> None:
        """Remove keys of older versions that the latest one does not have; keys of cleaned versions stay claimed."""
        path = file_slice.key_file.path
        now = _read_record_keys(table.storage, path)
        removed: set[str] = set()
        for file in older:
            try:
                before = _read_record_keys(table.storage, join(parent(path), file.file_name))
            except HoodieIOException as error:
                logger.debug("keys of %s are not compared: %s", file.file_name, error)
                continue
            removed.update(claimed_keys(before.filter(pc.invert(pc.is_in(before, value_set=now.combine_chunks())))))
        store.remove_keys(group.number, sorted(removed), _file_name(file_slice))


@attrs.frozen
class _Claim:
    """A base file whose keys are to be claimed.

    Attributes:
        group: Its file group, as it was before.
        path: Full path of the file.
        file: The file as the store knows it afterwards.
        only: The instant whose rows are enough, because the keys of the other rows are claimed; None for all rows, ""
            for no rows.
    """

    group: KnownGroup
    path: str
    file: KnownFile
    only: str | None


def _claim_of(status: WriteStatus, group: KnownGroup, table: IndexedTable) -> _Claim:
    stat = status.stat
    path = join(table.base_path, str(stat.path))
    before = None if stat.prev_commit == NULL_COMMIT else stat.version_before
    is_known = before is not None and any(file.instant_time == before for file in group.files.values())
    only = None
    if is_known:
        only = table.instant_time if stat.num_inserts else ""
        if only and stat.total_log_files_compacted:
            # Rows that a compaction took from log files keep the time of the commit that wrote them.
            only = None
    file = KnownFile(
        path.rsplit("/", 1)[-1],
        table.instant_time,
        added=only != "",
        # Rows that failed to merge are not deletes. Keys removed by a writer of another version are found by reading.
        removed=before is not None and (stat.num_deletes > 0 or not is_known),
    )
    return _Claim(group, path, file, only)


def _added_by(group: KnownGroup, instant_time: str) -> bool:
    return any(file.added and file.instant_time == instant_time for file in group.files.values())


def _live(table: IndexedTable) -> dict[_Group, FileSlice]:
    """The file groups that have a base file in the table."""
    slices = (file_slice for file_slice in table.slices if file_slice.base_file is not None)
    return {(file_slice.partition_path, file_slice.file_id): file_slice for file_slice in slices}


def _key(group: KnownGroup) -> _Group:
    return group.partition_path, group.file_id


def _known(store: LocationStore) -> dict[_Group, KnownGroup]:
    """The file groups that a store has."""
    return {_key(group): group for group in store.groups()}


def _missing(live: Mapping[_Group, FileSlice], known: Mapping[_Group, KnownGroup]) -> dict[_Group, FileSlice]:
    """The latest slices whose base file a store does not know."""
    return {
        key: file_slice
        for key, file_slice in live.items()
        if key not in known or _file_name(file_slice) not in known[key].files
    }


def _file_name(file_slice: FileSlice) -> str:
    return file_slice.key_file.file_name


def _is_gone(group: KnownGroup, live: FileSlice | None, table: IndexedTable) -> bool:
    """Whether to drop a group with its keys, because it is not in the table, or has keys of a failed write.

    Writes that may still be completed are left alone: pending ones, and those that began after this one.
    """
    if not table.instant_time:
        return False

    def may_come(instant_time: str) -> bool:
        return not is_before(instant_time, table.instant_time) or instant_time in table.request.pending_instants

    if live is None:
        return not any(map(may_come, [group.instant_time, *(file.instant_time for file in group.files.values())]))
    # Versions above the latest one: their instants were rolled back, or restored away.
    return any(
        file.added and is_after(file.instant_time, live.base_instant_time) and not may_come(file.instant_time)
        for file in group.files.values()
    )


@attrs.frozen
class _ReadKeys:
    """Task: read the keys of a base file."""

    storage: HoodieStorage

    def __call__(self, task: TaskIdentity, claim: _Claim) -> pa.Array:
        if claim.only == "":
            return pa.array([], pa.string())
        if claim.only is None:
            return _read_record_keys(self.storage, claim.path)
        with HoodieParquetReader(self.storage, claim.path) as reader:
            rows = reader.read_columns([RECORD_KEY_META, COMMIT_TIME_META])
        return rows.filter(pc.equal(rows[COMMIT_TIME_META], claim.only))[RECORD_KEY_META].cast(pa.string())


@attrs.frozen
class _ClaimInTask:
    """Task: claim the keys of a base file, and return whether the file is known then."""

    storage: HoodieStorage
    factory: StoreFactory

    def __call__(self, task: TaskIdentity, claim: _Claim) -> bool:
        keys = claimed_keys(_ReadKeys(self.storage)(task, claim))
        with self.factory.open() as store:
            store.add_keys(claim.group.number, keys)
            return store.know(claim.group, claim.file)


@attrs.frozen
class _FindGroups:
    """Task: find the numbers of the groups that keys are claimed for, each once for a batch."""

    factory: StoreFactory

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self.factory.open() as store:
            for batch in batches:
                _, numbers = store.find(claimed_keys(batch.column(RECORD_KEY)))
                yield pa.record_batch([pa.array(np.unique(numbers))], names=[_GROUP_NUMBER])


def _read_record_keys(storage: HoodieStorage, path: str) -> pa.ChunkedArray:
    with HoodieParquetReader(storage, path) as reader:
        return reader.read_record_keys()
