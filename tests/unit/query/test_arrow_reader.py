"""Arguments of `read_table` and `scan_table`, and tables that nothing was written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieConfigException,
    HoodieIOException,
    HoodieSchemaException,
)
from tests.support.hookable_storage import Hook, hooked
from tests.support.table_builder import local_client


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    hoodie.write_table(pa.table({"k": ["a", "b"], "v": [1, 2]}), path, record_key_fields="k")
    return path


def test_a_new_table_after_a_delete_of_nothing_has_no_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields="k")
    with local_client(path) as client:
        client.delete([HoodieKey("a", "")])
    commits = HoodieTableMetaClient.load(path).active_timeline.filter_completed_instants().commits_timeline()
    assert len(commits) == 0
    assert hoodie.read_table(path).num_rows == 0
    assert hoodie.read_table(path, columns=["k"]).column_names == ["k"]


@pytest.mark.parametrize("query_type", ["snapshot", "read_optimized"])
def test_both_query_types_give_the_rows_of_a_copy_on_write_table(base_path: str, query_type: str) -> None:
    table = hoodie.read_table(base_path, columns=["k", "v"], query_type=query_type)
    assert sorted(table["v"].to_pylist()) == [1, 2]
    with hoodie.scan_table(base_path, query_type=query_type) as reader:
        assert reader.read_all().num_rows == 2


def test_an_unknown_query_type_is_refused_with_those_there_are(base_path: str) -> None:
    with pytest.raises(HoodieConfigException, match="'snap'.*snapshot, incremental, read_optimized"):
        hoodie.read_table(base_path, query_type="snap")


def test_an_empty_list_of_filters_is_no_filter(base_path: str) -> None:
    assert hoodie.read_table(base_path, filters=[]).num_rows == 2


def test_a_number_that_no_column_holds_equals_no_row(base_path: str) -> None:
    assert hoodie.read_table(base_path, filters=[("v", "=", 10**30)]).num_rows == 0


def test_one_column_may_be_named_by_a_string(base_path: str) -> None:
    assert hoodie.read_table(base_path, columns="_hoodie_record_key").column_names == ["_hoodie_record_key"]


def test_a_column_that_is_named_twice_is_refused(base_path: str) -> None:
    for read in (hoodie.read_table, hoodie.dataset):
        with pytest.raises(HoodieConfigException, match="names v more than once"):
            read(base_path, columns=["v", "k", "v"])
    with pytest.raises(HoodieConfigException, match="names v more than once"):
        hoodie.dataset(base_path).to_table(columns=["v", "v"])


@pytest.mark.parametrize("filters", [[("fare", ">", 1)], pc.field("fare") > 1, pc.field("fare", "x") > 1])
def test_an_unknown_column_in_a_filter_is_named_with_the_columns_there_are(base_path: str, filters: Any) -> None:
    with pytest.raises(HoodieSchemaException, match=r"has no column \S*fare\S*.*; it has .*, k, v$") as caught:
        hoodie.read_table(base_path, filters=filters)
    assert "\n" not in str(caught.value)


# --- files that are deleted while a read is planned -----------------------------------------------------------------


def retaining(path: str, commits: int) -> HoodieLocalWriteClient:
    properties = {
        "hoodie.cleaner.commits.retained": commits,
        "hoodie.archive.automatic": "false",
    }
    return local_client(path, properties)


def meanwhile(
    path: str, work: Callable[[HoodieLocalWriteClient], object], times: int = 1, retained_commits: int = 1
) -> Hook:
    """Work that is done just before a partition is listed, the first times that one is."""
    left = [times]

    def hook(name: str, listed: str) -> None:
        if name in ("list", "walk") and left[0] and Path(listed).name == "x":
            left[0] -= 1
            with retaining(path, retained_commits) as client:
                work(client)

    return hook


def overwrite_twice(client: HoodieLocalWriteClient) -> None:
    for _ in range(2):
        client.upsert(pa.table({"k": ["a"], "p": ["x"], "v": [3]}))


def replace_and_clean(client: HoodieLocalWriteClient) -> None:
    client.delete_partitions(["x"])
    for _ in range(2):
        client.upsert(pa.table({"k": ["b"], "p": ["y"], "v": [2]}))


@pytest.mark.parametrize(
    ("work", "rows"), [(overwrite_twice, {"a": 3, "b": 2}), (replace_and_clean, {"b": 2})], ids=["slices", "partitions"]
)
@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_rows_whose_files_are_cleaned_before_they_are_listed_are_not_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[HoodieLocalWriteClient], object],
    rows: dict[str, int],
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(
        pa.table({"k": ["a", "b"], "p": ["x", "y"], "v": [1, 2]}), path, record_key_fields="k", partition_fields="p"
    )
    with hooked(monkeypatch, meanwhile(path, work)):
        found = hoodie.read_table(path, columns=["k", "v"])
    assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == rows


@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_a_table_that_is_cleaned_each_time_it_is_listed_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": ["a"], "p": ["x"], "v": [1]}), path, record_key_fields="k", partition_fields="p")
    with (
        hooked(monkeypatch, meanwhile(path, overwrite_twice, times=100)),
        pytest.raises(HoodieIOException, match="cleaned or rolled back each of the 10 times"),
    ):
        hoodie.read_table(path)


@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_a_table_that_takes_as_long_to_list_as_two_cleaned_commits_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": ["a"], "p": ["x"], "v": [1]}), path, record_key_fields="k", partition_fields="p")
    listings: list[int] = []

    def cleans() -> int:
        return len(HoodieTableMetaClient.load(path).active_timeline.filter_actions(Action.CLEAN))

    def overwrite(client: HoodieLocalWriteClient) -> None:
        listings.append(cleans())
        overwrite_twice(client)

    with retaining(path, 2) as client:
        for value in (5, 6, 7):
            client.upsert(pa.table({"k": ["a"], "p": ["x"], "v": [value]}))
    with hooked(monkeypatch, meanwhile(path, overwrite, times=100, retained_commits=2)):
        assert hoodie.read_table(path, columns="v")["v"].to_pylist() == [7]
    assert len(listings) == 1
    assert cleans() > listings[0]


@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_a_table_whose_commits_are_archived_while_it_is_listed_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": ["a"], "p": ["x"], "v": [1]}), path, record_key_fields="k", partition_fields="p")
    archived: list[int] = []

    def write_and_archive(_: HoodieLocalWriteClient) -> None:
        properties = {
            "hoodie.clean.automatic": "false",
            "hoodie.cleaner.commits.retained": 1,
            "hoodie.keep.min.commits": 2,
            "hoodie.keep.max.commits": 3,
        }
        with local_client(path, properties) as client:
            for value in (2, 3, 4, 5):
                client.upsert(pa.table({"k": ["a"], "p": ["x"], "v": [value]}))
        archived.append(len(HoodieTableMetaClient.load(path).archived_timeline))

    with hooked(monkeypatch, meanwhile(path, write_and_archive, times=100)):
        assert hoodie.read_table(path, columns="v")["v"].to_pylist() == [1]
    assert len(archived) == 1
    assert archived[0] > 0


@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_a_version_that_a_late_commit_hid_from_a_clean_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"k": ["a"], "p": ["x"], "v": [1]}), path, record_key_fields="k", partition_fields="p")
    several = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.cleaner.commits.retained": 2,
        "hoodie.auto.commit": "false",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    with local_client(path, several) as late:
        instant_time = late.start_commit()
        result = late.upsert(pa.table({"k": ["a"], "p": ["x"], "v": [2]}), instant_time)
        with local_client(path, {**several, "hoodie.auto.commit": "true"}) as other:
            for _ in range(3):
                other.upsert(pa.table({"k": ["b"], "p": ["y"], "v": [3]}))

            def commit_and_clean(_: HoodieLocalWriteClient) -> None:
                late.commit(instant_time, result)
                other.clean()

            with hooked(monkeypatch, meanwhile(path, commit_and_clean)):
                found = hoodie.read_table(path, columns=["k", "v"])
    assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == {"a": 2, "b": 3}
