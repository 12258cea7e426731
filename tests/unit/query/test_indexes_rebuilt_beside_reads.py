"""Queries that use indexes which others drop, and build anew in a later state of the table, while they are planned."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieReadClient
from hoodie.exception import HoodieIOException
from tests.support.hookable_storage import hooked
from tests.support.table_builder import TRIPS, init_table, local_client, rows

INDEXED = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.index.column.stats.enable": True,
    "hoodie.metadata.global.record.level.index.enable": True,
}
DROPPED = {name: name == "hoodie.metadata.enable" for name in INDEXED}
MOVING = {**DROPPED, "hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": True}
MOVED = ("a", "x", 1, 100.0, "rider-a")
"""The one row of its partition. It moves to another one, and its file group of today stays on storage."""
SCHEMA = TRIPS.append(pa.field("rider", pa.string()))
QUESTIONS: dict[str, pc.Expression] = {
    "record key": pc.field("_hoodie_record_key") == "a",
    "secondary index": pc.field("rider") == "rider-a",
    "range of partitions": pc.field("fare") > 90,
}


def move_the_row_and_build_anew(table: Path) -> None:
    """What another writer does meanwhile."""
    with local_client(table, DROPPED) as client:
        client.upsert(rows(("b", "y", 2, 2.0, "rider-b"), schema=SCHEMA))
    with local_client(table, MOVING) as client:
        client.upsert(rows(("a", "y", 3, *MOVED[3:]), schema=SCHEMA))
    with local_client(table, INDEXED) as client:
        client.upsert(rows(("c", "z", 4, 4.0, "rider-c"), schema=SCHEMA))


@pytest.fixture(scope="module", params=["COPY_ON_WRITE", pytest.param("MERGE_ON_READ", marks=pytest.mark.slow)])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = Path(init_table(tmp_path_factory.mktemp("tables") / "t", table_type=request.param))
    with local_client(table, INDEXED) as client:
        client.upsert(rows(MOVED, ("b", "y", 1, 1.0, "rider-b"), ("c", "z", 1, 1.0, "rider-c"), schema=SCHEMA))
        if hoodie.HoodieTableMetaClient.load(str(table)).table_config.table_version > 6:
            client.create_index("idx_rider", "rider")
    return table


def during_each_call(
    table: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any]
) -> Iterator[tuple[str, Any]]:
    """What a read gives, with the change in front of each of its calls to the storage in turn."""
    calls: list[str] = []
    with hooked(monkeypatch, lambda name, path: calls.append(f"{name} {Path(path).name}")):
        read(table)
    for number, call in enumerate(calls):
        copy = table.parent / "changed meanwhile"
        shutil.copytree(table, copy)
        made = 0

        def change(name: str, path: str, number: int = number, copy: Path = copy) -> None:
            nonlocal made
            made += 1
            if made == number + 1:
                move_the_row_and_build_anew(copy)

        with hooked(monkeypatch, change):
            yield f"{number}: {call}", read(copy)
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "question",
    [*list(QUESTIONS)[:1], *(pytest.param(question, marks=pytest.mark.slow) for question in list(QUESTIONS)[1:])],
)
@pytest.mark.one_in(4)
def test_a_row_that_is_moved_is_in_one_of_its_places(
    table: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    def read(path: Path) -> list[str]:
        found: list[str] = hoodie.read_table(str(path), columns=["id"], filters=QUESTIONS[question])["id"].to_pylist()
        return found

    wrong = {call: found for call, found in during_each_call(table, monkeypatch, read) if found != ["a"]}
    assert not wrong


@pytest.mark.one_in(4)
def test_a_read_client_finds_a_row_that_is_moved(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> list[str]:
        with HoodieReadClient(str(path), options={"hoodie.index.type": "RECORD_INDEX"}) as client:
            found: list[str] = client.read(["a"])["id"].to_pylist()
        return found

    wrong = {call: found for call, found in during_each_call(table, monkeypatch, read) if found != ["a"]}
    assert not wrong


def test_a_table_whose_indexes_are_built_anew_each_time_is_not_read(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewrite(name: str, path: str) -> None:
        # One thread lists timelines, and many list partitions.
        if name == "list" and Path(path).name in ("timeline", ".hoodie"):
            properties = table / ".hoodie" / "hoodie.properties"
            changed = table / ".hoodie" / "changed.properties"
            changed.write_bytes(properties.read_bytes() + b"#\n")
            changed.rename(properties)

    with hooked(monkeypatch, rewrite), pytest.raises(HoodieIOException, match="its properties were changed each of"):
        hoodie.read_table(str(table), filters=QUESTIONS["record key"])
