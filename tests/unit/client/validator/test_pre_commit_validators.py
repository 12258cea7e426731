"""Validators see the table as it would be, and nothing is committed when one does not agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie import (
    HoodieLocalWriteClient,
    HoodiePreCommitValidator,
    HoodieTableMetaClient,
    PendingCommit,
)
from hoodie.exception import HoodieConfigException, HoodieValidationException
from tests.support import table_builder
from tests.support.table_builder import sorted_rows, write_config

Rows = list[tuple[str, str, int]]
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("fare", pa.int64())])
NAMES = SCHEMA.names

rows = partial(table_builder.rows, schema=SCHEMA)


def as_rows(table: pa.Table) -> Rows:
    return sorted_rows(table)


@pytest.fixture
def base_path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id"], partition_fields=["region"],
        table_type=getattr(request, "param", "COPY_ON_WRITE"),
    )  # fmt: skip
    return path


def client(base_path: str, *validators: Callable[[PendingCommit], Any], **properties: Any) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(write_config(base_path, **properties), validators=validators)


class Seen:
    """A validator that keeps what it sees."""

    def __init__(self) -> None:
        self.before: list[Rows] = []
        self.after: list[Rows] = []
        self.touched: list[tuple[str, ...]] = []

    def __call__(self, commit: PendingCommit) -> None:
        self.before.append(as_rows(commit.read_before(NAMES)))
        self.after.append(as_rows(commit.read_after(NAMES)))
        self.touched.append(commit.partitions)


class NoNegativeFares(HoodiePreCommitValidator):
    """What a property can name."""

    def validate(self, commit: PendingCommit) -> bool:
        return commit.read_after("id", [("fare", "<", 0)]).num_rows == 0


def files_of(base_path: str) -> set[Path]:
    return {path for path in Path(base_path).rglob("*.parquet") if ".hoodie" not in path.parts}


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("base_path", ["COPY_ON_WRITE", "MERGE_ON_READ"], indirect=True)
def test_a_validator_sees_the_table_without_and_with_each_kind_of_write(base_path: str, table_version: int) -> None:
    seen = Seen()
    with client(base_path, seen) as writer:
        for write in (
            lambda: writer.upsert(rows(("a", "x", 1), ("b", "y", 1))),
            lambda: writer.upsert(rows(("a", "x", 2), ("c", "z", 1))),
            lambda: writer.delete(rows(("b", "y", 1))),
            lambda: writer.insert_overwrite(rows(("d", "x", 9))),
            lambda: writer.bulk_insert(rows(("e", "x", 5))),
            lambda: writer.delete_partitions(["z"]),
        ):
            write()
            assert seen.after[-1] == as_rows(hoodie.read_table(base_path, columns=NAMES))
    assert seen.before == [[], *seen.after[:-1]]
    assert seen.touched == [("x", "y"), ("x", "z"), ("y",), ("x",), ("x",), ("z",)]


def test_columns_filters_and_touched_partitions_limit_what_is_read(base_path: str) -> None:
    found = []

    def look(commit: PendingCommit) -> None:
        found.append(commit.read_after(["id"], [("region", "=", "x")]).to_pylist())
        found.append(commit.read_after("id", only_touched=True).to_pylist())
        with commit.scan_before(["fare"]) as reader:
            found.append(reader.read_all().to_pylist())

    with client(base_path) as writer:
        writer.upsert(rows(("a", "x", 1)))
    with client(base_path, look) as writer:
        writer.upsert(rows(("b", "y", 2)))
    assert found == [[{"id": "a"}], [{"id": "b"}], [{"fare": 1}]]


def test_columns_that_the_commit_adds_are_seen_after_and_not_before(base_path: str) -> None:
    found = []
    with client(base_path) as writer:
        writer.upsert(rows(("a", "x", 1)))

    def look(commit: PendingCommit) -> None:
        found.append((commit.read_before().schema.names[-1], commit.read_after("tip").to_pylist()))

    with client(base_path, look) as writer:
        writer.upsert(rows(("b", "x", 2)).append_column("tip", pa.array([3])))
    [(last_before, after)] = found
    assert last_before == "fare"
    assert sorted(str(row["tip"]) for row in after) == ["3", "None"]


def failing(commit: PendingCommit) -> None:
    raise ValueError("too many rows")


@pytest.mark.parametrize(
    ("validator", "reason"),
    [
        (failing, "failing: too many rows"),
        (lambda commit: False, "returned False"),
        (lambda commit: np.bool_(False), "returned False"),
        (lambda commit: ["a problem"], "returned list"),
    ],
)
def test_a_validator_that_does_not_agree_leaves_nothing(
    base_path: str, validator: Callable[[PendingCommit], Any], reason: str
) -> None:
    with client(base_path) as writer:
        writer.upsert(rows(("a", "x", 1)))
    files = files_of(base_path)
    with client(base_path, validator) as writer:
        with pytest.raises(HoodieValidationException, match=reason):
            writer.upsert(rows(("a", "x", 2), ("b", "y", 1)))
        assert files_of(base_path) == files
    assert as_rows(hoodie.read_table(base_path, columns=NAMES)) == [("a", "x", 1)]
    meta_client = HoodieTableMetaClient.load(base_path)
    assert len(meta_client.active_timeline.filter_pending()) == 0
    with client(base_path, lambda commit: True) as writer:
        assert writer.upsert(rows(("a", "x", 2))).is_committed


def test_all_that_do_not_agree_are_named(base_path: str) -> None:
    def other(commit: PendingCommit) -> bool:
        return False

    with client(base_path, failing, other) as writer, pytest.raises(HoodieValidationException) as caught:
        writer.upsert(rows(("a", "x", 1)))
    assert "failing: too many rows; " in str(caught.value)
    assert "other returned False" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_commit_by_hand_is_refused_and_can_be_rolled_back(base_path: str) -> None:
    with client(base_path, failing, auto_commit=False) as writer:
        result = writer.upsert(rows(("a", "x", 1)))
        with pytest.raises(HoodieValidationException):
            writer.commit(result.instant_time, result)
        assert hoodie.read_table(base_path).num_rows == 0
        assert writer.rollback(result.instant_time)
    assert files_of(base_path) == set()


def test_a_class_is_named_by_a_property(base_path: str) -> None:
    with client(base_path, precommit_validators=NoNegativeFares) as writer:
        writer.upsert(rows(("a", "x", 1)))
        with pytest.raises(HoodieValidationException, match="NoNegativeFares returned False"):
            writer.upsert(rows(("b", "x", -1)))
        assert [step.name for step in writer.metrics.steps if step.failed] == ["commit", "validate"]


def test_write_table_takes_validators(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    with pytest.raises(HoodieValidationException):
        hoodie.write_table(rows(("a", "x", 1)), path, record_key_fields="id", validators=[failing])
    assert not Path(path).exists()
    with pytest.raises(HoodieConfigException, match="validators"):
        hoodie.write_table(rows(("a", "x", 1)), path, record_key_fields="id", validators=["failing"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator", "no Spark"),
        ("SqlQuerySingleResultPreCommitValidator", "no Spark"),
        ("org.example.Own", "cannot be imported"),
        ("json.JSONDecoder", "not a subclass"),
        ("hoodie.HoodiePreCommitValidator", "does not define validate"),
    ],
)
def test_what_is_no_validator_is_refused_at_once(base_path: str, name: str, problem: str) -> None:
    with pytest.raises(HoodieConfigException, match=problem):
        client(base_path, precommit_validators=name)
