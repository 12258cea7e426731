"""An index of the user's: the one of docs/indexes.md works as it stands there; others are refused by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieIndexException, HoodieNotSupportedException
from tests.support.table_builder import local_client, rows_of_keys

PAGE = Path(__file__).parents[3] / "docs" / "indexes.md"


def test_the_index_of_the_page_reads_only_files_of_its_tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"<!-- tested: tenants\.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "hoodie_test_tenants.py").write_text(found[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path, index_class="hoodie_test_tenants.TenantIndex") as c:
        c.bulk_insert(rows_of_keys(["one:1", "one:2"], 1))
        c.bulk_insert(rows_of_keys(["two:1"], 1))
        assert c.explain_upsert(rows_of_keys(["two:1", "two:2"], 2)).index_report.files_read == 1
        result = c.upsert(rows_of_keys(["two:1", "two:2", "one:2"], 2))
        assert (result.updated_count, result.inserted_count) == (2, 1)
    assert hoodie.read_table(str(path)).num_rows == 4
    sys.modules.pop("hoodie_test_tenants")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.Index", "hoodie.index.class = no.such.Index cannot be imported"),
        ("collections.OrderedDict", "is not a subclass of hoodie.HoodieIndex"),
        ("hoodie.index.index.HoodieIndex", "does not define find_locations, is_global"),
        ("org.apache.hudi.index.bloom.HoodieBloomIndex", "looks like a class of Java"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=re.escape(message)):
        local_client(tmp_path, index_class=name)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "cannot be imported (ZeroDivisionError: division by zero)"),
        ("def", "cannot be imported (SyntaxError: invalid syntax"),
        (
            "from hoodie.index.simple.simple_index import HoodieSimpleIndex\n"
            "class Mine(HoodieSimpleIndex):\n    def __init__(self, config): raise KeyError('my.option')",
            "Mine cannot be created (KeyError: 'my.option'): its constructor is called with HoodieWriteConfig",
        ),
    ],
)
def test_an_index_that_raises_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    (tmp_path / "hoodie_test_broken.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with pytest.raises(HoodieConfigException, match=re.escape(message)):
            local_client(tmp_path, index_class="hoodie_test_broken.Mine")
    finally:
        sys.modules.pop("hoodie_test_broken", None)


def test_a_table_cannot_name_an_index(tmp_path: Path) -> None:
    given: dict[str, Any] = {"table_name": "t", "record_key_fields": ["id"]}
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), **given)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text("hoodie.index.class=no.such.Index\n" + properties.read_text())
    config = HoodieWriteConfig.from_properties(str(tmp_path / "t"), {})
    with HoodieLocalWriteClient(config) as c, pytest.raises(HoodieNotSupportedException, match="no.such.Index"):
        c.upsert(pa.table({"id": ["a"]}))


WRONG = """
import attrs
import pyarrow as pa
import pyarrow.compute as pc
from hoodie.index.simple.simple_index import HoodieSimpleIndex

class Wrong(HoodieSimpleIndex):
    def find_locations(self, keys, context, table):
        found = super().find_locations(keys, context, table)
        moved = {}
        for path, rows in found.tables.items():
            moved[path] = rows.set_column(2, "position", pc.add(rows["position"], SHIFT))
        return attrs.evolve(found, tables=moved)
"""


@pytest.mark.parametrize("shift", [1, 100, -100])
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_a_wrong_place_fails_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, shift: int
) -> None:
    name = f"hoodie_test_wrong_{operation}_{shift}".replace("-", "m")
    (tmp_path / f"{name}.py").write_text(WRONG.replace("SHIFT", str(shift)))
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path, index_class=f"{name}.Wrong") as c:
        c.bulk_insert(rows_of_keys(["a", "b", "c"], 1))
        with pytest.raises(HoodieIndexException, match="names wrong places: the key 'a' is not in row"):
            getattr(c, operation)(rows_of_keys(["a"], 2))
    assert sorted(hoodie.read_table(str(path), columns=["id"])["id"].to_pylist()) == ["a", "b", "c"]
    sys.modules.pop(name)


NAMES_GROUPS = """
from hoodie.index.bucket.simple_bucket_index import HoodieSimpleBucketIndex
from hoodie.index.index import HoodieIndex

class NamesGroups(HoodieSimpleBucketIndex):
    names_file_groups = True
"""


def test_an_index_that_names_file_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hoodie_test_names_groups.py").write_text(NAMES_GROUPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    with local_client(path, index_class="hoodie_test_names_groups.NamesGroups") as c:
        placement = c._session.index.record_placement(["id"])
        assert (placement.names_file_groups, placement.knows_positions) == (True, False)
        assert (placement.verifies_positions, placement.key_check) == (True, None)
        c.insert(rows_of_keys(["a", "b"], 1))
        assert c.upsert(rows_of_keys(["a", "c"], 2)).updated_count == 1
    assert hoodie.read_table(str(path)).num_rows == 3
    sys.modules.pop("hoodie_test_names_groups")
