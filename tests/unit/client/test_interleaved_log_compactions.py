"""Writers, compactors, log compactors, cleaners and readers of a merge-on-read table, interleaved by seeds.

What must hold is what `interleaved_compactions` says.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieLocalWriteClient
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieException
from tests.support.interleaved_compactions import (
    CompactionScenario,
    make_compaction_template,
    new_client,
    read,
    run_compaction_seed,
)
from tests.support.interleaving import Process, virtual

VERSIONS = (6, 8, 9)
SEEDS = 60
QUICK_SEEDS = 15
CHUNK = 15


class LogCompactionScenario(CompactionScenario):
    """Compactors also compact log files; see the module."""

    def _properties(self) -> dict[str, Any]:
        return {**super()._properties(), "hoodie.log.compaction.blocks.threshold": 2}

    def _compact(self, process: Process) -> None:
        rng = self.random
        with new_client(self.base_path, **self.properties) as client:
            calls = {
                "log_compact": client.log_compact,
                "schedule_log": client.schedule_log_compaction,
                "compact": client.compact,
                "schedule": client.schedule_compaction,
            }
            for _ in range(rng.choice([3, 5, 8])):
                kind = rng.choice(["log_compact", "log_compact", "log_compact", *calls])
                try:
                    done = calls[kind]()
                except HoodieException as error:
                    self.outcomes[f"{kind} {type(error).__name__}"] += 1
                    self._check_allowed(process, error)
                else:
                    self.outcomes[f"{kind} {'done' if done else 'had nothing to do'}"] += 1
                self.world.sleep(rng.choice([0, 50, 1000, 3000]))

    def _recover(self) -> None:
        with new_client(self.base_path, **self.properties) as client:
            client.rollback_failed_writes()
            before = sorted(read(self.base_path))
            self._check_rows(before, self._told())
            finish(client)
            assert sorted(read(self.base_path)) == before
        timeline = TableSnapshot.load(self.base_path).active_timeline
        operations = [timeline.read_commit_metadata(one).operation_type for one in timeline.completed_writes()]
        self.outcomes["log compactions"] += operations.count(WriteOperationType.LOG_COMPACT)
        super()._recover()


def finish(client: HoodieLocalWriteClient) -> None:
    while client.log_compact() is not None:
        pass


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Path, float]]]:
    """Version to a table to begin with and its time; time and threads are those of the worlds meanwhile."""
    with pytest.MonkeyPatch.context() as monkeypatch, virtual(monkeypatch):
        folder = tmp_path_factory.mktemp("templates")
        yield {
            version: (folder / str(version), make_compaction_template(folder / str(version), version))
            for version in VERSIONS
        }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.soak] if first >= QUICK_SEEDS else []) for first in range(0, SEEDS, CHUNK)],
)
@pytest.mark.one_in(4)
def test_no_order_of_calls_loses_or_revives_a_row(
    first: int, version: int, templates: dict[int, tuple[Path, float]], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    template, now_ms = templates[version]
    for seed in range(first, first + CHUNK):
        outcomes += run_compaction_seed(
            1000 * version + seed, template, now_ms, tmp_path / "t", LogCompactionScenario
        ).outcomes
    print(f"version {version}, seeds {first} to {first + CHUNK - 1}: {dict(sorted(outcomes.items()))}")
    assert outcomes["committed"] >= CHUNK
    assert outcomes["log compactions"] >= CHUNK // 3
    assert outcomes["read"] >= CHUNK
