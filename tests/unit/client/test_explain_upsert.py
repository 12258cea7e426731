"""What `explain_upsert` says, and that saying it leaves no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, UpsertPlan
from hoodie.exception import HoodieKeyException, HoodieSchemaException
from hoodie.storage.local_storage import LocalStorage

MakeClient = Callable[..., HoodieLocalWriteClient]
CHANGES = (
    "create_if_absent", "replace", "create_directory", "delete_file", "delete_directory", "delete_leftovers",
    "open_output_stream",
)  # fmt: skip


def rows(first: int, last: int, partitions: int = 2, ts: int = 1, deleted: bool = False) -> pa.Table:
    numbers = range(first, last)
    columns = {
        "k": pa.array([f"k{number:04}" for number in numbers], pa.string()),
        "p": pa.array([f"p{number % partitions}" for number in numbers], pa.string()),
        "ts": pa.array([ts] * len(numbers), pa.int64()),
        "_hoodie_is_deleted": pa.array([deleted] * len(numbers), pa.bool_()),
    }
    return pa.table(columns)


def content(path: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields="k", partition_fields="p", ordering_fields="ts"
    )
    return path


def figures(plan: UpsertPlan) -> set[tuple[Any, ...]]:
    return {(g.partition_path, g.is_new, g.reason, g.updates, g.deletes, g.inserts) for g in plan.file_groups}


def test_a_first_upsert_starts_a_file_group_for_each_partition(client: MakeClient) -> None:
    plan = client().explain_upsert(rows(0, 7))
    assert figures(plan) == {("p0", True, "new", 0, 0, 4), ("p1", True, "new", 0, 0, 3)}
    assert (plan.bytes_to_rewrite, plan.inserts, plan.records) == (0, 7, 7)
    assert plan.summary == "upsert of 7 records would start 2 file groups"


def test_reasons_tell_updates_from_small_files_that_are_filled(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(0, 4, partitions=3))
    changes = pa.concat_tables([rows(0, 1, partitions=3), rows(4, 5, partitions=3)])
    plan = client().explain_upsert(changes)
    assert figures(plan) == {("p0", False, "key check", 1, 0, 0), ("p1", False, "small file", 0, 0, 1)}
    sizes = sum(file.stat().st_size for p in ("p0", "p1") for file in (base_path / p).glob("*.parquet"))
    assert plan.bytes_to_rewrite == sizes
    assert plan.untouched == ()
    assert {group.file_id for group in plan.rewritten} <= {p.name.split("_")[0] for p in base_path.rglob("*.parquet")}


def test_columns_of_other_types_are_told_with_what_becomes_of_them(client: MakeClient) -> None:
    client().upsert(rows(0, 4).append_column("n", pa.array([1] * 4, pa.int64())))
    given = rows(0, 4).append_column("n", pa.array([2.0] * 4, pa.float64())).append_column("new", pa.array(["x"] * 4))
    plan = client().explain_upsert(given)
    assert [(c.column, c.stored, c.becomes, c.is_rounded) for c in plan.column_changes] == [
        ("n", pa.int64(), pa.int64(), False),
        ("new", None, pa.string(), False),
    ]
    assert "\ncolumn n stays int64, the input has double: a value that would lose something fails\n" in repr(plan)
    assert "\ncolumn new is new, string\n" in repr(plan)
    lossy = client(write_schema_widen_lossy="true").explain_upsert(given)
    assert "\ncolumn n becomes double, from int64: integers of the table and of the input beyond 2^53 " in repr(lossy)
    assert client().explain_upsert(rows(0, 4).append_column("n", pa.array([1] * 4, pa.int64()))).column_changes == ()


def test_file_groups_without_the_keys_stay_and_are_told(client: MakeClient) -> None:
    with client(parquet_small_file_limit=0) as writer:
        writer.upsert(rows(0, 3, partitions=1))
        writer.upsert(rows(3, 6, partitions=1))
        plan = writer.explain_upsert(rows(4, 6, partitions=1))
    assert figures(plan) == {("p0", False, "key check", 2, 0, 0)}
    assert [(look.decided_by, look.found) for look in plan.untouched] == [("key check", 0)]
    assert "1 file group of those looked at stays as it is: 1 by key check" in repr(plan)


def test_deletes_of_nothing_write_nothing(client: MakeClient) -> None:
    client().upsert(rows(0, 4))
    plan = client().explain_upsert(rows(2, 5, deleted=True))
    assert (plan.deletes, plan.updates, plan.inserts, len(plan.file_groups)) == (2, 0, 0, 2)
    assert client().explain_upsert(rows(7, 9, deleted=True)).file_groups == ()


def test_records_of_one_key_are_combined_before_they_are_counted(client: MakeClient) -> None:
    plan = client().explain_upsert(pa.concat_tables([rows(0, 2), rows(0, 2, ts=2)]))
    assert (plan.records, plan.inserts) == (4, 2)


def test_an_empty_input_and_a_first_table_are_plans_of_nothing(client: MakeClient) -> None:
    plan = client().explain_upsert(rows(0, 0))
    assert plan.file_groups == ()
    assert repr(plan).startswith("upsert of 0 records would write no file\n")


def test_nothing_is_written_where_storage_refuses_every_change(
    base_path: Path, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client() as writer:
        writer.upsert(rows(0, 4))
        pending = writer.start_commit()
        before = content(base_path)
        for name in CHANGES:
            assert hasattr(LocalStorage, name)
            monkeypatch.setattr(LocalStorage, name, refuse)
        plan = writer.explain_upsert(rows(2, 6))
        with pytest.raises(AssertionError, match="would change"):
            writer.upsert(rows(2, 6), pending)
    assert (plan.updates, plan.inserts) == (2, 2)
    assert content(base_path) == before


def refuse(*arguments: Any, **named: Any) -> None:
    raise AssertionError(f"would change {arguments[1:]}")


def test_failed_writes_of_others_are_passed_over(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(0, 4))
    other = client(auto_commit=False)
    other.upsert(rows(0, 8), other.start_commit())
    before = content(base_path)
    plan = client().explain_upsert(rows(2, 8))
    assert (plan.updates, plan.inserts) == (2, 4)
    assert content(base_path) == before


def test_what_an_upsert_refuses_the_plan_refuses(base_path: Path, client: MakeClient) -> None:
    client().upsert(rows(0, 4))
    before = content(base_path)
    bad = rows(0, 2).set_column(0, "k", pa.array(["a", None]))
    with pytest.raises(HoodieKeyException, match="nothing was written"):
        client().explain_upsert(bad)
    with pytest.raises(HoodieSchemaException):
        client().explain_upsert(rows(0, 2).drop_columns(["ts"]))
    assert content(base_path) == before


def test_a_plan_has_its_steps_and_they_are_those_of_the_write(client: MakeClient) -> None:
    with client() as writer:
        plan = writer.explain_upsert(rows(0, 4))
        result = writer.upsert(rows(0, 4))
    planned = [step.name for step in plan.steps]
    written = [step.name for step in result.steps]
    last = written.index("build workload profile") + 1
    assert planned == [*written[written.index("load the table") : last], "count records of each file group"]


def test_a_plan_prints_as_a_table_in_a_terminal_and_a_notebook(client: MakeClient) -> None:
    table = rows(0, 3).set_column(1, "p", pa.array(["<b>東京</b>", "a|b", "plain"]))
    plan = client().explain_upsert(table)
    lines = repr(plan).splitlines()
    assert lines[0] == "upsert of 3 records would start 3 file groups"
    assert lines[1].startswith("0 updates, 0 deletes, 3 inserts into ")
    # Two columns of a terminal for each wide character: the columns stand below each other.
    starts = {
        line.index(word) + line.count("東") + line.count("京")
        for line, word in zip(lines[3:8], ("file", "-  -", "(new)", "(new)", "(new)"), strict=True)
        if word != "-  -"
    }
    assert len(starts) == 1
    text = plan._repr_html_()
    assert "&lt;b&gt;東京&lt;/b&gt;" in text
    assert "<b>" not in text


def test_a_plan_of_many_file_groups_is_cut_and_sums_up_the_rest(client: MakeClient) -> None:
    plan = client().explain_upsert(rows(0, 3000, partitions=3000))
    text = repr(plan)
    assert len(text.splitlines()) < 30
    assert "... and 2,980 more rows: 0 updates, 0 deletes, 2,980 inserts, 0 B rewritten" in text
    assert plan._repr_html_().count("<tr>") == 21
    assert len(plan.file_groups) == 3000


def test_it_says_which_listings_a_metadata_table_saves(client: MakeClient) -> None:
    writer = client(**{"hoodie.metadata.enable": "true"})
    writer.upsert(rows(0, 10))
    plan = writer.explain_upsert(rows(0, 10))
    assert plan.folders_not_listed == 2
    assert "the metadata table saves the listing of 2 folders" in str(plan)
    plan = client(**{"hoodie.metadata.enable": "false"}).explain_upsert(rows(0, 10))
    assert plan.folders_not_listed == 0
    assert "metadata table" not in str(plan)
