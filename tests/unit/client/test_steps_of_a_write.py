"""The steps of each operation: which, in which order, what they count; and that logs stay silent."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, ProgressEvent
from hoodie.exception import HoodieKeyException
from hoodie.metrics.metrics import StepDuration
from hoodie.metrics.progress import ProgressState
from hoodie.table.action.action import announce
from hoodie.table.action.rollback.rollback_action_executor import RollbackActionExecutor
from tests.support.table_builder import rows_of_keys, write_config

REPOSITORY = Path(__file__).parents[3]
START = ["start commit", "  roll back failed writes", "  create the instant", "load the table", "prepare the input"]
COMMIT = [
    "commit",
    "  reconcile with markers",
    "  update index",
    "  check the table again",
    "  complete the instant",
    "  delete markers",
    "post-commit",
    "  clean",
    "    plan the clean",
    "  archive",
]
UPSERT = [
    "read the input and its keys",
    "list base files",
    "tag location (SIMPLE)",
    "build workload profile",
    "write buckets (1)",
]


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields=["id"], ordering_fields=["ts"])
    return path


def first(steps: list[str]) -> list[str]:
    """The steps of the first write of a table, which builds its metadata table."""
    return [*steps[:2], "    build the metadata table", *steps[2:]]


def walk(steps: tuple[StepDuration, ...]) -> list[str]:
    return ["  " * step.depth + step.title for step in steps]


def step(steps: tuple[StepDuration, ...], name: str) -> StepDuration:
    (found,) = [step for step in steps if step.name == name]
    return found


@pytest.mark.table_version(9)
def test_each_operation_walks_its_steps_once_and_in_order(base_path: str) -> None:
    with HoodieLocalWriteClient(write_config(base_path)) as client:
        bulk = client.bulk_insert(rows_of_keys(["a", "b"]))
        assert walk(bulk.steps) == first([*START, "build workload profile", "write files", *COMMIT])
        result = client.upsert(rows_of_keys(["b", "c"], ts=2))
        assert walk(result.steps) == [*START, *UPSERT, *COMMIT]
        inserted = client.insert(rows_of_keys(["d"]))
        middle = ["read the input and its keys", "list base files", "build workload profile", "write buckets (1)"]
        assert walk(inserted.steps) == [*START, *middle, *COMMIT]
        assert walk(client.delete(rows_of_keys(["a"])).steps) == [*START, *UPSERT, *COMMIT]
        duplicates = client.upsert(rows_of_keys(["x", "x", "y"]))
    combined = [*UPSERT[:2], "combine records of one key", *UPSERT[2:]]
    assert walk(duplicates.steps) == [*START, *combined, *COMMIT]
    assert step(duplicates.steps, "read the input and its keys").records == 3
    assert step(duplicates.steps, "combine records of one key").records == 2
    assert all(count == 1 for count in Counter(walk(duplicates.steps)).values())


def test_an_insert_that_drops_known_keys_reads_its_input_once(base_path: str) -> None:
    with HoodieLocalWriteClient(write_config(base_path, datasource_insert_dup_policy="drop")) as client:
        client.insert(rows_of_keys(["a"]))
        result = client.insert(rows_of_keys(["a", "b"]))
    assert result.inserted_count == 1
    names = [s.name for s in result.steps]
    assert names.count("read the input and its keys") == 1
    assert names.index("list base files") < names.index("tag location") < names.index("write buckets")


def test_steps_count_records_files_and_bytes(base_path: str) -> None:
    with HoodieLocalWriteClient(write_config(base_path)) as client:
        bulk = client.bulk_insert(rows_of_keys(["a", "b"]))
        written = step(bulk.steps, "write files")
        assert (written.records, written.files, written.bytes) == (2, 1, bulk.written_bytes)
        result = client.upsert(rows_of_keys(["b", "c"], ts=2))
    assert step(result.steps, "read the input and its keys").records == 2
    listed = step(result.steps, "list base files")
    assert (listed.files, listed.bytes) == (1, bulk.written_bytes)
    assert step(result.steps, "tag location").files == 1
    written = step(result.steps, "write buckets")
    assert (written.records, written.files, written.bytes) == (3, 1, result.written_bytes)
    assert written.tasks > 0
    assert step(result.steps, "reconcile with markers").files == 0


@pytest.mark.table_version(9)
def test_a_commit_by_hand_goes_on_with_the_steps_of_its_instant(base_path: str) -> None:
    with HoodieLocalWriteClient(write_config(base_path, auto_commit="false")) as client:
        instant_time = client.start_commit()
        result = client.upsert(rows_of_keys(["a"]), instant_time)
        assert walk(result.steps) == first([*START, *UPSERT])
        client.commit(instant_time, result)
        assert walk(client.metrics.steps) == first([*START, *UPSERT, *COMMIT])
        client.start_commit()
        assert walk(client.metrics.steps) == START[:3]


def test_rolling_back_has_its_steps(base_path: str) -> None:
    with HoodieLocalWriteClient(write_config(base_path)) as client:
        instant_time = client.bulk_insert(rows_of_keys(["a", "b"])).instant_time
        assert client.rollback(instant_time)
        steps = client.metrics.steps
    assert walk(steps) == [f"roll back ({instant_time})", "  plan the rollback", "  delete the files"]
    assert step(steps, "delete the files").files == 1


def test_a_start_counts_what_it_rolls_back(base_path: str) -> None:
    dead = HoodieLocalWriteClient(write_config(base_path, auto_commit="false"))
    instant_time = dead.start_commit()
    dead.bulk_insert(rows_of_keys(["a"]), instant_time)
    with HoodieLocalWriteClient(write_config(base_path)) as client:
        client.start_commit()
        assert walk(client.metrics.steps) == [
            "start commit",
            "  roll back failed writes",
            f"    roll back ({instant_time})",
            "      plan the rollback",
            "      delete the files",
            "  create the instant",
        ]


def test_a_rollback_that_was_begun_is_finished_in_a_step(base_path: str) -> None:
    dead = HoodieLocalWriteClient(write_config(base_path, auto_commit="false"))
    instant_time = dead.start_commit()
    dead.bulk_insert(rows_of_keys(["a"]), instant_time)
    meta_client = HoodieTableMetaClient.load(base_path)
    instant = meta_client.active_timeline.find(instant_time)
    assert instant is not None
    rollback = announce(RollbackActionExecutor(meta_client.snapshot, instant))
    assert rollback is not None
    with HoodieLocalWriteClient(write_config(base_path)) as client:
        client.start_commit()
        assert f"    finish a rollback ({rollback.instant_time})" in walk(client.metrics.steps)


def test_a_write_that_fails_tells_where_and_that_it_was_rolled_back(base_path: str) -> None:
    events: list[ProgressEvent] = []
    bad = pa.table({"id": ["a", None], "ts": pa.array([1, 2], pa.int64())})
    with HoodieLocalWriteClient(write_config(base_path), on_progress=events.append) as client:
        with pytest.raises(HoodieKeyException):
            client.upsert(bad)
        failed = [event.step for event in events if event.state is ProgressState.FAILED]
        assert failed == ["read the input and its keys"]
        assert step(client.metrics.steps, "read the input and its keys").failed
        # It had not begun: there is nothing to roll back.
        assert "roll back" not in {event.step for event in events}
        with pytest.raises(HoodieKeyException):
            client.bulk_insert(bad.to_reader())
        assert step(client.metrics.steps, "write files").failed
        assert events[-1].step == "roll back"
        assert events[-1].state is ProgressState.FINISHED


def test_a_callback_is_told_of_each_step_once_and_in_order(base_path: str) -> None:
    events: list[ProgressEvent] = []
    result = hoodie.write_table(rows_of_keys(["a", "b"]), base_path, operation="upsert", on_progress=events.append)
    told = [(e.title, e.state) for e in events if e.state is not ProgressState.ADVANCED]
    assert [title for title, state in told if state is ProgressState.STARTED] == [s.title for s in result.steps]
    assert Counter(state for _, state in told) == {
        ProgressState.STARTED: len(result.steps),
        ProgressState.FINISHED: len(result.steps),
    }
    assert {event.operation for event in events} == {"upsert"}
    written = next(e for e in events if e.step == "write buckets" and e.state is ProgressState.FINISHED)
    assert written.done == written.total > 0


def test_a_callback_that_fails_does_not_fail_the_write(base_path: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: ProgressEvent) -> None:
        raise RuntimeError("the callback is broken")

    with HoodieLocalWriteClient(write_config(base_path), on_progress=fail) as client:
        assert client.upsert(rows_of_keys(["a"])).is_committed
        assert client.upsert(rows_of_keys(["a"])).is_committed
    assert len([record for record in caplog.records if "progress callback" in record.message]) == 1


@pytest.mark.table_version(9)
def test_logs_are_silent_but_for_changes_of_the_table(base_path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events: list[ProgressEvent] = []
    with HoodieLocalWriteClient(
        write_config(base_path, write_progress_enable="true"), on_progress=events.append
    ) as client:
        first = client.bulk_insert(rows_of_keys(["a", "b"]))
        client.upsert(rows_of_keys(["b", "c"]))
        client.delete(rows_of_keys(["a"]))
        client.rollback(client.insert(rows_of_keys(["z"])).instant_time)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("hoodie")]
    assert f"committed BULK_INSERT {first.instant_time}" in messages[5]
    assert [message.split()[0] for message in messages] == [
        # The metadata table is built, and completed before the table in each commit.
        *["Completed", "built", "Changed"],
        *["Completed", "Completed", "committed"] * 4,
        *["Made", "Made", "Deleted", "Deleted", "Completed", "rolled"],
    ]


def test_every_step_is_documented() -> None:
    text = (REPOSITORY / "docs/progress-and-metrics.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "hoodie").rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"etrics\.step\(\s*\"([^\"]+)\"", source)}
    assert len(documented) == len(set(documented))
    assert set(documented) == named
    assert not [source for source in sources if re.search(r"etrics\.step\(\s*f\"", source)]
