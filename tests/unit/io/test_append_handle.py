"""Where log files go; what an append handle does is shown by the delta commits of clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieFileGroupId, HoodieLogFile
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.append_handle import LogPlace, LogPlaces
from hoodie.io.log.log_block_writer import encode_rollback_block
from hoodie.io.log.log_file_owner import is_log_file_of
from hoodie.storage.local_storage import LocalStorage

BASE, OTHER, COMPACTION, OWN = (f"2026010100000000{number}" for number in range(4))
GROUP = HoodieFileGroupId("p", "f-0")


def log(time: str, version: int, token: str) -> HoodieLogFile:
    name = f".f-0_{time}.log.{version}_{token}"
    return HoodieLogFile(f"/t/p/{name}", "f-0", time, version, token, 1)


def slice_of(*logs: HoodieLogFile, has_base: bool = True) -> FileSlice:
    base = HoodieBaseFile(f"/t/p/f-0_1-0-1_{BASE}.parquet", "f-0", "1-0-1", BASE, 1)
    return FileSlice("p", "f-0", BASE, base if has_base else None, logs)


def test_in_version_6_the_version_follows_the_largest_of_any_token() -> None:
    logs = (log(BASE, 1, "0-0-0"), log(BASE, 10, "1-0-1"), log(BASE, 9, "0-0-2"))
    place = LogPlaces(OWN, False).of(slice_of(*logs))
    assert (place.instant_time, place.version, place.is_of_commit) == (BASE, 11, False)
    assert place.base_file == f"f-0_1-0-1_{BASE}.parquet"
    assert place.log_files == tuple(part.file_name for part in logs)
    assert LogPlaces(OWN, False).of(slice_of(has_base=False)) == LogPlace("p", "f-0", BASE)


def test_in_version_6_a_pending_compaction_takes_new_log_files_of_its_file_groups() -> None:
    merged = slice_of(log(BASE, 7, "0-0-0"), log(COMPACTION, 1, "0-0-0"))
    place = LogPlaces(OWN, False, {GROUP: (OTHER, COMPACTION)}).of(merged)
    assert place == LogPlace("p", "f-0", COMPACTION, 2, log_files=(merged.log_files[1].file_name,))
    others = LogPlaces(OWN, False, {HoodieFileGroupId("p", "g-0"): (COMPACTION,)})
    assert others.of(merged).instant_time == BASE


def test_in_later_versions_a_log_file_is_of_its_own_commit() -> None:
    places = LogPlaces(OWN, True, {GROUP: (COMPACTION,)})
    assert places.is_compacted(slice_of())
    assert places.of(slice_of(log(OTHER, 4, "0-0-0"))) == LogPlace("p", "f-0", OWN, is_of_commit=True)


def test_the_place_behind_a_file_has_the_next_version() -> None:
    place = LogPlace("p", "f-0", OWN, 3, log_files=("a",)).after("b")
    assert (place.version, place.log_files) == (4, ("a", "b"))


def test_a_log_file_belongs_to_the_instant_of_all_its_blocks(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    path = str(tmp_path / f".f-0_{BASE}.log.1_0-0-0")
    assert not is_log_file_of(storage, path, OWN)
    Path(path).write_bytes(encode_rollback_block(OWN, OTHER))
    assert is_log_file_of(storage, path, OWN)
    assert not is_log_file_of(storage, path, OTHER)
    Path(path).write_bytes(encode_rollback_block(OWN, OTHER) + encode_rollback_block(OTHER, OWN))
    assert not is_log_file_of(storage, path, OWN)
    for damaged in (b"", b"PAR1", encode_rollback_block(OWN, OTHER)[:-1]):
        Path(path).write_bytes(damaged)
        assert not is_log_file_of(storage, path, OWN)
    # The name says it.
    assert is_log_file_of(storage, str(tmp_path / f".f-0_{OWN}.log.1_0-0-0"), OWN)
    assert not is_log_file_of(storage, str(tmp_path / "f-0_0-0-0_1.parquet"), "1")


@pytest.mark.parametrize("io_type", [IOType.CREATE, IOType.MERGE])
def test_a_marker_that_would_delete_another_commits_log_file_is_refused(tmp_path: Path, io_type: IOType) -> None:
    markers = WriteMarkers(LocalStorage(str(tmp_path)), str(tmp_path), OWN)
    markers.create("p", f".f-0_{OWN}.log.1_0-0-0", IOType.CREATE)
    markers.create("p", f".f-0_{BASE}.log.1_0-0-0", IOType.APPEND)
    assert len(markers.list_markers()) == 2
    markers.create("p", f".f-0_{OTHER}.log.1_0-0-0", io_type)
    with pytest.raises(HoodieCorruptedDataException, match=f"names a file of instant {OTHER}"):
        markers.list_markers()
