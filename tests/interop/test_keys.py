"""Keys of every key generator: real Hudi and hoodie find each other's records, in tables that either of them made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

TIME = "hoodie.keygen.timebased."
TIMES = {
    f"{TIME}timestamp.type": "UNIX_TIMESTAMP",
    f"{TIME}output.dateformat": "yyyy/MM/dd",
    f"{TIME}output.timezone": "Europe/Berlin",
}
TEXTS = {
    f"{TIME}timestamp.type": "DATE_STRING",
    f"{TIME}input.dateformat": "yyyy-MM-dd'T'HH:mm:ss,yyyy-MM-dd'T'HH:mm:ssZ",
    f"{TIME}output.dateformat": "yyyyMMdd",
    f"{TIME}timezone": "Asia/Kolkata",
}
PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
Row = dict[str, Any]


@attrs.frozen
class Kind:
    """A key generator and its fields."""

    name: str
    generator: str
    keys: str
    partitions: str
    ordering: str = "ordering"
    properties: Mapping[str, str] = attrs.field(factory=dict)
    hive_style: bool = False

    def hudi_options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": "keys",
            "hoodie.datasource.write.recordkey.field": self.keys,
            "hoodie.datasource.write.partitionpath.field": self.partitions,
            "hoodie.datasource.write.precombine.field": self.ordering,
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{self.generator}",
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            **self.properties,
        }

    def writer_options(self) -> dict[str, str]:
        """For hoodie on a table that Hudi made, which does not store all of it."""
        return {"hoodie.datasource.write.partitionpath.field": self.partitions, **self.properties}

    def is_read_by(self, hudi: HudiProcess) -> bool:
        """Whether Hudi's Spark reader takes the table, whoever wrote it.

        All releases fail on times with slashes beside other fields, where they cannot tell the folders of the fields
        apart; 0.15.0 and 1.0.2 on folders of nested fields, whose names they cast to wrong types.
        """
        return self.name != "custom" and (self.name != "nested" or hudi.version == "1.2.0")

    def make(self, base_path: Path) -> None:
        named = self.generator if self.name != "inferred" else None
        HoodieTableMetaClient.init_table(
            str(base_path), table_name="keys", record_key_fields=self.keys.split(","),
            partition_fields=self.partitions.replace(":SIMPLE", "") if named is None else self.partitions,
            ordering_fields=self.ordering, key_generator=named, hive_style_partitioning=self.hive_style,
            properties=dict(self.properties),
        )  # fmt: skip


KINDS = [
    Kind("timestamp", "TimestampBasedKeyGenerator", "id", "at", properties=TIMES),
    Kind("text", "TimestampBasedKeyGenerator", "id", "text", properties=TEXTS, hive_style=True),
    Kind("custom", "CustomKeyGenerator", "id,kind", "kind:SIMPLE,at:TIMESTAMP", properties=TIMES),
    Kind("inferred", "CustomKeyGenerator", "id", "kind:SIMPLE,small:SIMPLE"),
    Kind("nested", "ComplexKeyGenerator", "place.name,id", "place.zone,kind", ordering="place.seen", hive_style=True),
]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("small", pa.int32()),
        ("at", pa.int64()),
        ("text", pa.string()),
        ("place", pa.struct([("name", pa.string()), ("zone", pa.int32()), ("seen", pa.int64())])),
        ("ordering", pa.int64()),
        ("writer", pa.string()),
    ]
)


def row(number: int, writer: str, ordering: int) -> Row:
    at = 1_711_846_800 + number * 40_000 - 80_000 if number % 5 else None
    return {
        "id": f"k{number}",
        "kind": ["a", "b c", None][number % 3],
        "small": number % 2,
        "at": at,
        "text": f"2024-03-{number + 10}T20:15:00{['', 'Z', '-0700'][number % 3]}" if number % 4 else None,
        "place": {"name": f"p{number}", "zone": number % 2, "seen": ordering},
        "ordering": ordering,
        "writer": writer,
    }


def rows(numbers: range, writer: str, ordering: int) -> list[Row]:
    return [row(number, writer, ordering) for number in numbers]


def by_hoodie(base_path: Path, given: list[Row], properties: Mapping[str, str] | None = None) -> None:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path), dict(properties or {}))) as client:
        client.upsert(pa.Table.from_pylist(given, SCHEMA))


def by_hudi(hudi: HudiProcess, base_path: Path, given: list[Row], options: Mapping[str, str]) -> None:
    hudi.write(base_path, pa.Table.from_pylist(given, SCHEMA), options)


def writers(base_path: Path) -> dict[str, str]:
    """Who wrote each record last; fails on a record that is there twice."""
    found = hoodie.read_table(str(base_path), columns=["id", "writer", "_hoodie_record_key", "_hoodie_partition_path"])
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids), f"records live twice: {found.to_pylist()}"
    return dict(zip(ids, found["writer"].to_pylist(), strict=True))


def expected(*parts: tuple[range, str]) -> dict[str, str]:
    return {f"k{number}": writer for numbers, writer in parts for number in numbers}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=kind.name, marks=[pytest.mark.interop_smoke] * (kind.name == "custom")) for kind in KINDS],
)
def test_each_finds_the_records_of_the_other(tmp_path: Path, hudi: HudiProcess, kind: Kind) -> None:
    mine = tmp_path / "mine"
    kind.make(mine)
    by_hoodie(mine, rows(range(12), "hoodie", 1))
    by_hudi(hudi, mine, rows(range(4, 16), "hudi", 2), kind.hudi_options())
    by_hoodie(mine, rows(range(8, 18), "again", 3))
    by_hudi(hudi, mine, rows(range(18), "late", 0), kind.hudi_options())
    assert writers(mine) == expected((range(4), "hoodie"), (range(4, 8), "hudi"), (range(8, 18), "again"))
    if kind.is_read_by(hudi):
        assert sorted(hudi.read(mine)["id"].to_pylist()) == sorted(writers(mine))

    theirs = tmp_path / "theirs"
    by_hudi(hudi, theirs, rows(range(12), "hudi", 1), kind.hudi_options())
    hudi.set_table_properties(theirs, {"hoodie.compaction.payload.class": PAYLOAD})
    by_hoodie(theirs, rows(range(4, 16), "hoodie", 2), kind.writer_options())
    by_hudi(hudi, theirs, rows(range(8, 18), "again", 3), kind.hudi_options())
    by_hoodie(theirs, rows(range(18), "late", 0), kind.writer_options())
    assert writers(theirs) == expected((range(4), "hudi"), (range(4, 8), "hoodie"), (range(8, 18), "again"))


def test_hudi_takes_the_types_of_partition_fields_from_a_table_of_hoodie(tmp_path: Path, hudi: HudiProcess) -> None:
    kind = next(kind for kind in KINDS if kind.name == "inferred")
    kind.make(tmp_path / "t")
    by_hoodie(tmp_path / "t", rows(range(6), "hoodie", 1))
    options = {"hoodie.table.name": "keys", "hoodie.datasource.write.precombine.field": "ordering"}
    by_hudi(hudi, tmp_path / "t", rows(range(3, 9), "hudi", 2), options)
    assert writers(tmp_path / "t") == expected((range(3), "hoodie"), (range(3, 9), "hudi"))
