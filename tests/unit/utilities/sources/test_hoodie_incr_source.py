from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieReadFromSourceException,
    TableNotFoundException,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint, CheckpointVersion
from hoodie.utilities.sources.source import InputBatch, Source, SourceContext, read_all
from hoodie.utilities.sources.sources import make_source
from tests.support.later_version import archive, to_version
from tests.support.table_builder import init_table, local_client, rows

NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OCC = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}
STRATEGY = "missing.checkpoint.strategy"


def at(number: int) -> str:
    """A time; the larger the number, the later."""
    return f"2027010200{number:07d}"


def v2(number: int) -> Checkpoint:
    return Checkpoint(at(number), CheckpointVersion.V2)


def source_of(path: Path, target: int = 9, reports: list[str] | None = None, **options: Any) -> Source:
    given = {
        f"hoodie.streamer.source.hoodieincr.{key}": value for key, value in options.items() if "hoodie." not in key
    }
    given |= {key: value for key, value in options.items() if "hoodie." in key}
    given["hoodie.deltastreamer.source.hoodieincr.path"] = str(path)
    report = (reports if reports is not None else []).append
    return make_source(
        "org.apache.hudi.utilities.sources.HoodieIncrSource",
        SourceContext(StreamerProperties.of(given), table_version=target, report=report),
    )


def ids(batch: InputBatch) -> list[str]:
    if batch.is_empty:
        return []
    found: list[str] = sorted(read_all(batch)[0]["id"].to_pylist())
    return found


def table_of(path: Path, count: int = 4, version: int = 6, ends: Mapping[int, int] | None = None) -> list[str]:
    """A table whose commits each write one row: k0, k1 and so on; the instants."""
    init_table(path, table_version=6)
    times = []
    with local_client(path, NO_SERVICES, parquet_small_file_limit="0") as client:
        for number in range(count):
            times.append(client.start_commit())
            client.insert(rows((f"k{number}", f"p{number % 2}", number)), times[-1])
    if version > 6:
        to_version(path, version, {times[n]: at(end) for n, end in (ends or {n: n for n in range(count)}).items()})
    return times


def rounds_of(source: Source, checkpoint: Checkpoint | None) -> list[tuple[list[str], Checkpoint | None]]:
    """Rounds until nothing is new."""
    found = []
    while True:
        batch = source.fetch(checkpoint, None)
        if batch.checkpoint == checkpoint:
            assert batch.is_empty
            return found
        checkpoint = batch.checkpoint
        found.append((ids(batch), checkpoint))


@pytest.mark.table_version(6)
@pytest.mark.parametrize("target", [6, 9])
def test_positions_of_a_table_of_version_6_are_request_times(tmp_path: Path, target: int) -> None:
    times = table_of(tmp_path / "t")

    source = source_of(tmp_path / "t", target, num_instants=2)

    assert rounds_of(source, Checkpoint(times[0])) == [
        (["k1", "k2"], Checkpoint(times[2])),
        (["k3"], Checkpoint(times[3])),
    ]


@pytest.mark.table_version(6)
@pytest.mark.parametrize("version", [8, 9])
def test_positions_of_later_tables_are_completion_times(tmp_path: Path, version: int) -> None:
    table_of(tmp_path / "t", version=version, ends={0: 10, 1: 40, 2: 20, 3: 30})

    found = rounds_of(source_of(tmp_path / "t", num_instants=2), v2(10))

    assert found == [(["k2", "k3"], v2(30)), (["k1"], v2(40))]


@pytest.mark.table_version(6)
def test_positions_for_a_target_of_version_6_are_request_times(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=8, ends={0: 10, 1: 40, 2: 20, 3: 30})

    found = rounds_of(source_of(tmp_path / "t", target=6, num_instants=1), Checkpoint(times[0]))

    assert found == [([f"k{n}"], Checkpoint(times[n])) for n in (1, 2, 3)]


@pytest.mark.table_version(6)
def test_commits_that_were_completed_between_those_of_a_round_wait_for_theirs(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=8, ends={0: 10, 1: 40, 2: 20, 3: 30})

    found = rounds_of(source_of(tmp_path / "t", target=6, num_instants=2), Checkpoint(times[0]))

    assert found == [(["k1", "k2"], Checkpoint(times[2])), (["k3"], Checkpoint(times[3]))]


@pytest.mark.table_version(6)
def test_a_position_of_version_1_goes_on_in_a_target_that_was_upgraded(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=9, ends={0: 40, 1: 10, 2: 20, 3: 30})

    found = rounds_of(source_of(tmp_path / "t", num_instants=1), Checkpoint(times[1]))

    assert found == [(["k2"], v2(20)), (["k3"], v2(30)), (["k0"], v2(40))]


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("resumeFromInstantRequestTime:{1}", ["k2", "k3"]),
        (f"resumeFromInstantCompletionTime:{at(20)}", ["k0", "k3"]),
        ("resumeFromInstantRequestTime:00000000000000", ["k0", "k1", "k2", "k3"]),
    ],
)
def test_a_given_position_says_its_kind(tmp_path: Path, given: str, expected: list[str]) -> None:
    times = table_of(tmp_path / "t", version=9, ends={0: 40, 1: 10, 2: 20, 3: 30})

    batch = source_of(tmp_path / "t").fetch(Checkpoint(given.format(*times), is_given=True), None)

    assert ids(batch) == expected
    assert batch.checkpoint == (v2(30) if "{1}" in given else v2(40))


@pytest.mark.table_version(6)
def test_a_given_position_without_its_kind_is_refused_where_both_are_possible(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=9)

    with pytest.raises(
        HoodieConfigException, match=f"resumeFromInstantRequestTime:{times[0]} .*CompletionTime:{times[0]}"
    ):
        source_of(tmp_path / "t").fetch(Checkpoint(times[0], is_given=True), None)


@pytest.mark.table_version(6)
def test_a_given_request_time_without_its_kind_is_read_where_there_is_one_kind(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t")

    assert ids(source_of(tmp_path / "t").fetch(Checkpoint(times[2], is_given=True), None)) == ["k3"]


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (Checkpoint("topic,0:12"), "'topic,0:12' is no instant of .*--ignore-checkpoint"),
        (Checkpoint("1764000000000"), "is no instant"),
        (v2(1), "is a completion time, and .* has a version below 8"),
        (Checkpoint(f"resumeFromInstantCompletionTime:{at(1)}", is_given=True), "is a completion time"),
        (None, "there is no position to read .*READ_UPTO_LATEST_COMMIT"),
        (Checkpoint(""), "there is no position to read"),
    ],
)
def test_positions_of_other_kinds_are_refused(tmp_path: Path, checkpoint: Checkpoint, message: str) -> None:
    table_of(tmp_path / "t", 1)

    with pytest.raises(HoodieConfigException, match=message):
        source_of(tmp_path / "t").fetch(checkpoint, None)


@pytest.mark.table_version(6)
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({STRATEGY: "READ_LATEST"}, ["k3"]),
        ({"read_latest_on_missing_ckpt": "true"}, ["k3"]),
        ({STRATEGY: "READ_UPTO_LATEST_COMMIT", "num_instants": "1"}, ["k0", "k1", "k2", "k3"]),
    ],
)
def test_a_strategy_says_where_a_new_table_begins(
    tmp_path: Path, version: int, options: dict[str, str], expected: list[str]
) -> None:
    times = table_of(tmp_path / "t", version=version)

    batch = source_of(tmp_path / "t", **options).fetch(None, None)

    assert ids(batch) == expected
    assert batch.checkpoint == (v2(3) if version == 9 else Checkpoint(times[3]))


@pytest.mark.parametrize("strategy", ["READ_LATEST", "READ_UPTO_LATEST_COMMIT"])
def test_a_table_without_commits_gives_nothing(tmp_path: Path, strategy: str) -> None:
    init_table(tmp_path / "t")

    batch = source_of(tmp_path / "t", **{STRATEGY: strategy}).fetch(None, None)

    assert batch.is_empty
    assert batch.checkpoint == Checkpoint("00000000000000", CheckpointVersion.V2)
    with local_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("b", "x", 1)))
    assert ids(source_of(tmp_path / "t").fetch(batch.checkpoint, None)) == ["a", "b"]


def test_a_missing_table_and_a_missing_path_are_named(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match="no Hudi table at .*/none"):
        source_of(tmp_path / "none").fetch(None, None)
    with pytest.raises(HoodieConfigException, match="needs hoodie.streamer.source.hoodieincr.path"):
        make_source("HoodieIncrSource", SourceContext(StreamerProperties())).fetch(None, None)


def test_updated_rows_come_once_with_their_latest_value_and_the_partition_path(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with local_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        client.upsert(rows(("a", "x", 2)))
        client.upsert(rows(("a", "x", 3), ("c", "y", 3)))

    batch = source_of(tmp_path / "t", **{STRATEGY: "READ_UPTO_LATEST_COMMIT"}).fetch(None, None)
    bare = source_of(
        tmp_path / "t", **{STRATEGY: "READ_UPTO_LATEST_COMMIT", "drop.all.meta.fields.from.source": "true"}
    ).fetch(None, None)

    assert sorted(map(str, read_all(batch)[0].to_pylist())) == sorted(
        map(
            str,
            [
                {"_hoodie_partition_path": "x", "id": "a", "region": "x", "ts": 3},
                {"_hoodie_partition_path": "y", "id": "b", "region": "y", "ts": 1},
                {"_hoodie_partition_path": "y", "id": "c", "region": "y", "ts": 3},
            ],
        )
    )
    assert bare.schema is not None and bare.schema.names == ["id", "region", "ts"]
    assert read_all(bare)[0].num_rows == 3


def test_rows_of_log_files_are_read_by_tasks(tmp_path: Path) -> None:
    init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        first = source_of(tmp_path / "t", **{STRATEGY: "READ_LATEST"}).fetch(None, None)
        client.upsert(rows(("a", "x", 2)))

    batch = source_of(tmp_path / "t").fetch(first.checkpoint, None)
    read = pickle.loads(pickle.dumps(batch.reads[0]))

    assert [one.rows.to_pylist() for one in read.batches()] == [
        [{"_hoodie_partition_path": "x", "id": "a", "region": "x", "ts": 2}]
    ]


@pytest.mark.table_version(6)
def test_request_times_never_pass_a_pending_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    init_table(path)
    slow = local_client(path, OCC | {"hoodie.auto.commit": "false"})
    with local_client(path, OCC) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        pending = slow.start_commit()
        result = slow.upsert(rows(("b", "y", 2)), pending)
        third = client.upsert(rows(("c", "z", 3))).instant_time

    source = source_of(path, **{STRATEGY: "READ_UPTO_LATEST_COMMIT"})

    assert rounds_of(source, None) == [(["a"], Checkpoint(first))]
    with pytest.raises(HoodieException, match=f"{pending} is pending"):
        source_of(path, **{"hoodie.read.timeline.holes.resolution.policy": "FAIL"}).fetch(Checkpoint(first), None)
    slow.commit(pending, result)
    slow.close()
    assert rounds_of(source, Checkpoint(first)) == [(["b", "c"], Checkpoint(third))]


@pytest.mark.table_version(6)
def test_archived_commits_of_later_tables_are_read_as_others_are(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=9)
    archive(tmp_path / "t", times[:2])

    assert rounds_of(source_of(tmp_path / "t", num_instants=1), v2(0)) == [([f"k{n}"], v2(n)) for n in (1, 2, 3)]


@pytest.mark.table_version(6)
def test_with_the_strategy_archived_commits_are_read_as_the_table_is_now(tmp_path: Path) -> None:
    times = table_of(tmp_path / "t", version=9)
    archive(tmp_path / "t", times[:2])

    source = source_of(tmp_path / "t", **{STRATEGY: "READ_UPTO_LATEST_COMMIT", "num_instants": "1"})

    assert rounds_of(source, v2(0)) == [(["k1", "k2", "k3"], v2(3))]
    assert rounds_of(source, v2(2)) == [(["k3"], v2(3))]


@pytest.mark.table_version(6)
@pytest.mark.parametrize("version", [6, 9])
def test_cleaned_commits_are_refused_or_read_as_the_table_is_now(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    init_table(path, table_version=version)
    with local_client(path, NO_SERVICES | {"hoodie.cleaner.commits.retained": 1}) as client:
        for number in range(6):
            client.upsert(rows(("a", "x", number)))
            if number == 0:
                first = source_of(path, **{STRATEGY: "READ_LATEST"}).fetch(None, None).checkpoint
        client.clean()
    last = source_of(path, **{STRATEGY: "READ_LATEST"}).fetch(None, None).checkpoint

    with pytest.raises(
        HoodieReadFromSourceException, match=f"cannot read the rows of {path} .*READ_UPTO_LATEST_COMMIT"
    ):
        source_of(path, num_instants=1).fetch(first, None)
    reports: list[str] = []
    source = source_of(path, reports=reports, **{STRATEGY: "READ_UPTO_LATEST_COMMIT", "num_instants": "1"})
    batch = source.fetch(first, None)

    assert batch.checkpoint == last
    assert [row["ts"] for row in read_all(batch)[0].to_pylist()] == [5]
    assert len(reports) == 1
    assert "as they are now" in reports[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.datasource.read.handle.hollow.commit": "USE_TRANSITION_TIME"}, "use BLOCK"),
        ({"data.datasource.options": "hoodie.metadata.enable"}, "is not key=value"),
        ({STRATEGY: "READ_ALL"}, "must be READ_LATEST or READ_UPTO_LATEST_COMMIT"),
        ({"num_instants": "0"}, "at least 1"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    init_table(tmp_path / "t")

    with pytest.raises(HoodieConfigException, match=message):
        source_of(tmp_path / "t", **options).fetch(None, None)


def test_the_round_tells_how_many_commits_are_left(tmp_path: Path) -> None:
    table_of(tmp_path / "t", version=9)

    batch = source_of(tmp_path / "t", num_instants=1).fetch(v2(0), None)

    assert (batch.backlog, batch.details) == (2, {"numCommitsInProgress": 1, "numUnprocessedCommits": 2})
    assert batch.size_bytes is not None and batch.size_bytes > 0
