from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodie
from hoodie.exception import HoodieConfigException, HoodieStreamerException
from hoodie.utilities.ingestion.http_endpoint import Address, MetricsEndpoint
from hoodie.utilities.streamer.command import run_command
from hoodie.utilities.streamer.multi_table import HoodieMultiTableStreamer, parse_multi_arguments
from tests.support.streamer_runs import KEYS, LIST_SOURCE, ListSource


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def files(folder: Path, tables: str, **names: str) -> list[str]:
    """Write the files of tables; each name is a table whose file names the list that it reads."""
    common = folder / "common.properties"
    lines = [f"{key}={value}" for key, value in KEYS.items()]
    common.write_text("\n".join([f"hoodie.deltastreamer.ingestion.tablesToBeIngested={tables}", *lines]) + "\n")
    (folder / "config").mkdir(exist_ok=True)
    for name, source in names.items():
        (folder / "config" / f"{name}_config.properties").write_text(f"hoodie.streamer.source.dfs.root={source}\n")
    return [
        "--props", str(common), "--config-folder", f"{folder}/config/", "--base-path-prefix", f"{folder}/lake/",
        "--source-class", LIST_SOURCE, "--table-type", "COPY_ON_WRITE",
    ]  # fmt: skip


def ids(path: Path) -> list[str]:
    return sorted(hoodie.read_table(str(path), columns=["id"])["id"].to_pylist())


def test_each_table_has_a_file_a_folder_and_a_database(tmp_path: Path) -> None:
    words = files(tmp_path, "rides.trips, fares", rides_trips="l", default_fares="m")
    ListSource.LISTS |= {"l": [("a", "x", 1)], "m": [("b", "x", 1), ("c", "x", 1)]}
    runs, parallelism = parse_multi_arguments(words)
    assert parallelism is None
    assert [(run.name, run.config.target_base_path, run.config.table_name) for run in runs] == [
        ("rides.trips", f"{tmp_path}/lake/rides/trips", "trips"),
        ("default.fares", f"{tmp_path}/lake/default/fares", "fares"),
    ]
    assert [run.config.source_ordering_fields for run in runs] == ["ts", "ts"]
    outcomes = HoodieMultiTableStreamer(runs).sync()
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert ids(tmp_path / "lake/rides/trips") == ["a"]
    assert ids(tmp_path / "lake/default/fares") == ["b", "c"]


def test_a_table_that_fails_does_not_stop_the_others_and_the_command_fails(tmp_path: Path) -> None:
    words = files(tmp_path, "d.bad,d.good", d_bad="l", d_good="m")
    ListSource.LISTS |= {"l": ["not a row"], "m": [("b", "x", 1)]}
    shown: list[str] = []
    with pytest.raises(HoodieStreamerException, match=r"1 of 2 tables failed: d\.bad"):
        run_command(["multi", *words, "--parallelism", "1"], shown.append, shown.append)
    assert ids(tmp_path / "lake/d/good") == ["b"]
    assert any(line.startswith("d.bad: failed: topic list, partition 0, offset 0") for line in shown)
    assert any(line.startswith("d.good: committed ") for line in shown)


def test_one_endpoint_serves_all_tables(tmp_path: Path) -> None:
    words = files(tmp_path, "d.good,d.bad,e.good", d_good="l", d_bad="m", e_good="n")
    ListSource.LISTS |= {"l": [("a", "x", 1)], "m": ["not a row"], "n": [("b", "x", 1), ("c", "x", 1)]}
    runs, _ = parse_multi_arguments(
        [
            *words, "--continuous", "--min-sync-interval-seconds", "1", "--metrics-address", ":0",
            "--hoodie-conf", "hoodie.streamer.health.max.failed.rounds=1",
        ]
    )  # fmt: skip
    tables = HoodieMultiTableStreamer(runs)
    thread = threading.Thread(target=tables.sync)
    with pytest.MonkeyPatch.context() as patch:
        started: list[Address] = []
        start = MetricsEndpoint.start
        patch.setattr(MetricsEndpoint, "start", lambda self: started.append(start(self)))
        thread.start()
        try:
            wanted = {f"{database}_good_good_deltastreamer_rowsWritten" for database in "de"}
            for _ in range(300):
                time.sleep(0.1)
                lines = [line.split(" ") for line in _get(started, "/metrics")[1].splitlines() if line[0] != "#"]
                found = {line[0]: line[1] for line in lines if line[0] in wanted}
                status, health = _get(started, "/health")
                if len(found) == 2 and status == 503:
                    break
            assert found == {
                "d_good_good_deltastreamer_rowsWritten": "1", "e_good_good_deltastreamer_rowsWritten": "2",
            }  # fmt: skip
            assert tables.metrics["bad.deltastreamer.failure"] == 1
            assert (status, "d.bad: ended by HoodieReadFromSourceException; see the log" in health) == (503, True)
        finally:
            tables.shutdown_gracefully()
            thread.join()
    assert len(started) == 1
    with pytest.raises(OSError, match="refused"):
        _get(started, "/health")


def _get(started: list[Address], path: str) -> tuple[int, str]:
    """Status and body of an answer; of a server that has not started yet, nothing."""
    if not started:
        return 0, ""
    try:
        with urllib.request.urlopen(f"http://{started[0]}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    words = files(tmp_path, "d.one", d_one="l")
    ListSource.LISTS["l"] = [("a", "x", 1)]
    shown: list[str] = []
    run_command(["multi", *words, "--dry-run"], shown.append, shown.append)
    assert "d.one:" in shown[-1]
    assert "nothing was written" in shown[-1]
    assert not (tmp_path / "lake").exists()
    run_command(["multi", "--help"], shown.append, shown.append)
    assert "--config-folder" in shown[-1]


def test_continuous_tables_run_side_by_side(tmp_path: Path) -> None:
    words = files(tmp_path, "d.one,d.two", d_one="l", d_two="m")
    ListSource.LISTS |= {name: [(f"{name}{n}", "x", n) for n in range(4)] for name in "lm"}
    runs, _ = parse_multi_arguments(
        [
            *words, "--continuous", "--source-limit", "1", "--parallelism", "1",
            "--post-write-termination-strategy-class", "NoNewDataTerminationStrategy",
        ]
    )  # fmt: skip
    HoodieMultiTableStreamer(runs, 1).sync()
    assert ids(tmp_path / "lake/d/one") == ["l0", "l1", "l2", "l3"]
    assert ids(tmp_path / "lake/d/two") == ["m0", "m1", "m2", "m3"]


def test_the_files_name_other_folders_files_and_addresses_of_schemas(tmp_path: Path) -> None:
    words = files(tmp_path, "d.t")
    own = tmp_path / "t.properties"
    own.write_text(
        f"hoodie.streamer.ingestion.targetBasePath={tmp_path}/elsewhere\nhoodie.streamer.source.kafka.topic=trips\n"
        "hoodie.streamer.transformer.class=a:FlatteningTransformer\n"
    )
    common = tmp_path / "common.properties"
    common.write_text(
        common.read_text() + f"hoodie.streamer.ingestion.d.t.configFile={own}\n"
        "hoodie.streamer.schemaprovider.registry.baseUrl=http://localhost:1/subjects/\n"
        "hoodie.streamer.schemaprovider.registry.urlSuffix=-value/versions/latest\n"
    )
    provider = "org.apache.hudi.utilities.schema.SchemaRegistryProvider"
    (run,), _ = parse_multi_arguments([*words, "--schemaprovider-class", provider])
    assert run.config.target_base_path == f"{tmp_path}/elsewhere"
    assert run.config.transformer_classes == ("a:FlatteningTransformer",)
    url = "http://localhost:1/subjects/trips-value/versions/latest"
    assert run.properties["hoodie.streamer.schemaprovider.registry.url"] == url
    assert run.properties["hoodie.streamer.schemaprovider.registry.targetUrl"] == url
    assert run.properties["hoodie.database.name"] == "d"


@pytest.mark.parametrize(
    ("tables", "more", "told"),
    [
        ("d.a,d.a", [], "names a table twice"),
        ("d.missing", [], r"the file of d\.missing .*d_missing_config\.properties: there is no such file"),
        ("d.a", ["--parallelism", "0"], "--parallelism 0: must be a whole number"),
        ("d.a", ["--parallelism"], "--parallelism lacks its value"),
    ],
)
def test_wrong_files_and_flags_are_told(tmp_path: Path, tables: str, more: list[str], told: str) -> None:
    with pytest.raises(HoodieConfigException, match=told):
        parse_multi_arguments([*files(tmp_path, tables, d_a="l"), *more])


def test_missing_flags_are_told_together() -> None:
    with pytest.raises(HoodieConfigException, match="needs --base-path-prefix and --config-folder and --props"):
        parse_multi_arguments([])
    with pytest.raises(HoodieConfigException, match="no table"):
        HoodieMultiTableStreamer([])
