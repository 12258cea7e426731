"""The callback after each commit, and the message that it receives.

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


@attrs.frozen
class HoodieWriteCommitCallbackMessage:
    """A message about one completed commit.

    Attributes:
        commit_time: The commit's instant time.
        table_name: The table's name.
        base_path: The table's folder.
        commit_action_type: ``commit`` or ``replacecommit``.
        metadata: The metadata that the commit stored.

    Hudi: org.apache.hudi.callback.common.HoodieWriteCommitCallbackMessage.
    """

    commit_time: str
    table_name: str
    base_path: str
    commit_action_type: str
    metadata: HoodieCommitMetadata = attrs.field(repr=False)

    @property
    def hoodie_write_stat(self) -> tuple[HoodieWriteStat, ...]:
        """The statistics of the written files."""
        return tuple(self.metadata.write_stats)

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the commit."""
        return self.metadata.extra_metadata

    def to_json(self) -> str:
        """The message as JSON, with Hudi's field names.

        ``commitActionType`` and ``extraMetadata`` hold the values; Hudi 0.15 only prints whether these two are present.
        """
        # The statistics have the same form as in the commit itself.
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
    """Is called after each commit of a client; the base class of your own callbacks.

    A client creates one instance, and calls it in the client's thread: the write waits for it.

    Args:
        config: The writer's configuration.

    Hudi: org.apache.hudi.callback.HoodieWriteCommitCallback.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        self.config = config

    @abstractmethod
    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """Receive the message of a completed commit; an error is logged, and changes nothing in the table.

        Args:
            message: The commit.
        """
