from __future__ import annotations

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.termination_strategy import (
    NoNewDataTerminationStrategy,
    PostWriteTerminationStrategy,
    create_termination_strategy,
)
from hoodie.utilities.streamer.sync_result import SyncResult

EMPTY, COMMITTED = SyncResult(), SyncResult(instant_time="1")


@pytest.mark.parametrize(("given", "most"), [({}, 3), ({"max.rounds.without.new.data.to.shutdown": "2"}, 2)])
def test_rounds_without_a_commit_end_the_run(given: dict[str, str], most: int) -> None:
    strategy = NoNewDataTerminationStrategy(StreamerProperties(given))
    assert [strategy.should_shutdown(EMPTY) for _ in range(most - 1)] == [False] * (most - 1)
    assert not strategy.should_shutdown(COMMITTED)
    assert [strategy.should_shutdown(EMPTY) for _ in range(most)] == [*[False] * (most - 1), True]


class AfterOne(PostWriteTerminationStrategy):
    """A strategy of a user."""

    def should_shutdown(self, result: SyncResult) -> bool:
        return True


def test_a_flag_names_the_strategy() -> None:
    properties = StreamerProperties()
    assert create_termination_strategy(None, properties) is None
    assert create_termination_strategy("", properties) is None
    for name in (
        "NoNewDataTerminationStrategy",
        "org.apache.hudi.utilities.deltastreamer.NoNewDataTerminationStrategy",
    ):
        assert type(create_termination_strategy(name, properties)) is NoNewDataTerminationStrategy
    own = create_termination_strategy(f"{__name__}:AfterOne", properties)
    assert own is not None
    assert own.should_shutdown(EMPTY)
    with pytest.raises(HoodieConfigException, match="--post-write-termination-strategy-class"):
        create_termination_strategy("SomeStrategy", properties)
