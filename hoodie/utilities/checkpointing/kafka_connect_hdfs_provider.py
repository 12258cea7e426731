"""The position up to which Kafka Connect has written a topic to files.

Hudi: org.apache.hudi.utilities.checkpointing.KafkaConnectHdfsProvider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hoodie.exception import HoodieStreamerException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.utilities.checkpointing.initial_checkpoint_provider import PATH, InitialCheckPointProvider

_FILE: Final = re.compile(r"([a-zA-Z0-9._-]+)\+(\d+)\+(\d+)\+(\d+)(\.\w+)?")
_MOST_SHOWN: Final = 20


class KafkaConnectHdfsProvider(InitialCheckPointProvider):
    """The newest offset of each partition, as the names of files tell: ``topic+partition+first+last.ext``.

    Files are looked for in the folder and in folders like ``a=b`` below it. As in Hudi, the position is the last offset
    itself, so the last message of each partition is read once more.

        trips+0+0+99.avro, a=b/trips+0+100+149.avro, trips+1+0+79.avro   ->   trips,0:149,1:79

    Hudi: org.apache.hudi.utilities.checkpointing.KafkaConnectHdfsProvider. Differs: a topic may have dots in its name;
    files of two topics are refused.
    """

    def load_checkpoint(self) -> str:
        """See `InitialCheckPointProvider.load_checkpoint`.

        Raises:
            HoodieStreamerException: There is no such file; files are of several topics; or a partition has none.
        """
        storage = open_storage(self.path, self.storage_options)
        newest: dict[int, int] = {}
        topics: set[str] = set()
        for name in _names(storage, self.path):
            if (found := _FILE.fullmatch(name)) is not None:
                topics.add(found[1])
                partition, last = int(found[2]), int(found[4])
                newest[partition] = max(last, newest.get(partition, last))
        if not topics:
            raise HoodieStreamerException(
                f"{PATH} = {self.path} has no file of Kafka Connect (topic+partition+first+last.ext), also not in "
                "folders like a=b: check the path"
            )
        if len(topics) > 1:
            raise HoodieStreamerException(
                f"{PATH} = {self.path} has files of the topics {', '.join(sorted(topics))}: name the folder of one of "
                "them"
            )
        missing = [partition for partition in range(max(newest)) if partition not in newest]
        if missing:
            raise HoodieStreamerException(
                f"{PATH} = {self.path} has no file of the partitions {_shown(missing)}, and has one of {max(newest)}: "
                "give --checkpoint with an offset of each partition instead"
            )
        return ",".join([topics.pop(), *(f"{partition}:{newest[partition]}" for partition in sorted(newest))])


def _names(storage: HoodieStorage, folder: str) -> Iterator[str]:
    for status in storage.list_directory(folder):
        if not status.is_directory:
            yield status.name
        elif "=" in status.name:
            yield from _names(storage, status.path)


def _shown(partitions: list[int]) -> str:
    shown = ", ".join(map(str, partitions[:_MOST_SHOWN]))
    return shown if len(partitions) <= _MOST_SHOWN else f"{shown} and {len(partitions) - _MOST_SHOWN} more"
