"""What is called after a commit, and what it is told.

Hudi: org.apache.hudi.callback.HoodieWriteCommitCallback.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.config.write_config import HoodieWriteConfig

__all__ = ["HoodieWriteCommitCallback", "HoodieWriteCommitCallbackMessage"]


@attrs.frozen
class HoodieWriteCommitCallbackMessage:
    """One commit that was completed.

    Attributes:
        commit_time: Its instant time.
        table_name: The table.
        base_path: Its folder.
        commit_action_type: ``commit`` or ``replacecommit``.
        metadata: All that the commit stored.

    Hudi: org.apache.hudi.callback.common.HoodieWriteCommitCallbackMessage.
    """

    commit_time: str
    table_name: str
    base_path: str
    commit_action_type: str
    metadata: HoodieCommitMetadata = attrs.field(repr=False)

    @property
    def hoodie_write_stat(self) -> tuple[HoodieWriteStat, ...]:
        """Statistics of the files that were written."""
        return tuple(self.metadata.write_stats)

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the commit."""
        return self.metadata.extra_metadata

    def to_json(self) -> str:
        """The message with the names of Hudi's fields.

        ``commitActionType`` and ``extraMetadata`` hold the values; Hudi 0.15 prints of these two only whether there is
        one.
        """
        # The stats are printed as the commit itself has them.
        stored = json.loads(self.metadata.to_json())["partitionToWriteStats"]
        return json.dumps(
            {
                "commitTime": self.commit_time,
                "tableName": self.table_name,
                "basePath": self.base_path,
                "hoodieWriteStat": [stat for stats in stored.values() for stat in stats],
                "commitActionType": self.commit_action_type,
                "extraMetadata": dict(self.extra_metadata),
            },
            ensure_ascii=False,
        )


class HoodieWriteCommitCallback(ABC):
    """Is told of each commit of a client; the base of callbacks of your own.

    A client makes one of them, and calls it in its own thread: the write waits.

    Args:
        config: The writer's configuration.

    Hudi: org.apache.hudi.callback.HoodieWriteCommitCallback.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        self.config = config

    @abstractmethod
    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """A commit was completed; an error here is logged, and changes nothing in the table.

        Args:
            message: The commit.
        """
