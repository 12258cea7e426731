"""Copy-on-write tables of versions 8 and 9: real Hudi 1.2.0 writes them, and both read the same."""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieReadClient, HoodieTableMetaClient
from tests.interop.hudi_process import HudiProcess
from tests.interop.make_later_tables import CLUSTERING, OPTIONS, expected_of, instants, make_table, plain_rows, rows
from tests.interop.test_queries import as_of, assert_agree, since
from tests.support.table_builder import local_client

pytestmark = pytest.mark.interop


@pytest.fixture(params=[8, 9])
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def options(version: int) -> dict[str, str]:
    """What a write of this version needs; nothing is cleaned or archived."""
    given = {**OPTIONS, "hoodie.write.table.version": str(version)}
    return given | {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def write(hudi: HudiProcess, base_path: Path, options: dict[str, str], table: pa.Table, operation: str) -> None:
    mode = "append" if base_path.exists() else "overwrite"
    hudi.write(base_path, table, options, operation=operation, mode=mode, standing_options=False)


OPERATIONS: list[tuple[str, pa.Table, dict[str, str]]] = [
    ("insert", rows(range(20), 1), {}),
    ("upsert", rows(range(5, 25), 2), {}),
    ("delete", rows(range(3), 3), {}),
    ("insert_overwrite", rows(range(1, 9, 2), 4), {}),
    (
        "upsert",
        rows(range(30, 34), 5),
        {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
    ),
    ("upsert", rows(range(8, 34, 5), 6), {}),
    ("delete_partition", rows(range(0, 1), 7), {"hoodie.datasource.write.partitions.to.delete": "east"}),
    ("insert", rows(range(50, 54), 8), {}),
]


@pytest.mark.interop_smoke(9)
@pytest.mark.parametrize("metadata_table", [False, True], ids=["listing", "metadata_table"])
def test_the_same_queries_give_the_same_rows(
    tmp_path: Path, hudi_1_2: HudiProcess, version: int, options: dict[str, str], metadata_table: bool
) -> None:
    base_path = tmp_path / "t"
    if metadata_table:
        options = options | {"hoodie.metadata.enable": "true"}
    for operation, table, more in OPERATIONS:
        write(hudi_1_2, base_path, options | more, table, operation)
    config = HoodieTableMetaClient.load(str(base_path)).table_config
    assert config.table_version == version and bool(config.metadata_partitions) == metadata_table
    commits = instants(base_path)
    assert len(commits) == len(OPERATIONS) + 1
    ends = [end for _, end in commits]
    queries = [{}, *(as_of(requested) for requested, _ in commits), *(since(end) for end in ends)]
    queries += [since(begin, end) for begin, end in zip(ends, ends[2:], strict=False)]
    queries += [since("000", ends[3]), since("000")]
    # A requested time counts as a completion.
    queries += [since(requested, ends[-1]) for requested, _ in commits[2:5]]
    assert_agree(hudi_1_2, base_path, queries)


def test_the_kept_tables_are_read_by_real_hudi_as_they_say(tmp_path: Path, hudi_1_2: HudiProcess, version: int) -> None:
    name = f"hudi_trips_v{version}"
    with zipfile.ZipFile(Path(__file__).parents[1] / "data" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text())
    assert expected_of(hudi_1_2, tmp_path / name) == expected


def test_archived_and_cleaned_tables_are_read_alike(tmp_path: Path, hudi_1_2: HudiProcess, version: int) -> None:
    base_path = tmp_path / "t"
    make_table(hudi_1_2, base_path, version)
    for number, expected in enumerate(expected_of(hudi_1_2, base_path)):
        assert plain_rows(hoodie.read_table(str(base_path), options=expected["query"])) == expected["rows"], number
    client = HoodieTableMetaClient.load(str(base_path))
    found = hudi_1_2.instants(base_path)
    assert {(i.requested_time, str(i.action)) for i in client.archived_timeline} == {*map(tuple, found["archived"])}
    assert {(i.requested_time, str(i.action)) for i in client.active_timeline} == {*map(tuple, found["active"])}


def test_savepoints_restores_and_rollbacks(
    tmp_path: Path, hudi_1_2: HudiProcess, version: int, options: dict[str, str]
) -> None:
    base_path = tmp_path / "t"
    for number in range(3):
        write(hudi_1_2, base_path, options, rows(range(number, number + 6), number), "upsert")
    (first, _), (second, _), (third, _) = instants(base_path)
    hudi_1_2.sql(f"CALL create_savepoint(path => '{base_path}', commit_time => '{second}')")
    assert_agree(hudi_1_2, base_path, [{}, as_of(first), as_of(third)])
    hudi_1_2.sql(f"CALL rollback_to_savepoint(path => '{base_path}', instant_time => '{second}')")
    assert [requested for requested, _ in instants(base_path)] == [first, second]
    write(hudi_1_2, base_path, options, rows(range(10, 12), 5), "upsert")
    ends = [end for _, end in instants(base_path)]
    assert_agree(hudi_1_2, base_path, [{}, as_of(first), as_of(second), *(since(end) for end in ends)])
    with pytest.raises(hoodie.HoodieException, match="undone"):
        hoodie.read_table(str(base_path), as_of=third)


def test_readers_of_all_kinds(tmp_path: Path, hudi_1_2: HudiProcess, version: int, options: dict[str, str]) -> None:
    base_path = tmp_path / "t"
    for operation, table, more in OPERATIONS[:4]:
        write(hudi_1_2, base_path, options | more, table, operation)
    expected = plain_rows(hudi_1_2.read(base_path))
    found = hoodie.read_table(str(base_path))
    assert plain_rows(found) == expected
    assert hoodie.dataset(str(base_path)).count_rows() == len(expected)
    with HoodieReadClient(str(base_path)) as client:
        assert plain_rows(client.read([HoodieKey("k07", "west")])) == [row for row in expected if row[2] == "k07"]


def test_each_read_beside_a_writer_sees_whole_commits(tmp_path: Path, hudi_1_2: HudiProcess, version: int) -> None:
    """Each commit updates all rows; cleans, clusterings and the archive run after each."""
    base_path = tmp_path / "t"
    options = {**OPTIONS, **CLUSTERING, "hoodie.write.table.version": str(version)}
    # With fewer retained commits, a clean takes files of the commit that a read has begun with.
    options["hoodie.clustering.inline.max.commits"] = "2"
    write(hudi_1_2, base_path, options, rows(range(20), 0), "insert")
    count = 12
    problems: list[BaseException] = []

    def write_all() -> None:
        try:
            for number in range(1, count):
                write(hudi_1_2, base_path, options, rows(range(20), number), "upsert")
        except BaseException as error:
            problems.append(error)

    writer = threading.Thread(target=write_all)
    writer.start()
    seen, changes, reached = [0], {0}, ""
    while writer.is_alive():
        found = hoodie.read_table(str(base_path))
        times = set(found["ts"].to_pylist())
        assert found.num_rows == 20 and len(times) == 1, times
        seen += times
        history = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()
        newest = max(instant.completion_time or "" for instant in history)
        if newest > reached:
            later = hoodie.read_table(str(base_path), query_type="incremental", begin=reached or "1", end=newest)
            assert later.num_rows in (0, 20) and len(set(later["ts"].to_pylist())) <= 1
            changes |= set(later["ts"].to_pylist())
            reached = newest
    writer.join()
    assert not problems and seen == sorted(seen)
    assert hoodie.read_table(str(base_path))["ts"].to_pylist() == [count - 1] * 20
    assert len(set(seen)) > 2 and len(changes) > 2
    assert len(HoodieTableMetaClient.load(str(base_path)).archived_timeline) > 0


def test_a_metadata_table_is_switched_off_when_the_writer_says_so_and_built_again(
    tmp_path: Path, hudi_1_2: HudiProcess, version: int, options: dict[str, str]
) -> None:
    """hoodie and Hudi in turn; Hudi builds its metadata table at each of its writes, and reads by it."""
    base_path, with_metadata = tmp_path / "t", options | {"hoodie.metadata.enable": "true"}
    write(hudi_1_2, base_path, with_metadata, rows(range(20), 1), "insert")
    for turn in range(3):
        config = HoodieTableMetaClient.load(str(base_path)).table_config
        assert set(config.metadata_partitions) == {"files", "column_stats", "partition_stats"}
        shutil.copytree(base_path / ".hoodie/metadata", tmp_path / "stale", dirs_exist_ok=True)
        with local_client(base_path, metadata_enable="false") as client:
            client.upsert(rows(range(turn, 30 + turn, 3), 2 + 2 * turn))
        config = HoodieTableMetaClient.load(str(base_path)).table_config
        assert config.metadata_partitions == () and not (base_path / ".hoodie/metadata").exists()
        assert_agree(hudi_1_2, base_path, [{}, {"hoodie.metadata.enable": "true"}])
        if turn == 1:
            # As if a process had died before it deleted the folder; Hudi's next write builds it anew.
            shutil.copytree(tmp_path / "stale", base_path / ".hoodie/metadata")
        write(hudi_1_2, base_path, with_metadata, rows(range(turn * 2, 40, 7), 3 + 2 * turn), "upsert")
        assert_agree(hudi_1_2, base_path, [{}, {"hoodie.metadata.enable": "true"}])


def test_each_archives_where_the_other_one_stopped(tmp_path: Path, hudi_1_2: HudiProcess, version: int) -> None:
    """Commits in turn, each followed by a clean and archiving; files of the archive are compacted by both."""
    base_path = tmp_path / "t"
    options = {**OPTIONS, "hoodie.write.table.version": str(version)}
    write(hudi_1_2, base_path, options, rows(range(6), 0), "insert")
    ours = {key: value for key, value in OPTIONS.items() if not key.startswith("hoodie.datasource")}
    config = {**ours, "hoodie.archive.automatic": "true", "hoodie.clean.automatic": "true"}
    for number in range(1, 13):
        table = rows(range(number, number + 6), number)
        if number % 6 < 3:
            with local_client(base_path, config) as client:
                assert client.upsert(table).service_errors == ()
        else:
            write(hudi_1_2, base_path, options, table, "upsert")
        meta_client = HoodieTableMetaClient.load(str(base_path))
        found = hudi_1_2.instants(base_path)
        archived = {(i.requested_time, str(i.action)) for i in meta_client.archived_timeline}
        assert archived == {*map(tuple, found["archived"])}, number
        assert {(i.requested_time, str(i.action)) for i in meta_client.active_timeline} == {
            *map(tuple, found["active"])
        }
        names = [path.name for path in (base_path / ".hoodie/timeline/history").glob("*.parquet")]
    assert len(archived) > 10 and any(name.endswith("_1.parquet") for name in names)
    assert plain_rows(hoodie.read_table(str(base_path))) == plain_rows(hudi_1_2.read(base_path))
