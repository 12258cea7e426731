"""A real Hive Metastore: the client's calls, the metastore in memory that unit tests use, and what real Hudi stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieSyncException
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable
from hoodie.sync.hms_client import HiveMetastoreClient
from tests.interop.hive_metastore import HiveMetastore
from tests.interop.hudi_process import HudiProcess
from tests.support.fake_metastore import FakeMetastore
from tests.support.table_builder import SCHEMA, rows

pytestmark = pytest.mark.interop

ODD_VALUES = (
    "a:b",
    "it's",
    'a "b" c',
    "100%",
    "%3A",
    "a/b=c",
    "Größe",
    "日本",
    "x\ty",
    "[1]{2}^",
    "a b",
    "a\\b",
    "#*?",
)
TYPES = (
    "int", "bigint", "smallint", "float", "double", "decimal(10,2)", "decimal(12,2)", "string", "boolean", "date",
    "timestamp", "binary", "array<int>", "array<bigint>", "struct<a:int>", "struct<a:int,b:int>", "map<string,int>",
)  # fmt: skip
OUR_OWN = {"numFiles", "totalSize", "transient_lastDdlTime"}
"""Parameters that the metastore writes."""


@pytest.fixture
def database(hive_metastore: HiveMetastore, request: pytest.FixtureRequest) -> str:
    """A database of the test in the real metastore."""
    name = re.sub(r"\W+", "_", request.node.name).lower()
    with HiveMetastoreClient(hive_metastore.uri) as client:
        client.create_database(name)
    return name


@pytest.fixture
def client(hive_metastore: HiveMetastore) -> Iterator[HiveMetastoreClient]:
    """A client of the real metastore, which sends three partitions in a request."""
    with HiveMetastoreClient(hive_metastore.uri, batch_num=3) as opened:
        yield opened


class _Story:
    """Calls on a client, and what came of them."""

    def __init__(self, client: HiveMetastoreClient, database: str, folder: Path) -> None:
        self.client = client
        self.database = database
        self.folder = folder
        self.told: list[Any] = []

    def table(self, name: str, *columns: str, keys: tuple[str, ...] = ()) -> CatalogTable:
        """An entry, not created."""
        return CatalogTable(
            database=self.database, name=name,
            columns=tuple(CatalogColumn(f"c{number}", kind) for number, kind in enumerate(columns or ("int",))),
            partition_keys=tuple(CatalogColumn(key, "string") for key in keys), location=str(self.folder / name),
            input_format="org.apache.hudi.hadoop.HoodieParquetInputFormat",
            output_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
            serde_parameters={"serialization.format": "1"}, parameters={"EXTERNAL": "TRUE"},
        )  # fmt: skip

    def tell(self, call: Callable[[], Any]) -> None:
        """Note the answer to a call, or the class of its error."""
        try:
            answer = call()
        except HoodieSyncException as error:
            answer = type(error).__name__
        self.told.append(self._plain(answer))

    def entry(self, name: str) -> CatalogTable:
        found = self.client.table(self.database, name)
        assert found is not None
        return found

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return sorted(map(self._plain, value), key=str)
        if isinstance(value, CatalogPartition):
            return value.values, value.location.replace(str(self.folder), "/")
        if isinstance(value, CatalogTable):
            kept = {key: text for key, text in value.parameters.items() if key not in OUR_OWN}
            location = value.location.replace(str(self.folder), "/")
            return attrs.evolve(value, parameters=kept, location=location, database="", stored=None)
        return value


def _tell_all(story: _Story) -> None:
    client, database, tell = story.client, story.database, story.tell
    tell(lambda: client.has_database("nowhere"))
    tell(lambda: client.has_database(database.upper()))
    tell(lambda: client.create_database(database))
    tell(lambda: client.create_database("no name"))
    tell(lambda: client.table("nowhere", "t"))
    tell(lambda: client.table(database, "t"))
    tell(lambda: client.drop_table(database, "t"))
    new = story.table("t", "int", "string", keys=("p", "q"))
    tell(lambda: client.create_table(attrs.evolve(new, database="nowhere")))
    tell(lambda: client.create_table(attrs.evolve(new, name="no-name")))
    tell(lambda: client.create_table(new))
    tell(lambda: client.create_table(new))
    tell(lambda: client.create_table(attrs.evolve(new, name="UPPER", columns=(CatalogColumn("Big", "int"),))))
    tell(lambda: client.tables(database))
    tell(lambda: client.table(database, "Upper"))
    tell(lambda: story.entry("t"))
    _tell_of_partitions(story)
    found = story.entry("t")
    kept = client.partitions(found)
    changed = attrs.evolve(
        found, columns=(CatalogColumn("c0", "bigint", "wide"), *found.columns[1:], CatalogColumn("New", "date")),
        partition_keys=(CatalogColumn("p", "string", "a key"), found.partition_keys[1]),
        parameters={**found.parameters, "a": "b"}, serde_parameters={"path": "/x y"}, input_format="in",
    )  # fmt: skip
    tell(lambda: client.replace_table(changed, cascades=True))
    tell(lambda: story.entry("t"))
    tell(lambda: [[field.type for field in one.stored.sd.cols] for one in client.partitions(found)[:1]])
    tell(lambda: client.replace_table(attrs.evolve(found, partition_keys=found.partition_keys[:1])))
    tell(lambda: client.replace_table(attrs.evolve(found, location=f"{story.folder}/elsewhere")))
    tell(lambda: story.entry("t"))
    tell(lambda: client.recreate_table(new))
    tell(lambda: client.tables(database))
    tell(lambda: client.partition_values(found))
    tell(lambda: client.drop_table(database, "t"))
    tell(lambda: client.replace_table(found))
    tell(lambda: client.partition_values(found))
    tell(lambda: client.partitions(found, [("1", "2")]))
    tell(lambda: client.add_partitions(found, [CatalogPartition(("1", "2"), f"{story.folder}/t/1")]))
    tell(lambda: client.set_locations(found, kept))
    tell(lambda: client.drop_partitions(found, [("1", "2")]))
    tell(lambda: client.tables(database))


def _tell_of_partitions(story: _Story) -> None:
    client, tell, found = story.client, story.tell, story.entry("t")
    parts = [CatalogPartition((value, "1"), f"{story.folder}/t/{n}") for n, value in enumerate(ODD_VALUES)]
    tell(lambda: client.add_partitions(found, parts))
    tell(lambda: client.add_partitions(found, [attrs.evolve(one, location="/nowhere") for one in parts[:1]]))
    tell(lambda: client.add_partitions(found, [CatalogPartition(("x",), f"{story.folder}/x")]))
    tell(lambda: client.partition_values(found))
    tell(lambda: client.partitions(found))
    tell(lambda: client.partitions(found, [("a:b", "1"), ("none", "1")]))
    known = client.partitions(found, [("it's", "1"), ("100%", "1")])
    moved = [attrs.evolve(one, location=f"{story.folder}/moved/{n}") for n, one in enumerate(known)]
    tell(lambda: client.set_locations(found, moved))
    tell(lambda: client.partitions(found, [one.values for one in known]))
    tell(lambda: client.touch_partitions(found, known))
    gone = client.partitions(found, [("a:b", "1")])
    tell(lambda: client.drop_partitions(found, [("a:b", "1"), ("none", "1")]))
    tell(lambda: client.touch_partitions(found, gone))
    tell(lambda: client.partition_values(found))


def test_the_metastore_in_memory_answers_as_the_real_one(
    client: HiveMetastoreClient, database: str, tmp_path: Path
) -> None:
    real = _Story(client, database, tmp_path / "real")
    _tell_all(real)
    with FakeMetastore() as metastore, HiveMetastoreClient(metastore.uri, batch_num=3) as other:
        other.create_database(database)
        fake = _Story(other, database, tmp_path / "fake")
        _tell_all(fake)
    assert fake.told == real.told
    folders = [{path.name for path in (tmp_path / name / "t").iterdir()} for name in ("real", "fake")]
    assert folders == [{str(number) for number in range(len(ODD_VALUES))}] * 2


def test_the_metastore_in_memory_refuses_the_same_types(
    client: HiveMetastoreClient, database: str, tmp_path: Path
) -> None:
    def refused(story: _Story) -> list[tuple[str, str]]:
        found = []
        for old in TYPES:
            story.client.create_table(story.table("types", *(old for _ in TYPES)))
            for place, new in enumerate(TYPES):
                entry = story.entry("types")
                columns = (*entry.columns[:place], CatalogColumn(f"c{place}", new), *entry.columns[place + 1 :])
                try:
                    story.client.replace_table(attrs.evolve(entry, columns=columns))
                except HoodieSyncException as error:
                    assert "recreate_table_on_error" in str(error)
                    found.append((old, new))
            story.client.drop_table(story.database, "types")
        return found

    real = refused(_Story(client, database, tmp_path / "real"))
    with FakeMetastore() as metastore, HiveMetastoreClient(metastore.uri) as other:
        other.create_database(database)
        assert refused(_Story(other, database, tmp_path / "fake")) == real
    assert ("bigint", "int") in real
    assert ("int", "bigint") not in real


def test_touched_partitions_have_a_new_time(client: HiveMetastoreClient, database: str, tmp_path: Path) -> None:
    story = _Story(client, database, tmp_path)
    client.create_table(story.table("t", keys=("p",)))
    entry = story.entry("t")
    client.add_partitions(entry, [CatalogPartition(("1",), f"{tmp_path}/t/1")])
    (known,) = client.partitions(entry)
    known.stored.parameters["transient_lastDdlTime"] = "5"
    client.set_locations(entry, [known])
    (touched,) = client.partitions(entry)
    assert int(touched.stored.parameters["transient_lastDdlTime"]) > 5


@pytest.mark.table_versions(6, 8, 9)
def test_hudi_stores_the_newest_times_of_commits(
    client: HiveMetastoreClient, database: str, hive_metastore: HiveMetastore, hudi_1_2: HudiProcess,
    table_version: int, tmp_path: Path,
) -> None:  # fmt: skip
    """Of the completed commits; a savepoint or a rollback that completes later does not count."""
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    options = {"hoodie.datasource.hive_sync.database": database, "hoodie.datasource.hive_sync.table": "t"}

    def stored() -> tuple[str, str]:
        hudi_1_2.hive_sync(path, hive_metastore.uri, options)
        entry = client.table(database, "t")
        assert entry is not None
        return entry.parameters["last_commit_time_sync"], entry.parameters["last_commit_completion_time_sync"]

    def completions() -> list[tuple[str, str]]:
        if table_version == 6:
            return sorted((file.name[:17], _utc(file)) for file in (path / ".hoodie").glob("*.commit"))
        files = (path / ".hoodie" / "timeline").glob("*_*.commit")
        return sorted((file.name[:17], file.name[18:35]) for file in files)

    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {})) as writer:
        for ts in range(3):
            writer.upsert(rows(("a", "x", ts), schema=SCHEMA))
        assert stored() == completions()[-1]
        writer.savepoint(completions()[0][0])
        assert stored() == completions()[-1]
        writer.rollback(completions()[-1][0])
        assert len(completions()) == 2
        assert stored() == completions()[-1]
    if table_version > 6:
        first, newest = completions()
        late = f"{int(newest[1]) + 5}"
        file = path / ".hoodie" / "timeline" / f"{first[0]}_{first[1]}.commit"
        file.rename(file.with_name(f"{first[0]}_{late}.commit"))
        assert stored() == (newest[0], late)


def _utc(file: Path) -> str:
    moment = pa.scalar(file.stat().st_mtime_ns, pa.timestamp("ns")).as_py()
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
