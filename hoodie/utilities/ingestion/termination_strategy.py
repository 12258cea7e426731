"""The end of continuous mode by a rule, such as no new data.

Hudi: org.apache.hudi.utilities.streamer.PostWriteTerminationStrategy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from hoodie.utilities.class_names import TERMINATION_STRATEGIES, find_class
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig
from hoodie.utilities.streamer.sync_result import SyncResult

_FLAG = "--post-write-termination-strategy-class"


class PostWriteTerminationStrategy(ABC):
    """Decides after each round whether it was the last one. A class of yours is named as ``module:Class``.

    Args:
        properties: The properties of the run.
    """

    def __init__(self, properties: StreamerProperties) -> None:
        self.properties = properties

    @abstractmethod
    def should_shutdown(self, result: SyncResult) -> bool:
        """Whether the run ends. Called once after each round that ended well.

        Args:
            result: The outcome of the round.
        """


class NoNewDataTerminationStrategy(PostWriteTerminationStrategy):
    """Ends the run after some rounds in a row without a commit.

    ``max.rounds.without.new.data.to.shutdown`` is their number, by default 3.

    Args:
        properties: The properties of the run.

    Raises:
        HoodieConfigException: The property is no number.

    Hudi: org.apache.hudi.utilities.streamer.NoNewDataTerminationStrategy.
    """

    def __init__(self, properties: StreamerProperties) -> None:
        super().__init__(properties)
        self._most = properties.read(HoodieStreamerConfig).termination_rounds
        self._rounds = 0

    def should_shutdown(self, result: SyncResult) -> bool:
        """See `PostWriteTerminationStrategy.should_shutdown`."""
        self._rounds = 0 if result.is_committed else self._rounds + 1
        return self._rounds >= self._most


def create_termination_strategy(
    name: str | None, properties: StreamerProperties
) -> PostWriteTerminationStrategy | None:
    """The strategy that a flag names; None without the flag.

    Args:
        name: The value of ``--post-write-termination-strategy-class``.
        properties: The properties of the run.

    Raises:
        HoodieConfigException: There is no such class, or its properties are wrong.
    """
    if not name:
        return None
    found = find_class(name, TERMINATION_STRATEGIES, _FLAG, PostWriteTerminationStrategy)
    return found(properties)
