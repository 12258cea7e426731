"""Definitions of indexes, whose metadata table is gone, in another version of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import HoodieCorruptedDataException
from hoodie.metadata.reader.index_definition_file import adapt_index_definitions
from hoodie.storage.local_storage import LocalStorage

OLD = {"indexName": "record_index", "indexType": "record_index", "sourceFields": []}
V1 = {**OLD, "version": "V1"}
V2 = {"indexName": "column_stats", "indexType": "column_stats", "version": "V2"}


def adapted(folder: Path, version: int, **definitions: Any) -> dict[str, Any]:
    path = folder / ".index_defs/index.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"indexDefinitions": definitions}))
    adapt_index_definitions(LocalStorage(str(folder)), str(folder), version)
    found: dict[str, Any] = json.loads(path.read_text())["indexDefinitions"]
    return found


def test_version_9_wants_a_version_in_each(tmp_path: Path) -> None:
    assert adapted(tmp_path, 9, a=OLD, b=V2) == {"a": V1, "b": V2}


@pytest.mark.parametrize("version", [6, 8])
def test_earlier_versions_know_the_first_one_only(tmp_path: Path, version: int) -> None:
    assert adapted(tmp_path, version, a=OLD, b=V2, c=V1) == {"a": V1, "c": V1}


def test_a_table_without_definitions(tmp_path: Path) -> None:
    adapt_index_definitions(LocalStorage(str(tmp_path)), str(tmp_path), 9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"indexDefinitions": {"a": 1}}'])
def test_damaged_definitions_are_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / ".index_defs/index.json"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(HoodieCorruptedDataException, match=r"index\.json"):
        adapt_index_definitions(LocalStorage(str(tmp_path)), str(tmp_path), 9)
    assert path.read_text() == content
