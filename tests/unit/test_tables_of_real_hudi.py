"""Tables that real Hudi wrote, as they lie on storage: read, continued, or refused by name; held against hudi-rs."""

from __future__ import annotations

import datetime
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.exception import HoodieNotSupportedException
from tests.support.table_builder import content, local_client

FLIGHTS = Path(__file__).parents[1] / "data" / "hudi_flights_v6.zip"
META_COLUMNS = {
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
}
Row = dict[str, Any]

COPY_ON_WRITE = {
    "hudi_flights_v6": 500,
    "sample_table-cow-v6_complexkeygen_hivestyle": 4,
    "sample_table-cow-v6_empty": 0,
    "sample_table-cow-v6_nonpartitioned": 4,
    "sample_table-cow-v6_simplekeygen_hivestyle_no_metafields": 4,
    "sample_table-cow-v6_simplekeygen_nonhivestyle": 4,
    "trips_logical_types_json_cow_write": 24,
}
"""Archives of version-6 copy-on-write tables, and their rows."""
VIRTUAL_KEYS = {"sample_table-cow-v6_simplekeygen_hivestyle_no_metafields"}
"""Of those, the ones that store no record keys: they take inserts only."""
WITHOUT_ROWS = {"sample_table-cow-v6_empty"}


def folders_of_tables(root: Path) -> list[Path]:
    """Every table below a folder; a metadata table, which lies in another one's ``.hoodie``, is none."""
    found = (properties.parent.parent for properties in sorted(root.rglob(".hoodie/hoodie.properties")))
    return [folder for folder in found if ".hoodie" not in folder.relative_to(root).parts]


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the table of one archive, to write to."""
    return copy_of_table(request.param, tmp_path, request)


def copy_of_table(name: str, target: Path, request: pytest.FixtureRequest) -> Path:
    """Copy the table of one archive into a folder; where it is then."""
    if name == FLIGHTS.stem:
        with zipfile.ZipFile(FLIGHTS) as archive:
            archive.extractall(target / name)
    else:
        shutil.copytree(request.getfixturevalue("shared_tables") / name, target / name)
    (folder,) = folders_of_tables(target / name)
    return folder


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo is None else value.astimezone(datetime.UTC)).isoformat()
    return value


def in_order(rows: list[Row]) -> list[str]:
    return sorted(repr({name: plain(row[name]) for name in sorted(row)}) for row in rows)


def user_rows(found: pa.Table) -> list[Row]:
    rows: list[Row] = found.select([name for name in found.schema.names if name not in META_COLUMNS]).to_pylist()
    return rows


def read_by_hudi_rs(base_path: Path) -> list[Row]:
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    return user_rows(pa.Table.from_batches(batches)) if batches else []


@pytest.mark.parametrize("table", COPY_ON_WRITE, indirect=True)
def test_a_copy_on_write_table_is_read_as_hudi_rs_reads_it(table: Path, request: pytest.FixtureRequest) -> None:
    before = content(table)
    expected = read_by_hudi_rs(table)
    assert len(expected) == COPY_ON_WRITE[request.node.callspec.params["table"]]
    assert in_order(user_rows(hoodie.read_table(str(table)))) == in_order(expected)
    assert content(table) == before, "a reader changed something"


@pytest.mark.parametrize("index_type", ["BLOOM", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("table", COPY_ON_WRITE, indirect=True)
def test_the_keys_of_a_copy_on_write_table_are_found(table: Path, index_type: str) -> None:
    before = content(table)
    everything = hoodie.read_table(str(table))
    with hoodie.HoodieReadClient(table, options={"hoodie.index.type": index_type}) as client:
        # By their columns, which the table's key generator makes keys of.
        assert in_order(client.read(everything).to_pylist()) == in_order(everything.to_pylist())
        assert client.check_exists(everything)["exists"].to_pylist() == [True] * everything.num_rows
        assert client.filter_exists(everything).num_rows == 0
        assert client.check_exists([HoodieKey("nobody", "nowhere")])["exists"].to_pylist() == [False]
    assert content(table) == before, "a reader changed something"


@pytest.mark.parametrize("table", sorted(COPY_ON_WRITE.keys() - VIRTUAL_KEYS - WITHOUT_ROWS), indirect=True)
def test_a_copy_on_write_table_is_continued_and_hudi_rs_agrees(table: Path) -> None:
    continue_and_compare(table, read_by_hudi_rs(table))


def continue_and_compare(table: Path, stored: list[Row], **properties: Any) -> None:
    """Update two rows of a table, insert one and delete one; hoodie and hudi-rs read the outcome.

    Args:
        table: Its folder.
        stored: The rows that it holds.
        properties: For the writes, as `local_client` takes them.
    """
    meta_client = HoodieTableMetaClient.load(str(table))
    config = meta_client.table_config
    schema = meta_client.load_schema()
    fixed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
    key_field = config.record_key_fields[0]
    ordering_field = config.ordering_fields[0]
    changed_field = next(name for name in schema.names if name not in fixed and can_change(schema.field(name).type))

    changed = [
        {**row, changed_field: other(row[changed_field], schema.field(changed_field).type),
         ordering_field: later(row[ordering_field])}
        for row in stored[:2]
    ]  # fmt: skip
    new = {**stored[2], key_field: other(stored[2][key_field], schema.field(key_field).type)}
    with local_client(table, **properties) as c:
        result = c.upsert(pa.Table.from_pylist([*changed, new], schema))
    assert (result.updated_count, result.inserted_count) == (2, 1)
    expected = [*changed, *stored[2:], new]
    assert in_order(read_by_hudi_rs(table)) == in_order(expected)
    assert in_order(user_rows(hoodie.read_table(str(table)))) == in_order(expected)

    with local_client(table, **properties) as c:
        keys = pa.Table.from_pylist([stored[3]], schema)
        assert c.delete(keys).deleted_count == 1
    expected = [*changed, stored[2], *stored[4:], new]
    assert in_order(read_by_hudi_rs(table)) == in_order(expected)
    assert in_order(user_rows(hoodie.read_table(str(table)))) == in_order(expected)


@pytest.mark.parametrize("table", sorted(WITHOUT_ROWS), indirect=True)
def test_a_table_without_rows_takes_its_first_ones(table: Path) -> None:
    meta_client = HoodieTableMetaClient.load(str(table))
    (key_field,) = meta_client.table_config.record_key_fields
    avro = meta_client.load_avro_schema()
    schema = meta_client.load_schema() if avro else pa.schema([(key_field, pa.int32()), ("name", pa.string())])
    empty = {field.name: None for field in schema}
    rows = [{**empty, key_field: 1, "name": "one"}, {**empty, key_field: 2, "name": "two"}]
    with local_client(table) as c:
        c.upsert(pa.Table.from_pylist(rows, schema))
    assert in_order(read_by_hudi_rs(table)) == in_order(rows)
    assert in_order(user_rows(hoodie.read_table(str(table)))) == in_order(rows)


@pytest.mark.parametrize("table", sorted(VIRTUAL_KEYS), indirect=True)
def test_a_table_of_virtual_keys_takes_inserts_and_refuses_what_needs_keys(table: Path) -> None:
    stored = read_by_hudi_rs(table)
    schema = HoodieTableMetaClient.load(str(table)).load_schema()
    new = {**stored[0], "id": 1000}
    with local_client(table) as c:
        for change in (lambda: c.upsert([new]), lambda: c.delete([HoodieKey("1", "")])):
            with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.populate\.meta\.fields=false"):
                change()
        assert c.insert(pa.Table.from_pylist([new], schema)).inserted_count == 1
        assert c.bulk_insert(pa.Table.from_pylist([new], schema)).inserted_count == 1
    assert in_order(read_by_hudi_rs(table)) == in_order([*stored, new, new])
    found = hoodie.read_table(str(table))
    assert in_order(user_rows(found)) == in_order([*stored, new, new])
    for name in META_COLUMNS - {"_hoodie_file_name"}:
        assert found[name].null_count == found.num_rows
    assert found["_hoodie_file_name"].null_count == 0


def can_change(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_integer(data_type) or pa.types.is_floating(data_type))


def other(value: Any, data_type: pa.DataType) -> Any:
    if pa.types.is_string(data_type):
        return f"{value} and more"
    if pa.types.is_floating(data_type):
        return (value or 0.0) + 100
    return (value or 0) + 100


def later(value: Any) -> Any:
    return value + (datetime.timedelta(days=1) if isinstance(value, datetime.datetime) else 1)
