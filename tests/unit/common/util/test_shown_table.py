"""Tables for people."""

from __future__ import annotations

import pytest

from hoodie.common.util.shown_table import ShownTable, format_bytes, plural


def test_text_stands_left_numbers_right_and_nothing_is_a_hyphen() -> None:
    table = ShownTable(("name", "count"), [("a", 1_000), ("long name", None)], 2, title=("Title",), notes=("note",))
    assert table.to_text().splitlines() == [
        "Title",
        "",
        "name       count",
        "---------  -----",
        "a          1,000",
        "long name      -",
        "",
        "note",
    ]


def test_wide_and_combining_characters_take_their_columns() -> None:
    lines = ShownTable(("name", "n"), [("東京", 1), ("Zu\u0308rich", 2), ("abcd", 3)], 3).to_text().splitlines()
    assert lines[2:] == ["東京    1", "Zu\u0308rich  2", "abcd    3"]


def test_characters_that_move_the_cursor_are_spelled_out() -> None:
    shown = ShownTable(("name",), [("a\nb\x1b[2J\u202e",)], 1)
    assert shown.to_text().splitlines()[-1] == "a\\nb\\x1b[2J\\u202e"
    assert "\x1b" not in shown.to_html()


def test_a_long_cell_loses_its_middle_and_a_notebook_shows_it_on_hover() -> None:
    shown = ShownTable(("name",), [("x" * 50 + "end",)], 1, max_cell_width=11)
    assert shown.to_text().splitlines()[-1] == "xxxxx…xxend"
    assert f'title="{"x" * 50}end"' in shown.to_html()


def test_html_is_escaped_everywhere() -> None:
    evil = "<script>&\"'"
    html = ShownTable((evil,), [(evil,)], 99, title=(evil,), rest=evil, notes=(evil,), max_cell_width=5).to_html()
    assert "<script" not in html
    assert html.count("&lt;s") == 6


def test_a_cut_table_says_what_is_left_out() -> None:
    shown = ShownTable(("n",), [(number,) for number in range(5)], 3_000, rest="sums", max_rows=2)
    assert shown.to_text().splitlines()[-1] == "... and 2,998 more rows: sums"
    assert shown.to_html().count("<tr>") == 3


def test_a_titled_table_without_rows_is_its_title() -> None:
    assert ShownTable(("n",), [], 0, title=("nothing",)).to_text() == "nothing"
    assert "<table>" not in ShownTable(("n",), [], 0, title=("nothing",)).to_html()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3.0 TiB"),
        (9 << 50, "9,216.0 TiB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_one_thing_has_no_s() -> None:
    assert (plural(1, "file"), plural(0, "file"), plural(2000, "file")) == ("1 file", "0 files", "2,000 files")


def test_fractions_have_two_digits_and_stand_right() -> None:
    table = ShownTable(("share", "n"), [(0.125, 1), (None, 2), (1234.5, 3)], 3)
    assert table.to_text().splitlines()[2:] == ["    0.12  1", "       -  2", "1,234.50  3"]


def test_a_page_that_forbids_inline_styles_gets_a_class() -> None:
    table = ShownTable(("a", "n"), [("x", 1)], 1)
    assert "style" not in table.to_html(inline_style=False)
    assert '<td class="number">1</td>' in table.to_html(inline_style=False)
    assert '<td style="text-align:right">1</td>' in table.to_html()
