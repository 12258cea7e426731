"""Tables of every key generator, written and read: nested fields, times, several partition fields, pruned reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieRecord, HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieWriteException
from tests.support.hookable_storage import hooked
from tests.support.table_builder import local_client

TIME = "hoodie.keygen.timebased."
UNIX = {f"{TIME}timestamp.type": "UNIX_TIMESTAMP", f"{TIME}output.dateformat": "yyyy/MM/dd"}
DAY = 86_400


def make(base_path: Path, **arguments: Any) -> str:
    HoodieTableMetaClient.init_table(str(base_path), table_name="t", **arguments)
    return str(base_path)


def found(base_path: str, *columns: str, **query: Any) -> list[dict[str, Any]]:
    rows = hoodie.read_table(base_path, columns=list(columns), **query).to_pylist()
    return sorted(rows, key=repr)


def count_by_hudi_rs(base_path: str) -> int:
    batches = HudiTableBuilder.from_base_uri(base_path).build().read()
    return sum(batch.num_rows for batch in batches)


def count_typed_by_hudi_rs(base_path: str, table_version: int) -> int:
    """As `count_by_hudi_rs`; hudi-rs 0.5.0 does not know that partition fields of later versions name their types."""
    if table_version == 6:
        return count_by_hudi_rs(base_path)
    with pytest.raises(Exception, match=r"`\w+\\:SIMPLE` declared in `hoodie.table.partition.fields`"):
        count_by_hudi_rs(base_path)
    return hoodie.read_table(base_path).num_rows


# ------------------------------------------------------------------------------------------------------------- nested


def place(name: str | None, zone: int | None, seen: int | None, value: int) -> dict[str, Any]:
    return {"place": {"name": name, "zone": zone, "at": {"seen": seen}}, "value": value}


PLACES = pa.schema(
    [
        (
            "place",
            pa.struct(
                [("name", pa.string()), ("zone", pa.int32()), ("at", pa.struct([("seen", pa.int64())]))],
            ),
        ),
        ("value", pa.int64()),
    ]
)


def test_nested_fields_are_keys_partitions_and_ordering(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t", record_key_fields="place.name", partition_fields="place.zone", ordering_fields="place.at.seen",
        hive_style_partitioning=True, schema=PLACES,
    )  # fmt: skip
    with local_client(path) as c:
        c.upsert(pa.Table.from_pylist([place("a", 1, 5, 1), place("b", None, 5, 2), place("c", 2, 5, 3)], PLACES))
        c.upsert(
            pa.Table.from_pylist(
                [place("a", 1, 4, 10), place("b", None, 6, 20), place("c", 2, 7, 30), place("c", 2, 6, 31)], PLACES
            )
        )
    columns = ("_hoodie_record_key", "_hoodie_partition_path", "value")
    assert [tuple(row.values()) for row in found(path, *columns)] == [
        ("a", "place.zone=1", 1),
        ("b", "place.zone=__HIVE_DEFAULT_PARTITION__", 20),
        ("c", "place.zone=2", 30),
    ]
    assert found(path, "value", filters=pc.field("place", "zone") == 2) == [{"value": 30}]
    with local_client(path) as c:
        assert c.delete([{"place": {"name": "a", "zone": 1}}]).deleted_count == 1
        assert c.delete(where=pc.field("place", "name") == "b").deleted_count == 1
        with pytest.raises(HoodieKeyException, match=r"place\.name"):
            c.upsert(pa.Table.from_pylist([place(None, 1, 4, 10)], PLACES))
        with pytest.raises(HoodieWriteException, match=r"ordering field 'place\.at\.seen'"):
            c.upsert(pa.Table.from_pylist([place("d", 1, None, 10)], PLACES))
    assert found(path, "value") == [{"value": 30}]


# -------------------------------------------------------------------------------------------------- times and several


def test_folders_of_times_are_found_again_and_never_pruned_wrongly(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t", record_key_fields="id", partition_fields="ts", key_generator="TIMESTAMP", properties=UNIX
    )
    with local_client(path) as c:
        c.upsert([{"id": 1, "ts": 0, "v": "a"}, {"id": 2, "ts": DAY, "v": "a"}, {"id": 3, "ts": None, "v": "a"}])
        c.upsert([{"id": 1, "ts": DAY - 1, "v": "b"}, {"id": 2, "ts": 2 * DAY, "v": "b"}])
    assert [tuple(row.values()) for row in found(path, "id", "v", "_hoodie_partition_path")] == [
        (1, "b", "1970/01/01"),
        (2, "a", "1970/01/02"),
        (2, "b", "1970/01/03"),
        (3, "a", "1970/01/01"),
    ]
    assert found(path, "id", filters=[("ts", "=", DAY)]) == [{"id": 2}]
    assert found(path, "id", filters=[("ts", ">=", DAY)]) == [{"id": 2}, {"id": 2}]
    assert count_by_hudi_rs(path) == 4


TEXTS = {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd HH", "output.dateformat": "yyyy/MM/dd"}
NUMBERS = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd"}
SCALARS = {**NUMBERS, "timestamp.type": "SCALAR"}
OFFSETS = {**TEXTS, "input.dateformat": "yyyy-MM-dd HHZ"}
TOKYO = "Asia/Tokyo"


@pytest.mark.parametrize("prefix", [TIME, "hoodie.deltastreamer.keygen.timebased."])
@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        (NUMBERS, {"timezone": TOKYO}, r"timezone = 'Asia/Tokyo': in the table it is 'UTC', by .*output\.timezone"),
        ({**NUMBERS, "output.timezone": "UTC"}, {"timezone": TOKYO}, "'Asia/Tokyo': in the table it is 'UTC'"),
        ({**NUMBERS, "timezone": "UTC"}, {"output.timezone": TOKYO}, "'Asia/Tokyo': in the table it is 'UTC'"),
        ({**NUMBERS, "timezone": "UTC"}, {"timezone": TOKYO}, "'Asia/Tokyo': the table has 'UTC'"),
        (NUMBERS, {"timezone": "UTC", "output.timezone": TOKYO}, "differ"),
        (NUMBERS, {"output.dateformat": "yyyy"}, "'yyyy': the table has 'yyyy/MM/dd'"),
        (NUMBERS, {"timestamp.type": "EPOCHMILLISECONDS"}, "'EPOCHMILLISECONDS': the table has 'UNIX_TIMESTAMP'"),
        (SCALARS, {"timestamp.scalar.time.unit": "DAYS"}, "'DAYS': the table has 'SECONDS'"),
        (TEXTS, {"timezone": TOKYO}, "'Asia/Tokyo': in the table it is 'UTC'"),
        (TEXTS, {"output.timezone": TOKYO}, "'Asia/Tokyo': in the table it is 'UTC'"),
        (TEXTS, {"input.timezone": TOKYO}, "'Asia/Tokyo': the table has 'UTC'"),
        (OFFSETS, {"input.timezone": TOKYO}, "'Asia/Tokyo': in the table it is the one that texts say"),
        (OFFSETS, {"output.timezone": TOKYO}, "'Asia/Tokyo': in the table it is the one that texts say"),
        (TEXTS, {"input.dateformat.list.delimiter.regex": "-"}, "'-': in the table it is ','"),
    ],
)
def test_a_writer_that_would_make_other_folders_of_times_is_refused(
    tmp_path: Path, prefix: str, made: dict[str, str], given: dict[str, str], message: str
) -> None:
    path = make(
        tmp_path / "t", record_key_fields="id", partition_fields="ts", key_generator="TIMESTAMP",
        properties={f"{TIME}{name}": value for name, value in made.items()},
    )  # fmt: skip
    with pytest.raises(HoodieConfigException, match=message):
        local_client(path, **{f"{prefix}{name}": value for name, value in given.items()}).start_commit()


def test_a_unit_that_a_table_does_not_store_is_that_of_seconds(tmp_path: Path) -> None:
    made = {f"{TIME}{name}": value for name, value in SCALARS.items()}
    path = make(
        tmp_path / "t", record_key_fields="id", partition_fields="ts", key_generator="TIMESTAMP", properties=made
    )
    meta_client = HoodieTableMetaClient.load(path)
    unit = f"{TIME}timestamp.scalar.time.unit"
    meta_client.table_config.update(meta_client.storage, path, {}, [unit])
    assert unit not in HoodieTableMetaClient.load(path).table_config.properties
    local_client(path, **{unit: "SECONDS"}).start_commit()
    with pytest.raises(HoodieConfigException, match="'DAYS': in the table it is 'SECONDS', the default"):
        local_client(path, **{unit: "DAYS"}).start_commit()


@pytest.mark.parametrize(
    "given", [{"timezone": "GMT"}, {"output.timezone": "Etc/UTC"}, {"input.timezone": TOKYO}, NUMBERS]
)
def test_a_writer_that_says_the_same_in_other_words_writes_the_same_folders(
    tmp_path: Path, given: dict[str, str]
) -> None:
    path = make(
        tmp_path / "t", record_key_fields="id", partition_fields="ts", key_generator="TIMESTAMP", properties=UNIX
    )
    for properties in ({}, {f"{TIME}{name}": value for name, value in given.items()}):
        with local_client(path, **properties) as c:
            c.upsert([{"id": 1, "ts": DAY - 1}])
    assert found(path, "_hoodie_partition_path") == [{"_hoodie_partition_path": "1970/01/01"}]


def test_one_key_and_several_partition_fields_make_a_table(tmp_path: Path, table_version: int) -> None:
    path = make(tmp_path / "t", record_key_fields="id", partition_fields=["a", "b"])
    with local_client(path) as c:
        c.upsert([{"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x", "b": None}])
        c.upsert([{"id": 1, "a": "x", "b": 1}])
    assert [tuple(row.values()) for row in found(path, "_hoodie_record_key", "_hoodie_partition_path")] == [
        ("1", "x/1"),
        ("2", "x/__HIVE_DEFAULT_PARTITION__"),
    ]
    assert found(path, "id", filters=[("b", "=", 1)]) == [{"id": 1}]
    assert count_typed_by_hudi_rs(path, table_version) == 2
    with pytest.raises(HoodieConfigException, match="the table has 'a:SIMPLE,b:SIMPLE'"):
        local_client(path, hoodie__datasource__write__partitionpath__field="a:SIMPLE,b:TIMESTAMP").start_commit()


@pytest.mark.table_version(9)
def test_one_complex_key_field_has_its_name_in_keys_and_hudi_rs_reads_along(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t", record_key_fields="id", partition_fields=["a", "b"], key_generator="ComplexKeyGenerator"
    )
    with local_client(path) as c:
        c.upsert([{"id": 1, "a": "x", "b": 1}, {"id": 2, "a": "x", "b": 2}])
        assert c.upsert([{"id": 1, "a": "x", "b": 1}]).updated_count == 1
    assert [tuple(row.values()) for row in found(path, "_hoodie_record_key", "_hoodie_partition_path")] == [
        ("id:1", "x/1"),
        ("id:2", "x/2"),
    ]
    assert found(path, "id", filters=[("b", "=", 2)]) == [{"id": 2}]
    batches = HudiTableBuilder.from_base_uri(path).build().read()
    assert sum(batch.num_rows for batch in batches) == 2


def complex_table_of_one_key(tmp_path: Path) -> str:
    """As older Hudi made them; `init_table` refuses it."""
    path = make(tmp_path / "t", record_key_fields=["id", "a"], partition_fields="a")
    meta_client = HoodieTableMetaClient.load(path)
    meta_client.table_config.update(meta_client.storage, path, {"hoodie.table.recordkey.fields": "id"})
    return path


@pytest.mark.parametrize(
    ("table_version", "new_encoding", "keys"),
    [(6, "true", {"1", "2"}), (6, "false", {"id:1", "id:2"}), (8, "true", {"1", "2"}), (9, "true", {"id:1", "id:2"})],
    indirect=["table_version"],
)
def test_one_complex_key_field_goes_on_as_it_began(tmp_path: Path, new_encoding: str, keys: set[str]) -> None:
    path = complex_table_of_one_key(tmp_path)
    with local_client(path, hoodie__write__complex__keygen__new__encoding=new_encoding) as c:
        c.upsert([{"id": 1, "a": "x"}])
    with local_client(path) as c:
        c.upsert([{"id": 1, "a": "x"}, {"id": 2, "a": "x"}])
    assert {row["_hoodie_record_key"] for row in found(path, "_hoodie_record_key")} == keys
    assert len(found(path, "id")) == 2
    with local_client(path, index_type="GLOBAL_SIMPLE") as c:
        if "1" in keys:
            c.delete(["id:1"])
        else:
            with pytest.raises(HoodieKeyException, match=r"'1' is no .*: its keys are 'id:value', such as 'id:1'"):
                c.delete(["1"])
        assert len(found(path, "id")) == 2
        c.delete([min(keys), f"{min(keys)}0"])
    assert found(path, "id") == [{"id": 2}]


@pytest.mark.table_version(6)
def test_the_form_of_keys_is_read_from_rows_where_the_footer_does_not_tell(tmp_path: Path) -> None:
    path = complex_table_of_one_key(tmp_path)
    with local_client(path, hoodie__write__complex__keygen__new__encoding="true") as c:
        c.upsert([{"id": 1, "a": "x"}])
    (file,) = (tmp_path / "t" / "x").glob("*.parquet")
    pq.write_table(pq.ParquetFile(file).read().replace_schema_metadata(None), file)
    with local_client(path) as c:
        c.upsert([{"id": 1, "a": "x"}])
    assert found(path, "_hoodie_record_key") == [{"_hoodie_record_key": "1"}]


def test_typed_partition_fields_are_written_without_saying_them_again(tmp_path: Path, table_version: int) -> None:
    path = str(tmp_path / "t")
    data = [{"id": 1, "kind": "x", "ts": DAY}]
    properties = UNIX | {"hoodie.datasource.write.partitionpath.field": "kind:SIMPLE,ts:TIMESTAMP"}
    hoodie.write_table(data, path, record_key_fields="id", properties=properties)
    hoodie.write_table(data, path)
    assert found(path, "id", "_hoodie_partition_path") == [{"id": 1, "_hoodie_partition_path": "x/1970/01/02"}]
    assert count_typed_by_hudi_rs(path, table_version) == 1


@pytest.mark.without_metadata_table("a folder is copied that a metadata table does not list")
def test_a_class_of_the_user_that_is_named_as_one_of_hudi_does_not_prune(tmp_path: Path) -> None:
    path = make(tmp_path / "t", record_key_fields="id", partition_fields="p")
    with local_client(path) as c:
        c.upsert([{"id": 1, "p": "x"}])
    meta_client = HoodieTableMetaClient.load(path)
    meta_client.table_config.update(
        meta_client.storage, path, {"hoodie.table.keygenerator.class": "my.SimpleKeyGenerator"}
    )
    # Rows of x in a folder of another name are read too: what the folders of such a class mean is not known.
    shutil.copytree(tmp_path / "t" / "x", tmp_path / "t" / "elsewhere")
    assert found(path, "id", filters=[("p", "=", "x")]) == [{"id": 1}, {"id": 1}]


def test_timestamps_in_keys_as_text_when_every_writer_says_so(tmp_path: Path) -> None:
    path = make(tmp_path / "t", record_key_fields="at")
    name = "hoodie__datasource__write__keygenerator__consistent__logical__timestamp__enabled"
    rows = pa.table({"at": pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")), "v": [1]})
    with local_client(path, **{name: "true"}) as c:
        c.upsert(rows)
        c.upsert(rows)
    assert found(path, "_hoodie_record_key") == [{"_hoodie_record_key": "2023-11-14 22:13:20.123"}]


@pytest.mark.parametrize("made", ["true", "false"])
@pytest.mark.parametrize("fields", [{"record_key_fields": "at"}, {"record_key_fields": ["v", "at"]}, {"folder": "at"}])
def test_a_writer_that_would_make_the_other_form_of_timestamps_is_refused(
    tmp_path: Path, made: str, fields: dict[str, Any]
) -> None:
    in_folders = {"properties": {"hoodie.datasource.write.partitionpath.urlencode": "true"}, "record_key_fields": "v"}
    path = make(tmp_path / "t", **({**in_folders, "partition_fields": "at"} if "folder" in fields else fields))
    name = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
    rows = pa.table({"at": pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")), "v": [1]})
    with local_client(path, **{name.replace(".", "__"): made}) as c:
        c.upsert(rows)
    other = "false" if made == "true" else "true"
    with local_client(path, **{name.replace(".", "__"): other}) as c:
        for write in (c.upsert, c.insert, c.delete):
            with pytest.raises(HoodieKeyException, match=f"a second time; nothing was written. Set {name}={made}"):
                write(rows)
    with local_client(path, **{name.replace(".", "__"): made}) as c:
        c.upsert(rows)
    assert len(found(path, "v")) == 1


@pytest.mark.without_metadata_table("it looks which folders are listed")
def test_a_writer_of_timestamps_in_keys_lists_no_partitions_that_it_does_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "t", record_key_fields="at", partition_fields="p")
    at = pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    days = [f"day {number}" for number in range(5)]
    listed: set[str] = set()

    def note(name: str, folder: str) -> None:
        if name in ("list", "walk"):
            listed.add(Path(folder).name)

    with hooked(monkeypatch, note), local_client(path) as c:
        for day in days:
            c.upsert(pa.table({"at": at, "p": [day], "v": [1]}))
        listed.clear()
        c.upsert(pa.table({"at": at, "p": [days[-1]], "v": [2]}))
    assert listed & {*days, "t"} == {days[-1]}
    assert [row["v"] for row in found(path, "p", "v")] == [1, 1, 1, 1, 2]


# ---------------------------------------------------------------------------------------------------------------- NaN

NAN = float("nan")
GENERATORS = {
    "simple": {"record_key_fields": "x", "partition_fields": "p"},
    "complex": {"record_key_fields": ["id", "x"], "partition_fields": "p"},
    "nonpartitioned": {"record_key_fields": "x"},
    "timestamp": {"record_key_fields": "x", "partition_fields": "at", "properties": UNIX,
                  "key_generator": "TimestampBasedKeyGenerator"},
    "custom": {"record_key_fields": "x", "partition_fields": "p:SIMPLE,at:TIMESTAMP", "properties": UNIX},
}  # fmt: skip


def numbers(*values: float | None) -> pa.Table:
    count = len(values)
    columns = {
        "id": list("abcdef")[:count],
        "p": ["p"] * count,
        "at": [DAY] * count,
        "x": pa.array(values, pa.float64()),
    }
    return pa.table(columns)


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"])
def test_nan_as_a_record_key_is_refused_as_null_is(tmp_path: Path, kind: str, operation: str) -> None:
    path = make(tmp_path / "t", **GENERATORS[kind])
    with local_client(path) as c:
        c.upsert(numbers(1.5, 2.5))
        with pytest.raises(HoodieKeyException, match="2 of the records to .* NaN") as caught:
            getattr(c, operation)(numbers(1.5, NAN, 3.5, NAN))
    if operation != "delete":
        assert "column 'x' is NaN in 2 records, first: {" in str(caught.value)
    assert [row["x"] for row in found(path, "x")] == [1.5, 2.5]


def test_nan_in_partition_fields_is_a_folder_and_loses_no_row(tmp_path: Path) -> None:
    path = make(tmp_path / "t", record_key_fields="id", partition_fields="x")
    with local_client(path) as c:
        c.upsert(numbers(NAN, NAN, 1.5, None))
        c.upsert(numbers(NAN))
        assert {(row["id"], row["_hoodie_partition_path"]) for row in found(path, "id", "_hoodie_partition_path")} == {
            ("a", "NaN"), ("b", "NaN"), ("c", "1.5"), ("d", "__HIVE_DEFAULT_PARTITION__")
        }  # fmt: skip
        c.delete(numbers(NAN))
    assert [row["id"] for row in found(path, "id")] == ["b", "c", "d"]


def test_nan_of_pandas_is_null(tmp_path: Path) -> None:
    path = make(tmp_path / "t", **GENERATORS["complex"])
    with local_client(path) as c:
        c.upsert(numbers(1.5, NAN).to_pandas())
    assert [row["_hoodie_record_key"] for row in found(path, "_hoodie_record_key")] == ["id:a,x:1.5", "id:b,x:__null__"]


def test_a_stored_key_that_says_nan_can_be_deleted(tmp_path: Path) -> None:
    path = make(tmp_path / "t", record_key_fields="id")
    with local_client(path) as c:
        c.upsert(pa.table({"id": ["NaN", "b"]}))
        c.delete([HoodieKey("NaN", "")])
    assert found(path, "id") == [{"id": "b"}]


# ---------------------------------------------------------------------------------------------------------- long keys


def test_keys_of_more_than_64_kilobytes_are_refused_by_name(tmp_path: Path) -> None:
    path = make(tmp_path / "t", record_key_fields="id")
    longest = "k" * 65_536
    with local_client(path) as c:
        c.upsert(pa.table({"id": [longest, "b"]}))
        for keys in ([longest + "1", "c"], ["c", "\u00e9" * 32_769], [longest + "1", longest + "2", "c"]):
            for write in (c.upsert, c.insert, c.bulk_insert, c.insert_overwrite):
                with pytest.raises(HoodieKeyException) as caught:
                    write(pa.table({"id": keys}))
                text = str(caught.value)
                assert f"{len(keys) - 1} record" in text
                assert "of more than 65536 bytes" in text
                assert "raise hoodie.write.record.key.max.bytes" in text
                assert len(text) < 1_000
        with pytest.raises(HoodieKeyException, match="of more than 65536 bytes, the first of 65537"):
            c.upsert([HoodieRecord(HoodieKey(longest + "1", ""), {"id": "x"})])
    assert {row["id"] for row in found(path, "id")} == {longest, "b"}


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "INMEMORY"])
@pytest.mark.one_in(4)
def test_longer_keys_are_written_and_deleted_where_that_is_wanted(tmp_path: Path, index: str) -> None:
    path = make(tmp_path / "t", record_key_fields="id")
    keys = ["a" * 200_000, "b", "a" * 199_999 + "z"]
    with local_client(path, hoodie__write__record__key__max__bytes="200000", hoodie__index__type=index) as c:
        c.upsert(pa.table({"id": keys, "v": [1, 2, 3]}))
        c.upsert(pa.table({"id": keys[:2], "v": [4, 5]}))
        assert [(row["id"], row["v"]) for row in found(path, "id", "v")] == [(keys[0], 4), (keys[2], 3), (keys[1], 5)]
    with local_client(path, hoodie__index__type=index) as c:
        c.delete(pa.table({"id": keys[:1]}))
    assert [row["id"] for row in found(path, "id")] == [keys[2], keys[1]]
