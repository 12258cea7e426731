"""Indexes that an action drops because it cannot keep them up, and writers that die while they drop them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hoodie.metadata
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.writer.index_definition_writer import delete_index_definition, save_index_definition
from tests.support.expression_indexes import add_index, check_index, definition_of, indexes_of
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_rows, rows

pytestmark = [pytest.mark.table_version(9), pytest.mark.metadata_table]

QUIET = {
    **SMALL_FILTERS,
    "hoodie.metadata.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
KEPT = definition_of("kept", "column_stats", "length", "id")
LOST = definition_of("lost", "column_stats", "from_unixtime", "ts")


def new_table(tmp_path: Path, table_type: str = "COPY_ON_WRITE") -> Path:
    path = init_table(tmp_path / "t", table_type=table_type)
    with local_client(path, QUIET) as client:
        client.insert(rows(("a", "x", 1), ("b", "y", 1)))
    add_index(path, KEPT)
    add_index(path, LOST, built_as="identity")
    return Path(path)


def committed(path: Path) -> int:
    return len(TableSnapshot.load(str(path)).active_timeline.completed_writes().instants)


@pytest.mark.usefixtures("faulty_storage")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_write_that_fails_at_any_call_leaves_no_index_that_lacks_a_commit(
    tmp_path: Path, table_type: str, dies: bool
) -> None:
    """Readers of Hudi use what is defined, and its writers keep up what is listed."""
    base_path = new_table(tmp_path, table_type)
    template = tmp_path / "template"
    shutil.copytree(base_path, template)

    def write() -> None:
        with local_client(base_path, QUIET) as client:
            client.upsert(rows(("a", "x", 2), ("c", "x", 2)))

    healthy = Faults()
    assert run_with_faults(healthy, write) is None
    after, before = read_rows(base_path), committed(template)
    assert committed(base_path) == before + 1
    kept = {KEPT.name}
    assert indexes_of(base_path) == (kept, kept, kept)
    states = set()
    for number, how in faults_of(healthy.calls, dies):
        shutil.rmtree(base_path)
        shutil.copytree(template, base_path)
        run_with_faults(Faults(number, how, dies), write)
        what = f"call {number} of {len(healthy.calls)}, {how}: {healthy.calls[number - 1][0]}"
        listed, defined, folders = indexes_of(base_path)
        is_committed = committed(base_path) > before
        states.add((is_committed, LOST.name in listed, LOST.name in defined, LOST.name in folders))
        assert KEPT.name in listed & defined & folders, what
        if is_committed:
            assert LOST.name not in listed | defined | folders, what
        # Until then the index has every commit.
        assert LOST.name not in defined or LOST.name in listed & folders, what
        assert LOST.name not in listed or LOST.name in folders, what
        check_index(base_path, KEPT.name)
        with local_client(base_path, QUIET) as client:
            client.upsert(rows(("d", "y", 3)))
        listed, defined, _ = indexes_of(base_path)
        assert listed == defined == kept, what
        check_index(base_path, KEPT.name)
        assert hoodie.metadata.validate(str(base_path)).is_right, what
        assert read_rows(base_path) == sorted(
            [*(after if is_committed else [("a", "x", 1), ("b", "y", 1)]), ("d", "y", 3)]
        ), what
    assert (True, False, False, False) in states
    if dies:
        # The index goes step by step: from the definitions, from the properties, and its folder.
        assert {(False, True, True, True), (False, True, False, True), (False, False, False, True)} <= states


@pytest.mark.parametrize("action", ["upsert", "clean"])
@pytest.mark.parametrize("kind", ["expression", "secondary"])
def test_an_index_without_a_definition_is_dropped_by_the_next_action(
    tmp_path: Path, action: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    base_path, name = new_table(tmp_path), LOST.name
    with local_client(base_path, {**QUIET, "hoodie.cleaner.commits.retained": "1"}) as client:
        if kind == "secondary":
            assert client.create_index("by_ts", "ts")
            name = "secondary_index_by_ts"
        for ts in range(2, 5):
            client.upsert(rows(("a", "x", ts)))
        if kind == "expression":
            add_index(base_path, LOST, built_as="identity")
        assert delete_index_definition(TableSnapshot.load(str(base_path)), name)
        caplog.clear()
        assert client.clean() if action == "clean" else client.upsert(rows(("a", "x", 9)))
    assert [one for one in caplog.messages if one.startswith(f"dropping the index {name}")] == [
        f"dropping the index {name} of {base_path}, which cannot be kept up: it has no definition"
    ]
    assert name not in TableSnapshot.load(str(base_path)).table_config.listed_metadata_partitions
    assert not (base_path / ".hoodie/metadata" / name).exists()
    assert hoodie.metadata.validate(str(base_path)).is_right


def test_an_index_whose_options_describe_no_filter_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base_path = new_table(tmp_path)
    good = definition_of("f", "bloom_filters", "identity", "id")
    bad = HoodieIndexDefinition(
        good.name, good.index_type, good.source_fields, function="identity", options=(("numentries", "many"),)
    )
    add_index(base_path, good)
    save_index_definition(TableSnapshot.load(str(base_path)), bad)
    with local_client(base_path, QUIET) as client:
        client.upsert(rows(("a", "x", 9)))
    assert any("describe no bloom filter" in text for text in caplog.messages)
    assert good.name not in TableSnapshot.load(str(base_path)).table_config.listed_metadata_partitions
