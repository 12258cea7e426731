"""The position that a run begins at, and the extra metadata by which a commit holds one.

A position stands in the same commit as the rows up to it, so rows and position appear in one atomic step. A run walks
back from the newest commit to the first one that holds a position: commits of other writers, clusterings and
compactions are stepped over, and a commit that was rolled back takes its position with it.

Hudi: org.apache.hudi.utilities.streamer.StreamerCheckpointUtils. Differs: the archive is read too; a table with commits
and without a position is refused, where Hudi passes over all that a topic holds; several sources may fill one table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.commit_marks import POSITION_KEYS, MarkedCommit, marked_commits
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieConfigException, HoodieStreamerException, HoodieWriteConflictException
from hoodie.utilities.sources.checkpoint import Checkpoint, CheckpointVersion
from hoodie.utilities.streamer.streamer_config import StreamerConfig

logger = logging.getLogger(__name__)

IGNORE_KEY: Final = "deltastreamer.checkpoint.ignore_key"
"""The key of the value of ``--ignore-checkpoint`` in that run."""
IDENTITY_KEY: Final = "hoodie.streamer.source.identity"
"""The key of the source's name: its topic, folder or table. Only hoodie writes it."""
SOURCE_ID_KEY: Final = "hoodie.streamer.source.id"
_OWN = "hoodie.streamer."
_VERSIONS = (CheckpointVersion.V2, CheckpointVersion.V1)


@attrs.frozen
class CommittedCheckpoint:
    """A commit that holds a position, or the value of ``--checkpoint``.

    Attributes:
        commit: The commit.
        checkpoint: Its position; None if it holds none.
        reset_keys: The values of ``--checkpoint`` that it holds.
        ignore_key: The value of ``--ignore-checkpoint`` that it holds.
        identity: The source's name; None if the commit does not tell it.
    """

    commit: MarkedCommit
    checkpoint: Checkpoint | None
    reset_keys: frozenset[str]
    ignore_key: str | None
    identity: str | None


@attrs.frozen
class ResumePoint:
    """The beginning of a round.

    Attributes:
        checkpoint: The position to read from; None for a round that begins as the source does without one.
        committed: The newest commit of the source as the round begins; None for none.
    """

    checkpoint: Checkpoint | None
    committed: CommittedCheckpoint | None = None


@attrs.frozen
class CheckpointKeys:
    """The keys of one source's position.

    Attributes:
        source_id: The id of one of several sources of a table (``hoodie.streamer.source.id``); "" for the only one,
            whose keys are Hudi's.
    """

    source_id: str = ""

    def of(self, key: str) -> str:
        """A key of Hudi as this source writes it.

        Args:
            key: The key.
        """
        return f"{key}.{self.source_id}" if self.source_id else key

    @property
    def sought(self) -> tuple[str, ...]:
        """The keys that make a commit one of this source."""
        return tuple(self.of(key) for one in _VERSIONS for key in (one.position_key, one.reset_key))

    def read(self, commit: MarkedCommit) -> CommittedCheckpoint | None:
        """The position that a commit holds.

        Args:
            commit: The commit.

        Returns:
            The position; None if the commit is not one of this source.
        """
        extra = commit.extra_metadata
        if not any(extra.get(key) for key in self.sought):
            return None
        version = next((one for one in _VERSIONS if extra.get(self.of(one.position_key))), None)
        checkpoint = None
        if version is not None:
            checkpoint = Checkpoint(extra[self.of(version.position_key)], version, self._own(extra))
        resets = (extra.get(self.of(one.reset_key)) for one in _VERSIONS)
        return CommittedCheckpoint(
            commit,
            checkpoint,
            frozenset(value for value in resets if value),
            extra.get(self.of(IGNORE_KEY)),
            extra.get(self.of(IDENTITY_KEY)),
        )

    def metadata(self, checkpoint: Checkpoint, config: StreamerConfig, identity: str) -> dict[str, str]:
        """The extra metadata of a commit that holds a position.

        Args:
            checkpoint: The position.
            config: The flags of the run.
            identity: The source's name.
        """
        found = {self.of(checkpoint.version.position_key): checkpoint.position}
        if config.checkpoint is not None:
            found[self.of(checkpoint.version.reset_key)] = config.checkpoint
        if config.ignore_checkpoint is not None:
            found[self.of(IGNORE_KEY)] = config.ignore_checkpoint
        found[self.of(IDENTITY_KEY)] = identity
        return found | {self.of(key): text for key, text in checkpoint.own.items()}

    def _own(self, extra_metadata: Mapping[str, str]) -> dict[str, str]:
        end = f".{self.source_id}" if self.source_id else ""
        return {
            key.removesuffix(end): text
            for key, text in extra_metadata.items()
            if key.startswith(_OWN) and key.endswith(end) and not key.startswith(IDENTITY_KEY)
        }


def committed_checkpoints(
    snapshot: TableSnapshot, keys: CheckpointKeys, *, is_archive_read: bool = True
) -> Iterator[CommittedCheckpoint]:
    """The commits that hold a position of a source, the newest first.

    In a merge-on-read table with delta commits, commits are compactions, and are passed over.

    Args:
        snapshot: The table.
        keys: The source's keys.
        is_archive_read: Whether to look into the archive too.

    Raises:
        HoodieCorruptedDataException: A commit or a file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    sought = (*keys.sought, keys.of(IGNORE_KEY), _OWN)
    is_merge_on_read = snapshot.table_config.table_type == HoodieTableType.MERGE_ON_READ
    delta_commits = snapshot.active_timeline.completed_writes().filter_actions(Action.DELTA_COMMIT)
    skips_commits = is_merge_on_read and len(delta_commits) > 0
    for commit in marked_commits(snapshot, sought, is_archive_read=is_archive_read):
        if skips_commits and commit.instant.action is Action.COMMIT:
            continue
        found = keys.read(commit)
        if found is not None:
            yield found


def newest_checkpoint(snapshot: TableSnapshot, source_id: str = "") -> Checkpoint | None:
    """The newest position that a table holds.

    Args:
        snapshot: The table.
        source_id: The id of one of several sources; "" for the only one.

    Raises:
        HoodieCorruptedDataException: A commit or a file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    found = next((one for one in committed_checkpoints(snapshot, CheckpointKeys(source_id))), None)
    return None if found is None else found.checkpoint


def point_to_resume_from(
    snapshot: TableSnapshot | None,
    config: StreamerConfig,
    keys: CheckpointKeys,
    identity: str,
    initial: Callable[[], str] | None = None,
) -> ResumePoint:
    """The position that a round begins at.

    Args:
        snapshot: The table; None if there is none.
        config: The flags of the run.
        keys: The source's keys.
        identity: The source's name.
        initial: Tells the position of the first round (``--initial-checkpoint-provider``).

    Raises:
        HoodieStreamerException: The table has commits, and none tells a position; or its positions are of another
            source. The message has the ways out.
        HoodieCorruptedDataException: A commit or a file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    found = None if snapshot is None else next(committed_checkpoints(snapshot, keys), None)
    given = None if config.checkpoint is None else Checkpoint(config.checkpoint, is_given=True)
    if found is None:
        if given is None and config.ignore_checkpoint is None and initial is not None:
            return ResumePoint(Checkpoint(initial(), is_given=True))
        if given is None and config.ignore_checkpoint is None and snapshot is not None:
            _refuse_written(snapshot, keys)
        return ResumePoint(given)
    is_new = config.checkpoint is not None and config.checkpoint not in found.reset_keys
    if config.ignore_checkpoint is not None and config.ignore_checkpoint != found.ignore_key:
        return ResumePoint(given if is_new else None, found)
    if is_new:
        return ResumePoint(given, found)
    base_path = "" if snapshot is None else snapshot.base_path
    if found.identity is not None and found.identity != identity:
        position = "" if found.checkpoint is None else found.checkpoint.position
        raise HoodieStreamerException(
            f"{base_path} is filled from {found.identity} ({found.commit.instant}), and this run reads {identity}; "
            f"nothing was written. If the source has another name now, give --checkpoint {position!r} to go on there, "
            "or --ignore-checkpoint with a new value to begin anew. If two sources fill the table, give each an id: "
            f"--hoodie-conf {SOURCE_ID_KEY}=NAME"
        )
    if found.checkpoint is None:
        raise HoodieStreamerException(
            f"{base_path}: {found.commit.instant} was written with --checkpoint {sorted(found.reset_keys)}, and holds "
            "no position. Give --checkpoint with another value, or --ignore-checkpoint; nothing was written"
        )
    return ResumePoint(found.checkpoint, found)


def refuse_moved_position(snapshot: TableSnapshot, keys: CheckpointKeys, begun: ResumePoint, instant_time: str) -> None:
    """Refuse to commit rows if another process has committed a position of the same source since this round began.

    Called while any lock is held, right before the instant is completed. The archive is not read: a position that came
    since is in the active timeline.

    Args:
        snapshot: The table now.
        keys: The source's keys.
        begun: The beginning of this round.
        instant_time: The instant to be completed.

    Raises:
        HoodieWriteConflictException: The table holds another position.
    """
    found = next(committed_checkpoints(snapshot, keys, is_archive_read=False), None)
    if found is None or (begun.committed is not None and found.commit.instant == begun.committed.commit.instant):
        return
    position = None if found.checkpoint is None else found.checkpoint.position
    raise HoodieWriteConflictException(
        f"another process fills {snapshot.base_path} from the same source: {found.commit.instant} holds the position "
        f"{position!r}, and came after this round had begun. Nothing of {instant_time} was committed. Run one streamer "
        f"for each source; several sources of one table need ids ({SOURCE_ID_KEY})",
        instant_time=instant_time,
        other_instants=[str(found.commit.instant)],
    )


def _refuse_written(snapshot: TableSnapshot, keys: CheckpointKeys) -> None:
    """Refuse a table with commits of which none tells a position."""
    writes = snapshot.active_timeline.completed_writes()
    last = writes.last_instant
    if last is None:
        return
    others = {
        key: text
        for commit in marked_commits(snapshot, (*POSITION_KEYS, *(f"{key}." for key in POSITION_KEYS)))
        for key, text in commit.extra_metadata.items()
        if key.startswith(POSITION_KEYS)
    }
    if keys.source_id and others and not set(others) & set(POSITION_KEYS):
        logger.info("%s has other sources; '%s' begins as a new one", snapshot.base_path, keys.source_id)
        return
    shown = f" Positions under other keys: {', '.join(f'{key}={text!r}' for key, text in others.items())}."
    shown = shown if others else ""
    raise HoodieStreamerException(
        f"{snapshot.base_path} has commits (the newest is {last}), and none of them, archived ones included, tells the "
        f"position of {'this source' if keys.source_id else 'a source'}. To begin without one could skip rows, or "
        f"write rows again; nothing was written.{shown} Give --checkpoint with a position, --ignore-checkpoint with "
        "any text to begin as a new table does, or --initial-checkpoint-provider"
    )


def check_source_id(source_id: str) -> str:
    """The id of a source, if it can be part of a key.

    Args:
        source_id: The id.

    Raises:
        HoodieConfigException: It has other characters than letters, digits, dashes and underscores.
    """
    if source_id and not source_id.replace("-", "").replace("_", "").isalnum():
        raise HoodieConfigException(f"{SOURCE_ID_KEY} = {source_id!r}: letters, digits, dashes and underscores only")
    return source_id
