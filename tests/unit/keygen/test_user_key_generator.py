"""Keys made by classes of the user."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieKeyException
from hoodie.keygen.user_key_generator import (
    KeyGeneratorOfUser,
    UserKeyGenerator,
    UserRecordKeyGenerator,
    load_user_key_generator,
)
from tests.support.table_builder import local_client

CLASS = "hoodie.datasource.write.keygenerator.class"


class ByInitial(UserRecordKeyGenerator):
    def record_key(self, record: Mapping[str, Any]) -> str:
        return str(record["name"].lower())

    def partition_path(self, record: Mapping[str, Any]) -> str:
        return str(record["name"][0].lower())


class Columns(UserKeyGenerator):
    def record_keys(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column("id").cast(pa.string())

    def partition_paths(self, batch: pa.RecordBatch) -> Sequence[str | None]:
        return [f"{self.properties['prefix']}{value}" for value in batch.column("id").to_pylist()]


class TooFew(Columns):
    def record_keys(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.array(["a"])


class NeedsMore(ByInitial):
    def __init__(self, properties: Mapping[str, str], more: int) -> None:
        super().__init__(properties)


def generator(kind: type[UserKeyGenerator], **properties: str) -> KeyGeneratorOfUser:
    return KeyGeneratorOfUser(("id",), user=kind(properties))


def test_columns_and_records_are_asked_for_keys() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["Ann", "bob"]})
    assert [column.to_pylist() for column in generator(Columns, prefix="p").keys(rows)] == [["1", "2"], ["p1", "p2"]]
    by_initial = pickle.loads(pickle.dumps(generator(ByInitial)))
    assert [column.to_pylist() for column in by_initial.keys(rows)] == [["ann", "bob"], ["a", "b"]]


def test_an_exception_is_told_with_the_record() -> None:
    rows = pa.RecordBatch.from_pydict({"name": ["Ann", None]})
    with pytest.raises(HoodieKeyException, match=r"ByInitial failed in record_keys: AttributeError.*\{'name': None\}"):
        generator(ByInitial).record_keys(rows)


def test_unusable_answers_are_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1, None]})
    with pytest.raises(HoodieKeyException, match="returned 1 values for 2 rows"):
        generator(TooFew, prefix="").record_keys(rows)
    upwards = generator(Columns, prefix="../")
    assert upwards.partition_paths(rows).to_pylist() == [None, None]
    text = upwards.explain_bad_rows(rows)
    assert "got no key from Columns.record_keys in 1 record" in text
    assert "got no path below the table's folder from Columns.partition_paths in 2 records" in text


class Numbers(Columns):
    def record_keys(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column("id")


def test_nan_of_a_users_key_generator_is_no_record_key() -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1.5, float("nan")]})
    assert generator(Numbers).record_keys(rows).to_pylist() == ["1.5", None]


def test_only_importable_subclasses_are_loaded() -> None:
    made = load_user_key_generator(f"{__name__}.ByInitial", {"a": "b"})
    assert isinstance(made, ByInitial)
    assert made.properties == {"a": "b"}
    for name, message in (
        ("no.such.Module", "cannot be imported"),
        (f"{__name__}.Missing", "cannot be imported"),
        ("collections.OrderedDict", "is not a subclass of hoodie.keygen.user_key_generator.UserKeyGenerator"),
        (f"{__name__}.NeedsMore", "cannot be created .* its constructor is called with dict"),
        ("NoModule", "has no module"),
    ):
        with pytest.raises(HoodieConfigException, match=message):
            load_user_key_generator(name, {})


def test_a_table_is_written_by_a_class_that_every_writer_names(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="people", record_key_fields="name", key_generator=ByInitial)
    with local_client(path, {CLASS: ByInitial}) as client:
        client.upsert([{"name": "Ann", "age": 1}, {"name": "Bob", "age": 2}])
        client.upsert([{"name": "ANN", "age": 3}])
        client.delete([{"name": "bob"}])
        with pytest.raises(HoodieKeyException, match="failed in"):
            client.upsert([{"name": None, "age": 5}])
    assert hoodie.read_table(path, columns=["_hoodie_record_key", "_hoodie_partition_path", "age"]).to_pylist() == [
        {"_hoodie_record_key": "ann", "_hoodie_partition_path": "a", "age": 3}
    ]
    with (
        local_client(path) as client,
        pytest.raises(HoodieConfigException, match="name it in the writer's properties too"),
    ):
        client.upsert([{"name": "Ann", "age": 1}])
    with pytest.raises(HoodieConfigException, match=r"the table's keys are made by ByInitial"):
        local_client(path, {CLASS: Columns}).start_commit()
