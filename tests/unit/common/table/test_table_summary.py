"""Rows that print well."""

from __future__ import annotations

from hoodie.common.table.table_summary import InstantSummary, PartitionSummary, SummaryTable


def partition(path: str, size_bytes: int = 1_234_567, newest: str | None = "20261121101500123") -> PartitionSummary:
    return PartitionSummary(path, 3, size_bytes, newest)


def test_a_summary_prints_as_an_aligned_table() -> None:
    table = SummaryTable(PartitionSummary, [partition("asia"), partition("north-america", 5, None)])
    assert repr(table).splitlines() == [
        "partition_path  file_group_count  size_bytes  newest_instant_time",
        "--------------  ----------------  ----------  -------------------",
        "asia                           3   1,234,567  20261121101500123",
        "north-america                  3           5  -",
    ]


def test_an_empty_summary_prints_its_columns() -> None:
    assert repr(SummaryTable(PartitionSummary, [])).splitlines()[0] == (
        "partition_path  file_group_count  size_bytes  newest_instant_time"
    )


def test_a_summary_is_a_sequence_of_its_rows() -> None:
    rows = [partition("asia"), partition("europe")]
    table = SummaryTable(PartitionSummary, iter(rows))
    assert list(table) == rows
    assert (len(table), table[1], list(table[:1])) == (2, rows[1], rows[:1])
    assert table.column_names == ("partition_path", "file_group_count", "size_bytes", "newest_instant_time")


def test_a_long_summary_prints_its_head_and_says_so() -> None:
    table = SummaryTable(PartitionSummary, [partition(f"p{number:05}") for number in range(2000)])
    lines = repr(table).splitlines()
    assert len(lines) == 2 + 60 + 1
    assert lines[-1] == "... and 1,940 more rows"
    assert "... and 1,940 more rows" in table._repr_html_()


def test_a_notebook_gets_escaped_html() -> None:
    text = SummaryTable(InstantSummary, [InstantSummary("1", "<script>", "COMPLETED")])._repr_html_()
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
    assert text.startswith("<table>")
    assert text.count("<tr>") == 2
