"""A base file has the size that a listing or a commit tells, or it is damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieCorruptedDataException, HoodieReadClient
from tests.support.timeline_files import begin_after

pytestmark = pytest.mark.table_version(9)


def write(path: Path, keys: list[str], value: int, **properties: Any) -> str:
    rows = pa.table({"id": keys, "v": [value] * len(keys)})
    return hoodie.write_table(rows, str(path), record_key_fields="id", properties=properties).instant_time


def test_another_file_under_the_name_of_a_base_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = write(path, ["a", "b"], 1)
    write(path, ["a", *(f"key {number}" for number in range(50))], 2)
    old, new = sorted(path.glob("*.parquet"), key=lambda file: file.stem.rpartition("_")[2])
    data = new.read_bytes()
    new.write_bytes(old.read_bytes())

    def look_up() -> None:
        with HoodieReadClient(str(path)) as client:
            client.read(["a"])

    reads: list[Callable[[], Any]] = [
        lambda: hoodie.read_table(str(path)),
        lambda: hoodie.read_table(str(path), filters=[("v", "=", 2)]),
        lambda: hoodie.read_table(
            str(path),
            query_type="incremental",
            begin=begin_after(path, first),
            options={"hoodie.metadata.enable": "false"},
        ),
        lambda: write(path, ["b"], 3),
        look_up,
    ]
    for read in reads:
        with pytest.raises(HoodieCorruptedDataException, match=f"{old.stat().st_size} bytes, .* {len(data)}") as error:
            read()
        assert new.name in str(error.value)
    new.write_bytes(data)
    assert hoodie.read_table(str(path)).num_rows == 52


def test_another_file_under_the_name_of_an_hfile_is_told_and_storage_is_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    for number in range(6):
        write(path, [f"key {number}"], number, **{"hoodie.metadata.compact.max.delta.commits": 2})
    old, *_, new = sorted(path.glob(".hoodie/metadata/files/*.hfile"), key=lambda file: file.stem.rpartition("_")[2])
    new.write_bytes(old.read_bytes())
    with caplog.at_level(logging.WARNING):
        assert hoodie.read_table(str(path)).num_rows == 6
    assert "of a metadata table is damaged: it has" in caplog.text
