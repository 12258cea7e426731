"""Arguments of `read_table` and `scan_table`, and tables that nothing was written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, HoodieSchemaException


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "trips")
    hoodie.write_table(pa.table({"k": ["a", "b"], "v": [1, 2]}), path, record_key_fields="k")
    return path


def test_a_new_table_after_a_delete_of_nothing_has_no_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields="k")
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path)) as client:
        client.delete([HoodieKey("a", "")])
    commits = HoodieTableMetaClient.load(path).active_timeline.filter_completed_instants().commits_timeline()
    assert len(commits) == 1
    assert hoodie.read_table(path).num_rows == 0
    assert hoodie.read_table(path, columns=["k"]).column_names == ["k"]


@pytest.mark.parametrize("query_type", ["snapshot", "read_optimized"])
def test_both_query_types_give_the_rows_of_a_copy_on_write_table(base_path: str, query_type: str) -> None:
    table = hoodie.read_table(base_path, columns=["k", "v"], query_type=query_type)
    assert sorted(table["v"].to_pylist()) == [1, 2]
    with hoodie.scan_table(base_path, query_type=query_type) as reader:
        assert reader.read_all().num_rows == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"as_of": "20240101000000000"}, "as_of"),
        ({"begin": "20240101000000000"}, "begin"),
        ({"end": "20240101000000000"}, "end"),
        ({"query_type": "incremental"}, "incremental"),
    ],
)
def test_queries_of_older_rows_are_refused_by_name(base_path: str, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(HoodieNotSupportedException, match=f"{named}.*newest rows only"):
        hoodie.read_table(base_path, **arguments)


def test_an_unknown_query_type_is_refused_with_those_there_are(base_path: str) -> None:
    with pytest.raises(HoodieConfigException, match="'snap'.*snapshot, read_optimized"):
        hoodie.read_table(base_path, query_type="snap")


def test_an_empty_list_of_filters_is_no_filter(base_path: str) -> None:
    assert hoodie.read_table(base_path, filters=[]).num_rows == 2


def test_one_column_may_be_named_by_a_string(base_path: str) -> None:
    assert hoodie.read_table(base_path, columns="_hoodie_record_key").column_names == ["_hoodie_record_key"]


@pytest.mark.parametrize("filters", [[("fare", ">", 1)], pc.field("fare") > 1, pc.field("fare", "x") > 1])
def test_an_unknown_column_in_a_filter_is_named_with_the_columns_there_are(base_path: str, filters: Any) -> None:
    with pytest.raises(HoodieSchemaException, match=r"has no column \S*fare\S*.*; it has .*, k, v$") as caught:
        hoodie.read_table(base_path, filters=filters)
    assert "\n" not in str(caught.value)
