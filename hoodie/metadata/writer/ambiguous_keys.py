"""Refuse record keys that would be in more file groups than a record index can name.

A record index names one file group for a key: in the whole table, or in each partition. If a key is in two of them,
readers of the index miss a row, and its writers change one row only. So an action must not give a key a second place::

    F1 and F2 gain k                        refused
    F2 gains k, and k -> F1 in the index    refused if F1 still holds k
    F1 loses k, F2 gains k                  it moved
    F1 holds k twice                        the index names F1: nothing is missed

If a writer has looked for its keys in the whole table and found none, they are not looked up again. An action that only
rewrites rows is never refused, nor is one that leaves a key in as many places as before: tables of Hudi may hold such
keys.

``docs/decisions/0117-keys-in-one-place.md``. Hudi has no such rule.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieAmbiguousKeyException, HoodieIndexException, HoodieWriteConflictException
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.records.key_look_up import KeyScope
from hoodie.metadata.writer.partition_indexer import CommittedChange
from hoodie.metadata.writer.slice_keys import FileGroupChange, SliceKeys

logger = logging.getLogger(__name__)

MOST_KEYS = 1000
"""The most keys of a file group of the index that are brought to the driver."""
FIRST_VERSION_BY_PARTITION = 9
"""The first version of tables that may have a partitioned record index."""
_SHOWN = 3
_PARTITION, _FILE_ID, _KEY = "partition_path", "file_id", "key"
KEY_PLACES = pa.schema([(_KEY, pa.string()), (_PARTITION, pa.string()), (_FILE_ID, pa.string())])
"""A key, and a file group of the table."""


@attrs.frozen(eq=False)
class SuspectKeys:
    """Keys of one file group of the index that may be in several places. Crosses from tasks to the driver.

    Attributes:
        gained: Keys that an action put in several places, with these places (`KEY_PLACES`).
        gained_count: The number of such keys; `gained` has some of them.
        named: Keys that gained a place while their entries name another one, with that other place (`KEY_PLACES`).
        named_at: The places that these keys gained (`KEY_PLACES`).
        named_count: The number of such keys.
    """

    gained: pa.Table = attrs.field(factory=KEY_PLACES.empty_table)
    gained_count: int = 0
    named: pa.Table = attrs.field(factory=KEY_PLACES.empty_table)
    named_at: pa.Table = attrs.field(factory=KEY_PLACES.empty_table)
    named_count: int = 0


@attrs.frozen(eq=False)
class OnePlaceRule:
    """The rule that each key has one place, for one action or for an index that is built. Lives on the driver.

    Attributes:
        table: The table, without the action.
        is_by_partition: Whether the index has an entry of a key for each partition.
        change: The action; None while an index is built.
        merger: The record merger that the writer names, in a table that merges by one.
    """

    table: TableSnapshot
    is_by_partition: bool
    change: CommittedChange | None = None
    merger: HoodieRecordMerger | None = None

    @property
    def needs_entries(self) -> bool:
        """Whether the entries of the keys that file groups gain must be looked up in the index."""
        if self.change is None:
            return True
        return not self._only_rewrites and not (self._has_looked and not self.change.key_look_up.others)

    def check(self, found: Sequence[SuspectKeys], engine: HoodieEngineContext) -> None:
        """Raise if a key is in several places.

        Args:
            found: Keys that may be in several places.
            engine: Reads the file groups that entries name.

        Raises:
            HoodieAmbiguousKeyException: A key is in several places.
            HoodieWriteConflictException: Another writer added the key meanwhile; a retry would find and update it.
            HoodieIndexException: Many entries name file groups that do not hold their keys.
            HoodieException: A file of these file groups cannot be read.
        """
        count = sum(one.gained_count + one.named_count for one in found)
        if not count or self._only_rewrites:
            return
        places = pa.concat_tables(one.gained for one in found)
        named = pa.concat_tables(one.named for one in found)
        is_held = self._are_held(named, engine)
        stale = named.num_rows - pc.sum(is_held).as_py() if named.num_rows else 0
        gained_places = pa.concat_tables(one.named_at for one in found)
        places = pa.concat_tables([places, named.filter(is_held), gained_places.filter(is_held)])
        if places.num_rows:
            raise self._refusal(places, count - stale)
        if stale == count:
            logger.warning(
                "entries of the record index of %s named file groups that do not hold their keys, %d of which %s adds "
                "again; see hoodie.metadata.validate",
                self.table.base_path, stale, "the table" if self.change is None else self.change.instant_time,
            )  # fmt: skip
        else:
            example = named.slice(0, 1).to_pylist()[0]
            raise HoodieIndexException(
                f"the record index of {self.table.base_path} is wrong: it says that {_place(example)} holds the key "
                f"{short_repr(example[_KEY])}, which it does not, and so of at least {stale} keys. Check it with "
                f"hoodie.metadata.validate, and build it anew: a write with {self.option}=false drops it"
            )

    @property
    def _only_rewrites(self) -> bool:
        return self.change is not None and self.change.metadata.only_rewrites

    @property
    def _has_looked(self) -> bool:
        """Whether the writer has looked for its keys in the whole scope in which the index allows a key once."""
        scope = KeyScope.PARTITION if self.is_by_partition else KeyScope.TABLE
        return self.change is not None and self.change.key_look_up.scope >= scope

    @property
    def option(self) -> str:
        level = "record.level" if self.is_by_partition else "global.record.level"
        return f"hoodie.metadata.{level}.index.enable"

    def _are_held(self, named: pa.Table, engine: HoodieEngineContext) -> pa.Array:
        """Whether each file group really holds the key that an entry names it for: an index may be wrong
        (bool).

        Args:
            named: Keys and the places that entries name (`KEY_PLACES`).
            engine: Reads the file groups.
        """
        if not named.num_rows:
            return pa.array([], pa.bool_())
        view = self.table.view()
        paths = named[_PARTITION].unique().to_pylist()
        view.load_partitions(paths)
        slices = {(path, part.file_id): part for path in paths for part in view.latest_file_slices(path)}
        wanted: dict[tuple[str, str], list[str]] = {}
        for row in named.to_pylist():
            wanted.setdefault((row[_PARTITION], row[_FILE_ID]), []).append(row[_KEY])
        items = [(slices[place], keys) for place, keys in wanted.items() if place in slices]
        changes = [FileGroupChange(part.partition_path, part.file_id, None, part) for part, _ in items]
        reading = _HeldKeys(SliceKeys.of(self.table, changes, merger=self.merger))
        held = engine.run_tasks(items, reading) if items else []
        held_places = {
            (part.partition_path, part.file_id, key)
            for (part, _), keys in zip(items, held, strict=True)
            for key in keys
        }
        return pa.array([(row[_PARTITION], row[_FILE_ID], row[_KEY]) in held_places for row in named.to_pylist()])

    def _refusal(self, places: pa.Table, count: int) -> HoodieAmbiguousKeyException | HoodieWriteConflictException:
        by_key: dict[str, set[str]] = {}
        for row in places.to_pylist():
            by_key.setdefault(row[_KEY], set()).add(_place(row))
        shown = "; ".join(
            f"{short_repr(key)} in {' and '.join(sorted(by_key[key])[:_SHOWN])}" for key in sorted(by_key)[:_SHOWN]
        )
        keys = f"{count} record key{'s' if count > 1 else ''}"
        change, base_path = self.change, self.table.base_path
        if change is not None and self._has_looked and change.key_look_up.others:
            others = change.key_look_up.others
            return HoodieWriteConflictException(
                f"{change.instant_time} of {base_path} added {keys} that another writer added meanwhile "
                f"({', '.join(others[:_SHOWN])}): {shown}. Nothing of {change.instant_time} was committed. Write "
                "again: that is safe, and updates them; hoodie.write.lock.wait.retry=true does so by itself",
                instant_time=change.instant_time,
                other_instants=others,
                is_retry_safe=True,
            )
        within = " in a partition" if self.is_by_partition else ""
        why = (
            f"it names one file group for a key{within}, so filters on keys and on indexed columns, and writes that "
            "look keys up in it, would miss the other rows"
        )
        if change is None:
            across = "" if self.is_by_partition else ", across_partitions=True"
            text = (
                f"{base_path} has {keys} in several file groups: {shown}. It cannot have a record index: {why}. Write "
                f"without the index, with {self.option}=false and another hoodie.index.type than {self._index_type}; "
                f"or delete the other rows first, with hoodie.table.repair.drop_duplicates(client{across})"
            )
        else:
            text = (
                f"{change.instant_time} would put {keys} of {base_path} in several file groups: {shown}. The table has "
                f"a record index: {why}. Nothing was committed. Upsert with hoodie.index.type={self._index_type}, "
                f"which finds the rows that are there; or write with {self.option}=false, which drops the index"
            )
        return HoodieAmbiguousKeyException(text + self._by_partition)

    @property
    def _index_type(self) -> str:
        return "RECORD_LEVEL_INDEX" if self.is_by_partition else "RECORD_INDEX"

    @property
    def _by_partition(self) -> str:
        """The advice for keys that are unique only within their partitions."""
        if self.is_by_partition or self.table.table_config.table_version < FIRST_VERSION_BY_PARTITION:
            return ""
        return (
            ". If keys are unique in their partitions, a write with hoodie.metadata.record.level.index.enable=true "
            "then makes an index by partitions"
        )


@attrs.frozen(eq=False)
class _HeldKeys:
    """Task: the keys among those asked for that a slice holds."""

    keys: SliceKeys

    def __call__(self, task: TaskIdentity, item: tuple[FileSlice, list[str]]) -> list[str]:
        file_slice, wanted = item
        names = pa.array(wanted, pa.string())
        held: list[str] = names.filter(pc.is_in(names, value_set=self.keys.read(file_slice))).to_pylist()
        return held


def _place(row: dict[str, str]) -> str:
    """A place of a key, for a message."""
    return f"partition '{row[_PARTITION]}' (file group {row[_FILE_ID]})"
