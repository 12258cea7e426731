"""Entries of tables in a real Hive Metastore: those of hoodie beside those of Hudi's own tool, and Spark by name."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.sync.hms_client import HiveMetastoreClient
from tests.interop.hive_metastore import HiveMetastore
from tests.interop.hudi_process import HudiNotFoundError, HudiProcess, find_bundle, find_python

pytestmark = pytest.mark.interop

_OF_THE_METASTORE = {"numFiles", "totalSize", "transient_lastDdlTime", "numFilesErasureCoded"}
_BEYOND_HUDI = {"primaryKey", "preCombineField", "type"}
_OF_HUDI = {"hudi_writer_version"}
_LEFT_OUT = _OF_THE_METASTORE | _BEYOND_HUDI | _OF_HUDI
_NOT_COMPARED = {"dbName", "catName", "createTime", "lastAccessTime"}
_PREFIX = "hoodie.datasource.hive_sync."
_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"


def rows(*days: str, extra: bool = False, ordering: int = 1) -> pa.Table:
    count = len(days)
    table = pa.table(
        {
            "id": [f"{day}-{number}" for number, day in enumerate(days)],
            "day": list(days),
            "ts": pa.array([ordering] * count, pa.int64()),
            "count": pa.array([7] * count, pa.int64() if extra else pa.int32()),
            "at": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "price": pa.array([None] * count, pa.decimal128(10, 2)),
            "tags": pa.array([["x"]] * count, pa.list_(pa.string())),
            "place": pa.array([{"x": 1, "y": 2.0}] * count, pa.struct([("x", pa.int32()), ("y", pa.float64())])),
        }
    )
    return table.append_column("fare", pa.array([1.5] * count)) if extra else table


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "_", request.node.name).lower()


def synced(path: Path, uri: str, database: str, **options: Any) -> None:
    given = {"database": database, "metastore.uris": uri, "support_timestamp": False, **options}
    hoodie.sync_table(path, "hms", properties={_PREFIX + key: value for key, value in given.items()})


def by_hudi(hudi: HudiProcess, path: Path, uri: str, database: str, **options: str) -> None:
    given = {"database": database, "table": "trips", **options}
    hudi.hive_sync(path, uri, {_PREFIX + key: value for key, value in given.items()})


def plain(struct: Any) -> Any:
    """A struct of the metastore as a dictionary, without what must differ."""
    if isinstance(struct, list):
        return [plain(one) for one in struct]
    if isinstance(struct, dict):
        # Release 0.15 says of every array that its elements are never null.
        return {
            key: value.replace('"containsNull":false', '"containsNull":true')
            for key, value in struct.items() if key not in _LEFT_OUT
        }  # fmt: skip
    if not hasattr(struct, "thrift_spec"):
        return struct
    return {key: plain(value) for key, value in vars(struct).items() if key not in _NOT_COMPARED}


def state(client: HiveMetastoreClient, database: str) -> dict[str, Any]:
    """All that entries of a database and their partitions say, but for what must differ."""
    found: dict[str, Any] = {}
    for name in client.tables(database):
        entry = client.table(database, name)
        assert entry is not None
        found[f"{name}: columns"] = [(column.name, column.type, column.comment) for column in entry.columns]
        found[f"{name}: partition keys"] = [(column.name, column.type) for column in entry.partition_keys]
        found[f"{name}: formats"] = (entry.input_format, entry.output_format, entry.serde, entry.kind, entry.location)
        for key, value in entry.serde_parameters.items():
            found[f"{name}: serde {key}"] = value
        for key, value in plain(dict(entry.parameters)).items():
            found[f"{name}: {key}"] = value
        for partition in client.partitions(entry) if entry.partition_keys else ():
            found[f"{name}: partition {partition.values}"] = partition.location
            found[f"{name}: stored partition {partition.values}"] = plain(partition.stored)
        found[f"{name}: stored"] = plain(entry.stored)
    return found


def differences(client: HiveMetastoreClient, one: str, other: str) -> dict[str, Any]:
    """What two databases say differently."""
    ours, theirs = state(client, one), state(client, other)
    assert ours
    return {key: (ours.get(key), theirs.get(key)) for key in ours | theirs if ours.get(key) != theirs.get(key)}


@pytest.mark.interop_smoke
@pytest.mark.with_version_8
@pytest.mark.with_merge_on_read
def test_each_continues_where_the_other_stopped(
    tmp_path: Path, hudi: HudiProcess, hive_metastore: HiveMetastore, database: str, table_version: int, table_type: str
) -> None:
    path, uri = tmp_path / "trips", hive_metastore.uri
    fields = {"record_key_fields": "id", "partition_fields": "day", "ordering_fields": "ts", "table_name": "trips"}
    table = hoodie.Table.create(path, rows("a", "b"), table_version=table_version, table_type=table_type, **fields)
    partitioned = {
        "partition_fields": "day",
        "partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    }
    ours, theirs = f"{database}_ours", f"{database}_theirs"
    with HiveMetastoreClient(uri) as client:
        synced(path, uri, ours)
        by_hudi(hudi, path, uri, theirs, **partitioned)
        assert differences(client, ours, theirs) == {}
        table.upsert(rows("c", ordering=2))
        table.delete_partitions(["a"])
        synced(path, uri, theirs)
        by_hudi(hudi, path, uri, ours, **partitioned)
        assert differences(client, ours, theirs) == {}
        assert [key for key in state(client, ours) if key.startswith("trips: partition (")] == [
            "trips: partition ('b',)", "trips: partition ('c',)",
        ]  # fmt: skip
        table.add_columns({"fare": pa.float64()})
        table.upsert(rows("d", extra=True, ordering=3))
        synced(path, uri, ours)
        by_hudi(hudi, path, uri, theirs, **partitioned)
        assert differences(client, ours, theirs) == {}
        columns = {name: kind for name, kind, _ in state(client, ours)["trips: columns"]}
        assert (columns["fare"], columns["count"]) == ("double", "bigint")
        for name in (ours, theirs):
            (checked,) = hoodie.sync_table(
                path, "hms", check=True,
                properties={
                    _PREFIX + "database": name, _PREFIX + "metastore.uris": uri, _PREFIX + "support_timestamp": False,
                    "hoodie.meta.sync.table.definition.enabled": False,
                },
            )  # fmt: skip
            found = [line for entry in checked.entries for line in entry.differences]
            assert [line for line in found if '"containsNull":false' not in line] == []
            assert not found or hudi.version == "0.15.0"


@pytest.mark.table_versions(6, 9)
@pytest.mark.parametrize(
    ("fields", "options", "given", "extractor"),
    [
        ((), {}, {}, "NonPartitionedExtractor"),
        (("day", "id"), {}, {}, "MultiPartKeysValueExtractor"),
        (("day",), {"hoodie.datasource.write.hive_style_partitioning": True}, {}, "HiveStylePartitionValueExtractor"),
        (("day",), {}, {"day": "2026/11/14"}, "SinglePartPartitionValueExtractor"),
        (("day",), {}, {"day": "2026/11/14"}, "SlashEncodedDayPartitionValueExtractor"),
        (("day",), {_ENCODED: True}, {"day": "a/b c%"}, "MultiPartKeysValueExtractor"),
    ],
    ids=["none", "two", "hive style", "slashes", "day", "encoded"],
)  # fmt: skip
def test_partitions_of_all_kinds(
    tmp_path: Path, table_version: int, hudi_1_2: HudiProcess, hive_metastore: HiveMetastore, database: str,
    fields: tuple[str, ...], options: dict[str, Any], given: dict[str, str], extractor: str,
) -> None:  # fmt: skip
    path, uri = tmp_path / "trips", hive_metastore.uri
    data = rows(given.get("day", "monday"), "tuesday" if not given else given["day"])
    hoodie.Table.create(
        path, data, record_key_fields="id", partition_fields=fields, ordering_fields="ts", table_name="trips",
        properties=options,
    )  # fmt: skip
    name = f"org.apache.hudi.hive.{extractor}"
    ours, theirs = f"{database}_ours", f"{database}_theirs"
    explicit = {"partition_extractor_class": name} if extractor.startswith("SlashEncoded") else {}
    with HiveMetastoreClient(uri) as client:
        synced(path, uri, ours, **explicit)
        by_hudi(hudi_1_2, path, uri, theirs, partition_fields=",".join(fields), partition_extractor_class=name)
        assert differences(client, ours, theirs) == {}
        if fields:
            assert any(key.startswith("trips: partition (") for key in state(client, ours))


TYPED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("b", pa.bool_()),
        ("i", pa.int32()),
        pa.field("required", pa.int32(), nullable=False),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("Upper", pa.string()),
        ("bin", pa.binary()),
        ("fix", pa.binary(4)),
        ("dec", pa.decimal128(10, 2)),
        ("dec38", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("millis", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("list", pa.list_(pa.string())),
        ("map", pa.map_(pa.string(), pa.int64())),
        (
            "place",
            pa.struct(
                [
                    ("X", pa.int32()),
                    ("y", pa.list_(pa.float64())),
                    ("t", pa.timestamp("us", "UTC")),
                    ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
                ]
            ),
        ),
        ("structs", pa.list_(pa.struct([("a", pa.int32()), ("e", pa.decimal128(9, 3))]))),
        *((f"column_{number:03}", pa.string()) for number in range(60)),
    ]
)
"""All types, and so many columns that the schema of Spark needs several parameters."""


@pytest.mark.with_version_8
@pytest.mark.parametrize("as_timestamp", [False, True])
def test_all_types(
    tmp_path: Path, hudi: HudiProcess, hive_metastore: HiveMetastore, database: str, table_version: int,
    as_timestamp: bool,
) -> None:  # fmt: skip
    path, uri = tmp_path / "trips", hive_metastore.uri
    row = {"id": "a", "region": "eu", "ts": 1, "required": 1}
    hoodie.Table.create(
        path, pa.Table.from_pylist([row], TYPED), record_key_fields="id", partition_fields="region",
        ordering_fields="ts", table_name="trips",
    )  # fmt: skip
    ours, theirs = f"{database}_ours", f"{database}_theirs"
    with HiveMetastoreClient(uri) as client:
        synced(path, uri, ours, support_timestamp=as_timestamp)
        by_hudi(
            hudi, path, uri, theirs, partition_fields="region", support_timestamp=str(as_timestamp).lower(),
            partition_extractor_class="org.apache.hudi.hive.MultiPartKeysValueExtractor",
        )  # fmt: skip
        # A piece may end inside of the words that release 0.15 has otherwise.
        pieces = re.compile(r"spark\.sql\.sources\.schema\.(part\.|numParts)")
        found = differences(client, ours, theirs)
        if hudi.version == "0.15.0":
            found = {key: value for key, value in found.items() if not pieces.search(key) and ": stored" not in key}
        assert found == {}
        columns = {name: kind for name, kind, _ in state(client, ours)["trips: columns"]}
        assert columns["at"] == ("timestamp" if as_timestamp else "bigint")
        schemas = []
        for each in (ours, theirs):
            entry = client.table(each, "trips")
            assert entry is not None
            count = int(entry.parameters["spark.sql.sources.schema.numParts"])
            assert count > 1
            text = "".join(entry.parameters[f"spark.sql.sources.schema.part.{number}"] for number in range(count))
            schemas.append(text.replace('"containsNull":false', '"containsNull":true'))
        assert schemas[0] == schemas[1]


def spark_sql(folder: Path, version: str, uri: str, statements: list[str]) -> list[Any]:
    """Run SQL in a session of PySpark 3.5 with Hudi's bundle and the metastore; the rows of each statement."""
    done = subprocess.run(
        [str(find_python()), str(Path(__file__).with_name("spark_by_name.py")), str(find_bundle(version)), uri],
        input=json.dumps(statements), capture_output=True, text=True, cwd=folder, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("release", "version"), [("0.15.0", 6), ("1.2.0", 6), ("1.2.0", 9)])
def test_spark_reads_and_writes_by_name(
    tmp_path: Path, hive_metastore: HiveMetastore, database: str, release: str, version: int
) -> None:
    uri = hive_metastore.uri
    try:
        find_bundle(release)
    except HudiNotFoundError as error:
        pytest.skip(str(error))
    options = {
        _PREFIX + "enable": True, _PREFIX + "mode": "hms", _PREFIX + "metastore.uris": uri,
        _PREFIX + "database": database, "hoodie.compact.inline": False,
    }  # fmt: skip
    data = pa.table({"id": ["a", "b", "c"], "ts": [1, 1, 1], "fare": [1.0, 2.0, 3.0], "city": ["rome", "oslo", "rome"]})
    fields = {"record_key_fields": "id", "partition_fields": "city", "ordering_fields": "ts", "table_version": version}
    cow = hoodie.Table.create(tmp_path / "cow", data, table_name="cow", properties=options, **fields)
    mor = hoodie.Table.create(
        tmp_path / "mor", data, table_name="mor", table_type="MERGE_ON_READ", properties=options, **fields
    )
    newer = pa.table({"id": ["a"], "ts": [2], "fare": [9.0], "city": ["rome"]})
    for table in (cow, mor):
        assert table.upsert(newer).service_errors == ()
    select = "select id, fare, city from {} order by id"
    merged = [["a", 9.0, "rome"], ["b", 2.0, "oslo"], ["c", 3.0, "rome"]]
    base_files = [["a", 1.0, "rome"], *merged[1:]]
    names = ("cow", "mor", "mor_rt", "mor_ro")
    written = {"cow": cow, "mor": mor}
    statements = [
        "set hoodie.write.auto.upgrade=false",
        f"set hoodie.write.table.version={version}",
        *(select.format(f"{database}.{each}") for each in names),
        f"select id from {database}.cow where city = 'oslo'",
    ]
    for name in written:
        target = f"{database}.{name}"
        statements += [
            f"insert into {target} values ('d', 1, 4.0, 'paris')",
            f"update {target} set fare = 5.0 where id = 'b'",
            f"delete from {target} where id = 'c'",
            f"merge into {target} t using (select 'e' id, 1l ts, 6.0d fare, 'oslo' city) s on t.id = s.id "
            "when matched then update set * when not matched then insert *",
            select.format(target),
        ]
    answers = spark_sql(tmp_path, release, uri, statements)
    found = dict(zip(names, answers[2:6], strict=True))
    assert found == {"cow": merged, "mor": merged, "mor_rt": merged, "mor_ro": base_files}
    assert answers[6] == [["b"]]
    after = [["a", 9.0, "rome"], ["b", 5.0, "oslo"], ["d", 4.0, "paris"], ["e", 6.0, "oslo"]]
    assert {"cow": answers[11], "mor": answers[16]} == dict.fromkeys(written, after)
    for table in written.values():
        assert sorted(map(list, zip(*table.read(["id", "fare", "city"]).to_pydict().values(), strict=True))) == after
        assert table.upsert(pa.table({"id": ["f"], "ts": [1], "fare": [7.0], "city": ["lima"]})).service_errors == ()
        (checked,) = table.sync(check=True)
        partitions = [line for entry in checked.entries for line in entry.differences if "partition" in line]
        assert partitions == [], str(checked)
    last = [f"select id from {database}.{each} where city = 'lima'" for each in names]
    assert spark_sql(tmp_path, release, uri, last) == [[["f"]]] * len(names)
