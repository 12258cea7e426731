"""Tables that real Hudi created: hoodie writes them as real Hudi goes on to do, or refuses them by name."""

from __future__ import annotations

import logging
import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieException
from hoodie.metadata import validate
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import (
    SIMPLE,
    Layout,
    Row,
    TableModel,
    assert_all_agree,
)

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
OPTIONS = SIMPLE.hudi_options("real")
DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
METADATA = {"hoodie.metadata.enable": "true"}


def row(key: str, ts: int, fare: float, region: str = "north") -> Row:
    return {"id": key, "region": region, "ts": ts, "fare": fare}


def rows(numbers: range, ts: int) -> list[Row]:
    return [row(f"k{n}", ts, n + ts / 4, SIMPLE.regions[n % 3]) for n in numbers]


def local_client(base_path: Path, **properties: str) -> HoodieLocalWriteClient:
    given = {f"hoodie.{name.replace('_', '.')}": value for name, value in properties.items()}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path), given))


def upsert_by_hoodie(base_path: Path, model: TableModel, changes: list[Row], **properties: str) -> None:
    model.upsert(changes)
    with local_client(base_path, **properties) as client:
        client.upsert(model.table(changes))


# --- keys that live twice ---------------------------------------------------------------------------------------


@pytest.mark.interop_smoke
@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, None], ids=["event_time", "no_payload_class"])
def test_a_key_that_lives_twice_is_changed_at_both_places_as_real_hudi_does(
    tmp_path: Path, hudi_0_15: HudiProcess, payload: str | None
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    model = TableModel(SIMPLE, SCHEMA, event_time=payload is not None)
    stored = [
        [row("twice", 5, 1.0), row("late at one", 5, 1.0), row("once", 5, 1.0), row("twice in one", 5, 1.0)],
        [row("twice", 5, 2.0), row("late at one", 7, 2.0), row("elsewhere", 5, 2.0, "south")],
        [row("twice in one", 5, 3.0), row("twice in one", 5, 4.0), row("twice", 5, 3.0, "south")],
    ]
    for number, part in enumerate(stored):
        model.insert(part)
        mode = "append" if number else "overwrite"
        hudi_0_15.write(first, model.table(part), {**OPTIONS, **NEW_FILES}, operation="insert", mode=mode)
        if payload is not None and not number:
            hudi_0_15.set_table_properties(first, {"hoodie.compaction.payload.class": payload})
    shutil.copytree(first, second)
    changes = [
        row("twice", 6, 9.0), row("late at one", 6, 9.0), row("twice in one", 6, 9.0), row("new", 6, 9.0),
        row("once", 4, 9.0),
    ]  # fmt: skip
    payload_option = {"hoodie.datasource.write.payload.class": payload} if payload else {}
    hudi_0_15.write(first, model.table(changes), {**OPTIONS, **NEW_FILES, **payload_option})
    upsert_by_hoodie(second, model, changes, parquet_small_file_limit="0")
    assert_all_agree(first, model, hudi_0_15)
    assert_all_agree(second, model, hudi_0_15)
    gone = [row("twice", 0, 0.0), row("twice in one", 0, 0.0)]
    hudi_0_15.write(first, model.table(gone), OPTIONS, operation="delete")
    with local_client(second) as client:
        client.delete(model.table(gone))
    model.delete(gone)
    assert_all_agree(first, model, hudi_0_15)
    assert_all_agree(second, model, hudi_0_15)


# --- a payload class that nobody stored -------------------------------------------------------------------------


def test_a_late_row_replaces_in_a_table_without_payload_class_as_in_0_15(
    tmp_path: Path, hudi_0_15: HudiProcess, caplog: pytest.LogCaptureFixture
) -> None:
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA, event_time=False)
    options = SIMPLE.hudi_options("says_nothing")  # the warning comes once for each table's name
    model.insert([row("late", 5, 1.0), row("tie", 5, 1.0), row("newer", 5, 1.0), row("late too", 5, 1.0)])
    hudi_0_15.write(base_path, model.table(model.rows), options, mode="overwrite")
    assert "payload.class" not in (base_path / ".hoodie" / "hoodie.properties").read_text()
    with caplog.at_level(logging.WARNING, logger="hoodie"):
        upsert_by_hoodie(base_path, model, [row("late", 4, 2.0), row("tie", 5, 2.0), row("newer", 6, 2.0)])
    assert "hoodie.compaction.payload.class" in caplog.text
    assert_all_agree(base_path, model, hudi_0_15)
    by_hudi = [row("late too", 4, 3.0), row("late", 3, 3.0)]
    hudi_0_15.write(base_path, model.table(by_hudi), options)
    model.upsert(by_hudi)
    assert_all_agree(base_path, model, hudi_0_15)


@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, LATEST_PAYLOAD], ids=["event_time", "latest"])
def test_a_table_of_version_6_that_1_2_created_goes_on_in_turn(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, payload: str
) -> None:
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA, event_time=payload == DEFAULT_PAYLOAD)
    options = {**OPTIONS, "hoodie.datasource.write.payload.class": payload}
    model.insert(rows(range(12), 5))
    hudi_1_2.write(base_path, model.table(model.rows), options, mode="overwrite")
    for number, hudi in enumerate((hudi_1_2, hudi_0_15)):
        changes = [*rows(range(4), 4), *rows(range(4, 8), 5 + number), *rows(range(8, 14), 6 + number)]
        upsert_by_hoodie(base_path, model, changes)
        assert_all_agree(base_path, model, hudi_0_15, hudi_1_2)
        changes = [*rows(range(2, 4), 3), *rows(range(4, 6), 5 + number), *rows(range(10, 16), 7 + number)]
        hudi.write(base_path, model.table(changes), options)
        model.upsert(changes)
        assert_all_agree(base_path, model, hudi_0_15, hudi_1_2)


# --- rows that are flagged as deleted ---------------------------------------------------------------------------


def test_flagged_rows_delete_unless_they_are_late_whoever_writes_them(
    tmp_path: Path, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess
) -> None:
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_())), event_time=True)
    properties = {"hoodie.compaction.payload.class": DEFAULT_PAYLOAD}
    arguments = {**SIMPLE.init_arguments(), "properties": properties}
    HoodieTableMetaClient.init_table(str(base_path), table_name="real", **arguments)
    upsert_by_hoodie(base_path, model, [flagged | {"_hoodie_is_deleted": None} for flagged in rows(range(30), 5)])

    def flags(first: int) -> list[Row]:
        """Deletes that are late, of the same time and later, one of a key that is not there, and an update."""
        return [
            row(f"k{first + number}", ts, 0.0, SIMPLE.regions[(first + number) % 3]) | {"_hoodie_is_deleted": deleted}
            for number, (ts, deleted) in enumerate([(4, True), (5, True), (6, True), (6, False)])
        ] + [row(f"nobody {first}", 9, 0.0) | {"_hoodie_is_deleted": True}]

    def note(changes: list[Row]) -> None:
        model.delete([changes[1], changes[2]])
        model.upsert([changes[3]])

    with local_client(base_path) as client:
        client.upsert(model.table(flags(0)))
    note(flags(0))
    assert_all_agree(base_path, model, hudi_0_15, hudi_1_2)
    for first, hudi in ((4, hudi_0_15), (8, hudi_1_2)):
        hudi.write(base_path, model.table(flags(first)), OPTIONS)
        note(flags(first))
        assert_all_agree(base_path, model, hudi_0_15, hudi_1_2)
    with local_client(base_path, parquet_small_file_limit="0") as client:
        client.upsert(model.table(flags(12)))
    note(flags(12))
    assert_all_agree(base_path, model, hudi_0_15, hudi_1_2)


# --- metadata tables --------------------------------------------------------------------------------------------


def metadata_partitions(base_path: Path) -> tuple[str, ...]:
    return HoodieTableMetaClient.load(str(base_path)).table_config.metadata_partitions


@pytest.mark.interop_smoke
def test_a_metadata_table_of_0_15_is_kept_and_switched_off_when_the_writer_says_so(
    tmp_path: Path, hudi_0_15: HudiProcess
) -> None:
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA, event_time=False)
    model.insert(rows(range(12), 1))
    hudi_0_15.write(base_path, model.table(model.rows), {**OPTIONS, **METADATA}, mode="overwrite")
    assert metadata_partitions(base_path) == ("files",)
    upsert_by_hoodie(base_path, model, rows(range(6, 20), 2), parquet_small_file_limit="0")
    assert metadata_partitions(base_path) == ("files",)
    assert validate(str(base_path)).is_right
    assert hudi_0_15.read(base_path, METADATA).num_rows == len(model.rows)
    assert_all_agree(base_path, model, hudi_0_15)
    changes = rows(range(10, 25), 3)
    hudi_0_15.write(base_path, model.table(changes), {**OPTIONS, **METADATA})
    model.upsert(changes)
    assert validate(str(base_path)).is_right
    assert_all_agree(base_path, model, hudi_0_15)
    upsert_by_hoodie(base_path, model, rows(range(0, 30, 2), 4), metadata_enable="false")
    assert metadata_partitions(base_path) == ()
    assert not (base_path / ".hoodie" / "metadata").exists()
    assert_all_agree(base_path, model, hudi_0_15)
    changes = rows(range(5, 9), 5)
    hudi_0_15.write(base_path, model.table(changes), {**OPTIONS, **METADATA})
    model.upsert(changes)
    assert metadata_partitions(base_path) == ("files",)
    assert hudi_0_15.read(base_path, METADATA).num_rows == len(model.rows)
    assert_all_agree(base_path, model, hudi_0_15)


# --- a table that 1.2.0 took to its own version ------------------------------------------------------------------


@pytest.fixture
def local_table(tmp_path: Path) -> tuple[Path, TableModel]:
    """A table of hoodie with rows."""
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA, event_time=True)
    HoodieTableMetaClient.init_table(str(base_path), table_name="real", **SIMPLE.init_arguments())
    upsert_by_hoodie(base_path, model, rows(range(6), 1))
    return base_path, model


def upgrade(hudi_1_2: HudiProcess, base_path: Path, model: TableModel) -> None:
    """Let 1.2.0 write as it does by default."""
    hudi_1_2.write(base_path, model.table(rows(range(4, 8), 2)), OPTIONS, standing_options=False)
    properties = (base_path / ".hoodie" / "hoodie.properties").read_text()
    assert "hoodie.table.version=9" in properties


@pytest.mark.interop_smoke
def test_a_client_goes_on_with_a_table_that_was_upgraded_meanwhile(
    local_table: tuple[Path, TableModel], hudi_1_2: HudiProcess
) -> None:
    base_path, model = local_table
    with local_client(base_path) as client:
        model.upsert(rows(range(3, 9), 2))
        client.upsert(model.table(rows(range(3, 9), 2)))
        upgrade(hudi_1_2, base_path, model)
        model.upsert(rows(range(4, 8), 2))
        assert_all_agree(base_path, model, hudi_1_2)
        model.upsert(rows(range(6, 12), 3))
        client.upsert(model.table(rows(range(6, 12), 3)))
    assert_all_agree(base_path, model, hudi_1_2)
    hudi_1_2.write(base_path, model.table(rows(range(10, 14), 4)), OPTIONS, standing_options=False)
    model.upsert(rows(range(10, 14), 4))
    assert_all_agree(base_path, model, hudi_1_2)


@pytest.mark.parametrize("moment", ["before the rows", "before the commit"])
def test_a_table_that_is_upgraded_while_hoodie_writes_is_not_committed_to(
    local_table: tuple[Path, TableModel], hudi_1_2: HudiProcess, moment: str
) -> None:
    base_path, model = local_table
    changes = model.table(rows(range(3, 10), 3))
    client = local_client(base_path, auto_commit="false")
    instant_time = client.start_commit()
    if moment == "before the rows":
        upgrade(hudi_1_2, base_path, model)
        with pytest.raises(HoodieException, match=instant_time):
            client.upsert(changes, instant_time)
    else:
        result = client.upsert(changes, instant_time)
        upgrade(hudi_1_2, base_path, model)
        with pytest.raises(HoodieException, match=f"{instant_time}|version"):
            client.commit(instant_time, result)
    client.close()
    model.upsert(rows(range(4, 8), 2))
    assert_all_agree(base_path, model, hudi_1_2)
    assert not list(base_path.rglob(f"*_{instant_time}.parquet"))
    upsert_by_hoodie(base_path, model, rows(range(3, 10), 4))
    assert_all_agree(base_path, model, hudi_1_2)


# --- the table that is kept in the repository --------------------------------------------------------------------


def test_the_kept_table_of_flights_is_extended_by_hoodie_and_then_by_0_15(
    tmp_path: Path, hudi_0_15: HudiProcess
) -> None:
    with zipfile.ZipFile(Path(__file__).parents[1] / "data" / "hudi_flights_v6.zip") as archive:
        archive.extractall(tmp_path)
    base_path = tmp_path / "hudi_flights_v6"
    key = ("carrier", "flight", "origin", "time_hour")
    layout = Layout(
        "flights", key, ["month"],
        lambda flight: ",".join(f"{name}:{flight[name]}" for name in key),
        lambda flight: f"month={flight['month']}",
        ordering_field="updated_at", hive_style=True,
    )  # fmt: skip
    stored = hudi_0_15.read(base_path)
    columns = [name for name in stored.schema.names if not name.startswith("_hoodie_")]
    model = TableModel(layout, stored.select(columns).schema.remove_metadata(), event_time=True)
    model.insert(stored.select(columns).to_pylist())
    assert_all_agree(base_path, model)
    departed = [dict(flight) for flight in model.rows if flight["updated_at"] == 1]
    scheduled = [dict(flight) for flight in model.rows if flight["updated_at"] == 0]
    late = [flight | {"updated_at": 0, "dep_delay": -99} for flight in departed[:10]]
    changes = [*late, *(flight | {"updated_at": 2, "dep_delay": 7} for flight in scheduled[:50])]
    upsert_by_hoodie(base_path, model, changes)
    assert_all_agree(base_path, model, hudi_0_15)
    options = {
        **layout.hudi_options("hudi_flights"),
        "hoodie.datasource.write.payload.class": DEFAULT_PAYLOAD,
    }
    february = [flight | {"month": 2, "updated_at": 0} for flight in departed[:20]]
    hudi_0_15.write(base_path, model.table([*late, *february]), options)
    model.upsert([*late, *february])
    assert_all_agree(base_path, model, hudi_0_15)
