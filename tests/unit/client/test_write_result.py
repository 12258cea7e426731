"""How the outcome of a write prints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hoodie import HoodieTableMetaClient, HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import RecordError, WriteStatus
from tests.support.table_builder import local_client


def result_of(*stats: HoodieWriteStat, errors: tuple[RecordError, ...] = ()) -> HoodieWriteResult:
    statuses = [WriteStatus(s.file_id, s.partition_path, s, total_record_count=s.num_writes) for s in stats]
    if errors:
        failed = WriteStatus("f", "p", HoodieWriteStat("f", "p"), 1, len(errors), errors)
        statuses.append(failed)
    operation = WriteOperationType.UPSERT
    return HoodieWriteResult("20261121101500123", operation, tuple(statuses), HoodieCommitMetadata({}, {}, operation))


def test_a_write_prints_its_files_new_and_rewritten(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k", partition_fields="p")
    with local_client(path) as client:
        client.upsert(pa.table({"k": ["a", "b"], "p": ["<i>", "東京"]}))
        result = client.upsert(pa.table({"k": ["a", "c", "d"], "p": ["<i>", "東京", "neu"]}))
    lines = str(result).splitlines()
    assert lines[0] == result.summary
    kinds = {line.split()[0]: (line.split()[2], *line.split()[3:7]) for line in lines[4:]}
    assert kinds == {
        "<i>": ("rewritten", "0", "1", "0", "1"),
        "東京": ("rewritten", "1", "0", "0", "2"),
        "neu": ("new", "1", "0", "0", "1"),
    }
    assert repr(result) == f"<HoodieWriteResult {result.summary}>"
    html = result._repr_html_()
    assert "&lt;i&gt;" in html
    assert "<i>" not in html


def test_a_write_of_nothing_prints_its_line() -> None:
    assert str(result_of()) == "UPSERT 20261121101500123: 0 inserted (not committed)"


def test_of_many_files_the_largest_are_shown_and_the_others_summed_up() -> None:
    stats = [HoodieWriteStat(f"f{n}", "p", num_writes=2, num_inserts=2, file_size_bytes=n) for n in range(3000)]
    result = result_of(*stats)
    lines = str(result).splitlines()
    assert lines[4].split()[-1] == "2,999"
    assert lines[-1] == "... and 2,980 more rows: 5,960 inserted, 0 updated, 0 deleted, 4.2 MiB"
    assert result._repr_html_().count("<tr>") == 21


def test_the_first_failures_are_shown() -> None:
    errors = tuple(RecordError(f"k{n}", "p", "<too large>") for n in range(9))
    text, html = str(result_of(errors=errors)), result_of(errors=errors)._repr_html_()
    assert text.splitlines()[-3:] == [f"failed: k{n}: <too large>" for n in range(3)]
    assert "&lt;too large&gt;" in html
