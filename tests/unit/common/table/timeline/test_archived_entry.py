"""Entries and blocks of archives are those of real Hudi, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.avro.timeline_metadata import decode_datums, encode_datums
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.archived_entry import ENTRY_RECORD, encode_archived_entry, entry_schema
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.avro_block import avro_datums
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_avro_data_block, encode_log_block
from hoodie.io.log.log_file_reader import read_log_blocks

TIME = "20250126040823628"


@pytest.fixture(scope="module")
def files(shared_tables: Path) -> list[Path]:
    """All archive files of the shared tables of layout 1."""
    found = sorted(path for path in shared_tables.rglob(".commits_.archive.*") if not path.name.endswith(".crc"))
    assert len(found) >= 4
    return found


def blocks_of(files: list[Path]) -> Iterator[HoodieLogBlock]:
    for file in files:
        yield from read_log_blocks(file.read_bytes(), str(file))


def test_blocks_are_written_as_hudi_writes_them(files: list[Path]) -> None:
    for file in files:
        blocks = list(read_log_blocks(file.read_bytes(), str(file)))
        written = b"".join(encode_log_block(block.block_type, block.headers, block.content) for block in blocks)
        assert written == file.read_bytes()
        again = b"".join(encode_avro_data_block(str(block.schema), avro_datums(block)) for block in blocks)
        assert again == written


def test_entries_are_encoded_as_hudi_encodes_them(files: list[Path]) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for block in blocks_of(files):
        datums = avro_datums(block)
        records = decode_datums(str(block.schema), datums, block.source)
        assert encode_datums(ENTRY_RECORD, records) == datums
        # Our schema reads what theirs wrote, and the other way round.
        assert decode_datums(entry_schema(), datums, block.source) == records
        kinds.update((record["actionType"], record["actionState"]) for record in records)
    assert {("deltacommit", "COMPLETED"), ("compaction", "REQUESTED"), ("replacecommit", "COMPLETED")} <= set(kinds)


def entry(action: Action, state: State, content: bytes) -> dict[str, Any]:
    instant = HoodieInstant(TIME, action, state)
    datum = encode_archived_entry(instant, content, TIME, "a file")
    [record] = decode_datums(entry_schema(), [datum])
    return {name: value for name, value in record.items() if value is not None}


HEAD = {"commitTime": TIME, "version": 1, "stateTransitionTime": TIME}


def test_an_empty_requested_file_gives_empty_metadata_as_in_hudi(files: list[Path]) -> None:
    ours = entry(Action.DELTA_COMMIT, State.REQUESTED, b"")
    theirs = [
        record["hoodieCommitMetadata"]
        for block in blocks_of(files)
        for record in decode_datums(str(block.schema), avro_datums(block))
        if (record["actionType"], record["actionState"]) == ("deltacommit", "REQUESTED")
    ]
    assert ours["hoodieCommitMetadata"] in theirs


def test_the_commit_of_a_compaction_says_so() -> None:
    content = HoodieCommitMetadata(compacted=True).to_json()
    found = entry(Action.COMMIT, State.COMPLETED, content)["hoodieCommitMetadata"]
    assert (found["operationType"], found["extraMetadata"]) == ("COMPACT", {"ROLLING_STAT": ""})


@pytest.mark.parametrize(
    ("action", "state"),
    [
        (Action.CLEAN, State.INFLIGHT),
        (Action.REPLACE_COMMIT, State.REQUESTED),
        (Action.REPLACE_COMMIT, State.INFLIGHT),
        (Action.ROLLBACK, State.REQUESTED),
        (Action.ROLLBACK, State.INFLIGHT),
        (Action.COMPACTION, State.INFLIGHT),
    ],
)
def test_states_without_content_are_archived_without(action: Action, state: State) -> None:
    assert entry(action, state, b"") == {**HEAD, "actionType": str(action), "actionState": state.name}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"partitionToWriteStats": [1]}', b"\xff"])
def test_damaged_metadata_of_a_completed_instant_is_named_and_of_a_pending_state_left_out(content: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=f"Cannot archive {TIME} commit"):
        entry(Action.COMMIT, State.COMPLETED, content)
    if content:
        found = entry(Action.COMMIT, State.INFLIGHT, content)
        assert found == {**HEAD, "actionType": "commit", "actionState": "INFLIGHT"}


def test_extra_metadata_that_is_null_is_left_out() -> None:
    content = json.dumps({"extraMetadata": {"a": None, "b": "c", "d": 1}, "operationType": "INSERT"}).encode()
    found = entry(Action.COMMIT, State.COMPLETED, content)["hoodieCommitMetadata"]
    assert found["extraMetadata"] == {"b": "c", "d": "1", "ROLLING_STAT": ""}


def test_headers_of_blocks_are_texts_by_their_number() -> None:
    written = encode_log_block(HoodieLogBlockType.COMMAND, {HeaderMetadataType.INSTANT_TIME: "é"}, b"content")
    [block] = read_log_blocks(written, "f")
    assert (block.block_type, block.headers, block.content) == (HoodieLogBlockType.COMMAND, {0: "é"}, b"content")
