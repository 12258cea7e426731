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
from tests.interop.hudi_process import HudiProcess, find_bundle, find_python

pytestmark = pytest.mark.interop

_OF_THE_METASTORE = {"numFiles", "totalSize", "transient_lastDdlTime", "numFilesErasureCoded"}
_BEYOND_HUDI = {"primaryKey", "preCombineField", "type"}
_OF_HUDI = {"hudi_writer_version"}
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


def state(client: HiveMetastoreClient, database: str) -> dict[str, Any]:
    """All that entries of a database and their partitions say, but for what must differ."""
    left_out = _OF_THE_METASTORE | _BEYOND_HUDI | _OF_HUDI
    found: dict[str, Any] = {}
    for name in client.tables(database):
        entry = client.table(database, name)
        assert entry is not None
        found[f"{name}: columns"] = [(column.name, column.type, column.comment) for column in entry.columns]
        found[f"{name}: partition keys"] = [(column.name, column.type) for column in entry.partition_keys]
        found[f"{name}: formats"] = (entry.input_format, entry.output_format, entry.serde, entry.kind, entry.location)
        for key, value in entry.serde_parameters.items():
            found[f"{name}: serde {key}"] = value
        for key, value in entry.parameters.items():
            if key not in left_out:
                # Release 0.15 says of every array that its elements are never null.
                found[f"{name}: {key}"] = value.replace('"containsNull":false', '"containsNull":true')
        for partition in client.partitions(entry) if entry.partition_keys else ():
            found[f"{name}: partition {partition.values}"] = partition.location
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
            assert not checked.has_differences, str(checked)


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
    tmp_path: Path, hudi_1_2: HudiProcess, hive_metastore: HiveMetastore, database: str,
    fields: tuple[str, ...], options: dict[str, Any], given: dict[str, str], extractor: str,
) -> None:  # fmt: skip
    path, uri = tmp_path / "trips", hive_metastore.uri
    data = rows(given.get("day", "monday"), "tuesday" if not given else given["day"])
    hoodie.Table.create(
        path, data, record_key_fields="id", partition_fields=fields, ordering_fields="ts", table_name="trips",
        properties=options, table_version=6,
    )  # fmt: skip
    hudi = hudi_1_2.for_tables_of(6)
    name = f"org.apache.hudi.hive.{extractor}"
    ours, theirs = f"{database}_ours", f"{database}_theirs"
    explicit = {"partition_extractor_class": name} if extractor.startswith("SlashEncoded") else {}
    with HiveMetastoreClient(uri) as client:
        synced(path, uri, ours, **explicit)
        by_hudi(hudi, path, uri, theirs, partition_fields=",".join(fields), partition_extractor_class=name)
        assert differences(client, ours, theirs) == {}
        if fields:
            assert any(key.startswith("trips: partition (") for key in state(client, ours))


def spark_sql(folder: Path, version: str, uri: str, statements: list[str]) -> list[Any]:
    """Run SQL in a session of PySpark 3.5 with Hudi's bundle and the metastore; the rows of each statement."""
    done = subprocess.run(
        [str(find_python()), str(Path(__file__).with_name("spark_by_name.py")), str(find_bundle(version)), uri],
        input=json.dumps(statements), capture_output=True, text=True, cwd=folder, timeout=280,
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
    except Exception as error:
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
    name = f"{database}.cow"
    answers = spark_sql(
        tmp_path, release, uri,
        [
            "set hoodie.write.auto.upgrade=false",
            f"set hoodie.write.table.version={version}",
            *(select.format(f"{database}.{each}") for each in names),
            f"select id from {name} where city = 'oslo'",
            f"insert into {name} values ('d', 1, 4.0, 'paris')",
            f"update {name} set fare = 5.0 where id = 'b'",
            f"delete from {name} where id = 'c'",
            f"merge into {name} t using (select 'e' id, 1l ts, 6.0d fare, 'oslo' city) s on t.id = s.id "
            "when matched then update set * when not matched then insert *",
            select.format(name),
        ],
    )  # fmt: skip
    found = dict(zip(names, answers[2:6], strict=True))
    assert found == {"cow": merged, "mor": merged, "mor_rt": merged, "mor_ro": base_files}
    assert answers[6] == [["b"]]
    after = [["a", 9.0, "rome"], ["b", 5.0, "oslo"], ["d", 4.0, "paris"], ["e", 6.0, "oslo"]]
    assert answers[-1] == after
    assert sorted(map(list, zip(*cow.read(["id", "fare", "city"]).to_pydict().values(), strict=True))) == after
    assert cow.upsert(pa.table({"id": ["f"], "ts": [1], "fare": [7.0], "city": ["lima"]})).service_errors == ()
    (checked,) = cow.sync(check=True)
    partitions = [line for line in checked.entries[0].differences if "partition" in line]
    assert partitions == [], str(checked)
    assert spark_sql(tmp_path, release, uri, [f"select id from {name} where city = 'lima'"])[-1] == [["f"]]
