"""Indexes hold keys of at most 32,767 bytes: longer ones are refused, and nothing is left of the refused action."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieException, HoodieIOException, HoodieKeyException
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from tests.support.hookable_storage import hooked

INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.global.record.level.index.enable": "true"}
PLAIN = {"hoodie.metadata.enable": "true"}
MOST = 32_767
VERSIONS = pytest.mark.parametrize(
    ("version", "table_type"), [(8, "MERGE_ON_READ"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")]
)


def rows(*keys: str, value: str = "q") -> pa.Table:
    return pa.table({"id": list(keys), "s": [value] * len(keys)})


def new_table(path: Path, version: int, table_type: str = "COPY_ON_WRITE") -> str:
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", table_type=table_type, record_key_fields=["id"], partition_fields=[],
        table_version=version,
    )  # fmt: skip
    return str(path)


def client_of(path: str) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, INDEXED))


def definitions(path: str) -> set[str]:
    return set(json.loads(Path(path, ".hoodie/.index_defs/index.json").read_text())["indexDefinitions"])


def left_of(path: str) -> tuple[list[str], bool, bool]:
    """What there is of the index: pending instants of the metadata table, its folder, its definition."""
    timeline = HoodieTableMetaClient.load(f"{path}/.hoodie/metadata").active_timeline
    folder = Path(path, ".hoodie/metadata/secondary_index_idx")
    return list(timeline.filter_pending().times), folder.exists(), "secondary_index_idx" in definitions(path)


def check(path: str, count: int) -> None:
    assert hoodie.metadata.validate(path).is_right, hoodie.metadata.validate(path)
    assert hoodie.read_table(path).num_rows == count


@VERSIONS
@pytest.mark.one_in(4)
def test_a_value_that_is_too_long_is_refused_and_leaves_no_index(tmp_path: Path, version: int, table_type: str) -> None:
    path = new_table(tmp_path / "t", version, table_type)
    hoodie.write_table(rows("a", "b", value="q" * (MOST - 1)), path, properties=INDEXED)
    with client_of(path) as client:
        with pytest.raises(
            HoodieKeyException,
            match=r"secondary_index_idx of the column s .* 32767 .* [12] (is|are) longer.* 32768 bytes: 'qqq.*hash",
        ):
            client.create_index("idx", "s")
        assert left_of(path) == ([], False, False)
        hoodie.write_table(rows("a", "b", "c", value="q" * (MOST - 2)), path, properties=INDEXED)
        assert client.create_index("idx", "s")
    check(path, 3)
    with pytest.raises(HoodieKeyException, match=r"secondary_index_idx of the column s .*client.drop_index\('idx'\)"):
        hoodie.write_table(rows("d", value="L" * 40_000), path, properties=INDEXED)
    check(path, 3)
    hoodie.write_table(rows("d", value="L"), path, properties=INDEXED)
    check(path, 4)
    with client_of(path) as client:
        assert client.drop_index("idx")
    hoodie.write_table(rows("d", value="L" * 40_000), path, properties=INDEXED)
    check(path, 4)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_record_key_that_is_too_long_is_refused_with_the_option_that_drops_the_index(
    tmp_path: Path, version: int
) -> None:
    path = new_table(tmp_path / "t", version)
    hoodie.write_table(rows("a", "b" * MOST), path, properties=INDEXED)
    with pytest.raises(
        HoodieKeyException,
        match=r"the record index .* 32767 .* 1 is longer, the first of 40000 .* hoodie.metadata.global.record.level.ind"
        r"ex.enable=false, which drops it",
    ):
        hoodie.write_table(rows("c" * 40_000), path, properties=INDEXED)
    check(path, 2)
    off = {**INDEXED, "hoodie.metadata.global.record.level.index.enable": "false"}
    hoodie.write_table(rows("c" * 40_000), path, properties=off)
    check(path, 3)
    # It cannot be built over such keys either, and the table works on.
    with pytest.raises(HoodieKeyException, match="the record index"):
        hoodie.write_table(rows("d"), path, properties=INDEXED)
    assert not Path(path, ".hoodie/metadata/record_index").exists()
    hoodie.write_table(rows("d"), path, properties=off)
    check(path, 4)


def test_an_index_by_partitions_names_its_own_option(tmp_path: Path) -> None:
    by_partition = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.level.index.enable": "true"}
    path = new_table(tmp_path / "t", 9)
    hoodie.write_table(rows("a"), path, properties=by_partition)
    with pytest.raises(HoodieKeyException, match=r"with hoodie\.metadata\.record\.level\.index\.enable=false"):
        hoodie.write_table(rows("c" * 40_000), path, properties=by_partition)
    check(path, 1)


def test_a_restore_to_keys_that_are_too_long_leaves_the_index_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path / "t", 9)
    first = hoodie.write_table(rows("a", "b" * 40_000), path, properties=PLAIN).instant_time
    hoodie.write_table(rows("b" * 40_000), path, operation="delete", properties=PLAIN)
    hoodie.write_table(rows("c"), path, properties=INDEXED)
    assert "record_index" in HoodieTableMetaClient.load(path).table_config.metadata_partitions
    with client_of(path) as client, caplog.at_level(logging.WARNING):
        client.restore_to_instant(first)
    assert "an index was not built again after the restore: the record index holds" in caplog.text
    check(path, 2)


@VERSIONS
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_whatever_stops_create_index_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, table_type: str, is_interrupted: bool
) -> None:
    path = new_table(tmp_path / "t", version, table_type)
    hoodie.write_table(rows("a", "b"), path, properties=INDEXED)
    error = KeyboardInterrupt() if is_interrupted else HoodieIOException("the disk is full")

    def fail(*_: object) -> None:
        raise error

    with client_of(path) as client:
        with monkeypatch.context() as patch:
            patch.setattr(HoodieBackedTableMetadataWriter, "_write_initial", fail)
            with pytest.raises(type(error)):
                client.create_index("idx", "s")
        assert left_of(path) == ([], False, False)
        assert client.create_index("idx", "s")
        assert left_of(path) == ([], True, True)
    hoodie.write_table(rows("a", "c"), path, properties=INDEXED)
    check(path, 3)


def test_an_index_that_cannot_be_cleared_tells_of_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path / "t", 9)
    hoodie.write_table(rows("a", value="q" * 40_000), path, properties=INDEXED)

    def has_begun(path: str) -> bool:
        timeline = HoodieTableMetaClient.load(f"{path.split('/.hoodie/')[0]}/.hoodie/metadata").active_timeline
        return bool(timeline.filter_pending().times)

    def hook(name: str, path: str) -> None:
        if name in ("delete", "rmdir") and "/metadata/secondary_index_idx" in path and has_begun(path):
            raise HoodieIOException("nothing can be deleted")

    with client_of(path) as client, hooked(monkeypatch, hook), pytest.raises(HoodieException, match="32767"):
        client.create_index("idx", "s")
    assert "secondary_index_idx of the metadata table" in caplog.text
    hoodie.write_table(rows("b"), path, properties=INDEXED)
    assert not left_of(path)[0]
    check(path, 2)
