"""Tables whose records a user's own class merges, written in-process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import (
    HoodieRecord,
    HoodieRecordMerger,
    HoodieSingleRecordMerger,
    HoodieTableMetaClient,
    HoodieWriteConfig,
    MergeOutcome,
)
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieUpsertException,
)
from tests.support.table_builder import local_client

MERGER = "hoodie.write.record.merge.custom.implementation.classes"


class LargestFare(HoodieRecordMerger):
    """Keeps the row with the larger fare; a fare of -1 fails."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        if pc.any(pc.equal(newer["fare"], -1.0)).as_py():
            raise ValueError("no fare is negative")
        return MergeOutcome.choose(pc.greater_equal(newer["fare"], older["fare"]))


class SumOfFares(HoodieSingleRecordMerger):
    """Adds fares; a sum of 0 deletes, a fare of -1 fails."""

    def merge_records(self, older: HoodieRecord, newer: HoodieRecord) -> HoodieRecord | None:
        if newer.data["fare"] == -1.0:
            raise ValueError("no fare is negative")
        total = older.data["fare"] + newer.data["fare"]
        return HoodieRecord(newer.key, {**newer.data, "fare": total}) if total else None


class WrongColumns(HoodieRecordMerger):
    """Gives rows without a column."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.write(newer.select(["id"]))


class NoMerger:
    """Is none."""


def create(tmp_path: Path, merger: Any) -> str:
    base_path = str(tmp_path / "trips")
    hoodie.write_table(rows(a=1.0, b=2.0, c=3.0), base_path, record_key_fields="id", properties={MERGER: merger})
    return base_path


def rows(*more: tuple[str, float], **fares: float) -> list[dict[str, Any]]:
    return [{"id": key, "fare": fare} for key, fare in (*fares.items(), *more)]


def read(base_path: str) -> dict[str, float]:
    return {row["id"]: row["fare"] for row in hoodie.read_table(base_path, columns=["id", "fare"]).to_pylist()}


@pytest.mark.parametrize("named", [True, False])
def test_a_merger_chooses_between_stored_and_incoming_rows(named: bool, tmp_path: Path) -> None:
    merger = f"{__name__}.LargestFare" if named else LargestFare
    base_path = create(tmp_path, merger)
    result = hoodie.write_table(rows(a=0.5, b=9.0, d=4.0), base_path, properties={MERGER: merger})
    assert read(base_path) == {"a": 1.0, "b": 9.0, "c": 3.0, "d": 4.0}
    assert (result.updated_count, result.inserted_count) == (1, 1)


def test_a_merger_combines_the_rows_of_one_key_in_their_order(tmp_path: Path) -> None:
    base_path = create(tmp_path, SumOfFares)
    changes = rows(("a", 10.0), ("n", 1.0), ("a", 100.0), ("n", 2.0), ("n", 4.0), b=0.5)
    hoodie.write_table(changes, base_path, properties={MERGER: SumOfFares})
    assert read(base_path) == {"a": 111.0, "b": 2.5, "c": 3.0, "n": 7.0}


def test_a_merger_deletes(tmp_path: Path) -> None:
    base_path = create(tmp_path, SumOfFares)
    result = hoodie.write_table(rows(a=-1.5, b=-2.0), base_path, properties={MERGER: SumOfFares})
    assert read(base_path) == {"a": -0.5, "c": 3.0}
    assert result.deleted_count == 1


def test_rows_that_come_after_a_merged_delete_are_new(tmp_path: Path) -> None:
    base_path = create(tmp_path, SumOfFares)
    hoodie.write_table(rows(("a", 5.0), ("a", -5.0), ("a", 7.0)), base_path, properties={MERGER: SumOfFares})
    assert read(base_path)["a"] == 8.0
    hoodie.write_table(rows(("a", 5.0), ("a", -5.0)), base_path, properties={MERGER: SumOfFares})
    assert "a" not in read(base_path)


@pytest.mark.parametrize("merger", [LargestFare, SumOfFares])
def test_a_merger_that_raises_for_a_row_makes_a_record_error(merger: type[HoodieRecordMerger], tmp_path: Path) -> None:
    base_path = create(tmp_path, merger)
    changes = rows(a=8.0, b=-1.0, c=8.0)
    with pytest.raises(
        HoodieUpsertException, match=rf"1 records .* \(b: {merger.__name__} failed: ValueError: no fare"
    ):
        hoodie.write_table(changes, base_path, properties={MERGER: merger})
    assert read(base_path) == {"a": 1.0, "b": 2.0, "c": 3.0}
    result = hoodie.write_table(changes, base_path, properties={MERGER: merger, "hoodie.write.commit.on.errors": True})
    assert (result.error_count, result.errors[0].record_key) == (1, "b")
    assert read(base_path)["b"] == 2.0
    assert {read(base_path)["a"], read(base_path)["c"]} <= {8.0, 9.0, 11.0}


@pytest.mark.parametrize("key", ["a", "new"])
def test_a_row_that_cannot_be_combined_with_another_incoming_one_is_a_record_error(key: str, tmp_path: Path) -> None:
    base_path = create(tmp_path, SumOfFares)
    changes = rows((key, 5.0), (key, -1.0), (key, 3.0), b=1.0)
    properties = {MERGER: SumOfFares, "hoodie.write.commit.on.errors": True}
    result = hoodie.write_table(changes, base_path, properties=properties)
    assert [(error.record_key, error.reason) for error in result.errors] == [
        (key, "SumOfFares failed: ValueError: no fare is negative")
    ]
    assert read(base_path) == {"a": 1.0, "b": 3.0, "c": 3.0}


def test_a_merger_that_gives_other_columns_fails_the_write(tmp_path: Path) -> None:
    base_path = create(tmp_path, WrongColumns)
    with pytest.raises(HoodieSchemaException, match="WrongColumns.merge returned 1 rows of the columns id"):
        hoodie.write_table(rows(a=1.0), base_path, properties={MERGER: WrongColumns})
    assert read(base_path) == {"a": 1.0, "b": 2.0, "c": 3.0}


def test_deletes_do_not_ask_the_merger(tmp_path: Path) -> None:
    base_path = create(tmp_path, LargestFare)
    with local_client(base_path, {MERGER: LargestFare}) as client:
        client.delete([{"id": "a"}])
    assert read(base_path) == {"b": 2.0, "c": 3.0}


def test_a_partial_update_shows_the_merger_whole_rows(tmp_path: Path) -> None:
    base_path = str(tmp_path / "trips")
    properties = {MERGER: SumOfFares, "hoodie.write.partial.update": True}
    first = [{"id": "a", "fare": 1.0, "tip": 0.5}]
    hoodie.write_table(first, base_path, record_key_fields="id", properties={MERGER: SumOfFares})
    hoodie.write_table([{"id": "a", "fare": 2.0}], base_path, properties=properties)
    assert hoodie.read_table(base_path, columns=["fare", "tip"]).to_pylist() == [{"fare": 3.0, "tip": 0.5}]


def test_the_table_says_that_a_python_class_merges_it(tmp_path: Path) -> None:
    stored = HoodieTableMetaClient.load(create(tmp_path, LargestFare)).table_config
    assert stored.payload_class == f"python:{__name__}.LargestFare"
    assert MERGER not in stored.properties


def test_a_writer_without_the_tables_merger_is_refused(tmp_path: Path) -> None:
    base_path = create(tmp_path, LargestFare)
    with pytest.raises(HoodieNotSupportedException, match=r"LargestFare .*the writer names none: set .*LargestFare"):
        hoodie.write_table(rows(a=9.0), base_path)
    with pytest.raises(HoodieConfigException, match=r"SumOfFares: the table merges records by python:.*LargestFare"):
        hoodie.write_table(rows(a=9.0), base_path, properties={MERGER: SumOfFares})


def test_a_merger_for_a_table_of_a_payload_class_is_refused(tmp_path: Path) -> None:
    base_path = str(tmp_path / "trips")
    hoodie.write_table(rows(a=1.0), base_path, record_key_fields="id")
    with pytest.raises(HoodieConfigException, match=r"LargestFare: the table merges .*OverwriteWithLatestAvroPayload"):
        hoodie.write_table(rows(a=1.0), base_path, properties={MERGER: LargestFare})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.Merger", "nowhere.Merger cannot be imported"),
        (f"{__name__}.Absent", "cannot be imported"),
        (f"{__name__}.NoMerger", "is not a subclass of hoodie.HoodieRecordMerger"),
        ("hoodie.HoodieRecordMerger", "does not define merge"),
    ],
)
def test_a_name_that_is_no_merger_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        hoodie.write_table(rows(a=1.0), str(tmp_path / "t"), record_key_fields="id", properties={MERGER: name})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("org.apache.hudi.HoodieSparkRecordMerger", "is a Java class, and hoodie cannot call it"),
        ("a.B,c.D", "one class, not 2"),
        ("a b", "must be package.module.Class"),
    ],
)
def test_what_names_no_class_of_python_is_refused(value: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        HoodieWriteConfig.from_properties("/t", {MERGER: value})


def test_a_class_inside_a_function_is_refused() -> None:
    class Local(LargestFare):
        """Cannot be imported."""

    with pytest.raises(HoodieConfigException, match="a class at the top of its module"):
        HoodieWriteConfig.from_properties("/t", {MERGER: Local})


def test_an_outcome_of_another_length_is_a_mistake_of_the_merger() -> None:
    class Short(HoodieRecordMerger):
        """Gives one code."""

        def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
            return MergeOutcome.choose([True])

    batch = pa.record_batch({"a": [1, 2]})
    with pytest.raises(HoodieException, match="Short.merge returned 1 codes for 2 pairs"):
        hoodie.merge.record_merger.merge_pairs(Short(), batch, batch, pa.array(["k", "l"]))
