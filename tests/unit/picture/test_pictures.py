"""Pictures are SVG that any parser reads, whatever a table is named and however large it is."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient, Table
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException
from hoodie.picture.charts import Bar, Span, bytes_unit, columns, count_unit, lanes, seconds_unit, time_names
from hoodie.picture.picture import Picture
from hoodie.picture.pictures import PICTURES
from hoodie.picture.svg import Markup, element, label
from hoodie.stats import table_numbers
from tests.support.simulated_table import simulated_table
from tests.support.table_builder import init_table, local_client, rows

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["</script><script>alert(1)</script>", "a\"b'c&d", "ünï-çødé-東京-🚲", "x" * 200, "$\\frac{$", "]]>", "%s{0}"]


def parsed(picture: Picture) -> ET.Element:
    root = ET.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    return root


def texts(root: ET.Element) -> list[str]:
    """What is written; a text that was cut holds its whole text for the pointer, which comes first."""
    return [(text.text or "") + "".join(child.tail or "" for child in text) for text in root.iter(f"{SVG}text")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.upsert(rows(("a", "x", 2), ("d", "z", 2)))
        client.savepoint(user="me")
    return Table(path)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_tells_screen_readers_its_title_and_what_it_shows(table: Table, name: str) -> None:
    picture = table.plot(name)
    root = parsed(picture)
    told = {child.get("id"): child.text for child in root if child.tag in (f"{SVG}title", f"{SVG}desc")}
    assert [told[reference] for reference in (root.get("aria-labelledby") or "").split()] == [
        picture.title,
        picture.summary,
    ]
    assert picture.title in texts(root)
    assert "prefers-color-scheme:dark" in picture.svg
    assert list(picture.numbers) == list(table.stats(name))
    assert picture._repr_html_() == picture.svg


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_in_a_picture_asks_for_anything_or_runs(table: Table, name: str) -> None:
    root = parsed(table.plot(name))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "desc", "style", "g", "rect", "line", "path", "text"
    }  # fmt: skip
    attributes = {name for found in root.iter() for name in found.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name == "style"}


def hostile_table(tmp_path: Path) -> Table:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(*((f"k{number}", name, 1) for number, name in enumerate(HOSTILE))))
        client.upsert(rows(*((f"k{number}", name, 2) for number, name in enumerate(HOSTILE))))
    return Table(path)


def test_hostile_names_of_partitions_are_text(tmp_path: Path) -> None:
    table = hostile_table(tmp_path)
    stored = sorted(row.partition_path for row in table.partitions())
    for name in PICTURES:
        parsed(table.plot(name))
    shown = texts(parsed(table.plot("partitions")))
    for partition in stored:
        if len(partition) < 20:
            assert partition in shown
    assert any("…" in text for text in shown)


def test_characters_that_xml_forbids_are_spelled_out() -> None:
    text = "a\x00b\x0bc\ud800d\ufffe\u202e<&\"'"
    root = ET.fromstring(label(1, 2, text, room=900.0))
    assert root.text == "a\\x00b\\x0bc\\ud800d\\ufffe\\u202e<&\"'"
    root = ET.fromstring(element("g", Markup("<b/>"), text, title=text))
    assert root.get("title") == "a\\x00b\\x0bc\\ud800d\\ufffe\\u202e<&\"'"
    assert root[0].tail == root.get("title")


@pytest.mark.parametrize("name", PICTURES)
def test_a_table_without_commits_has_pictures_that_say_so(tmp_path: Path, name: str) -> None:
    picture = Table(init_table(tmp_path / "t")).plot(name)
    shown = texts(parsed(picture))
    assert len(shown) == 3
    assert any("no" in text.lower() or "empty" in text for text in shown[1:])


@pytest.mark.parametrize("name", PICTURES)
def test_a_table_of_one_commit_is_drawn(tmp_path: Path, name: str) -> None:
    path = init_table(tmp_path / "t", partition_fields=[])
    with local_client(path) as client:
        client.insert(rows(("a", "x", 1)))
    parsed(Table(path).plot(name))


def test_there_is_no_other_picture(table: Table) -> None:
    with pytest.raises(HoodieConfigException, match="there is no picture 'time'.*timeline, growth"):
        table.plot("time")
    assert table_numbers.PICTURES.keys() == PICTURES.keys()


def test_numbers_are_reached_from_the_table(table: Table) -> None:
    path = table.path
    for name in PICTURES:
        assert list(table.stats(name)) == list(getattr(hoodie.stats, name)(path))
    assert list(table.stats("sizes", by="commit")) == list(hoodie.stats.sizes_by(path, "commit"))
    with pytest.raises(HoodieConfigException, match="there is no picture 'sizs'"):
        table.stats("sizs")
    with pytest.raises(HoodieConfigException, match="growth has no groups"):
        table.stats("growth", by="commit")
    with pytest.raises(HoodieConfigException, match="growth has no columns"):
        table.stats("growth", columns=["ts"])
    assert list(table.stats("overlap", columns=["ts"])) == list(hoodie.stats.overlap(path, ["ts"]))


def test_a_picture_is_saved_as_a_whole(table: Table, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    file = tmp_path / "p" / "t.svg"
    picture = table.plot("timeline")
    picture.save(file)
    assert file.read_text() == picture.svg
    assert repr(picture).startswith("<Picture 'timeline': ")
    with pytest.raises(OSError):
        picture.save(tmp_path / "nowhere" / "t.svg")
    (tmp_path / "p" / "folder").mkdir()
    with pytest.raises(OSError):
        picture.save(tmp_path / "p" / "folder")
    assert sorted(found.name for found in file.parent.iterdir()) == ["folder", "t.svg"]


def test_ten_thousand_file_groups_are_summed_up_and_the_cut_is_told(tmp_path: Path) -> None:
    partitions = [f"p{number:03}" for number in range(100)]
    table = Table(simulated_table(tmp_path / "t", partitions, 100, commits=3))
    for name in PICTURES:
        if name == "overlap":
            # The simulated files have no footers.
            with pytest.raises(HoodieCorruptedDataException):
                table.plot(name)
            continue
        picture = table.plot(name)
        parsed(picture)
        assert len(picture.svg) < 100_000
    assert table.plot("partitions").summary.startswith("the 50 largest of 100 partitions; ")
    assert table.plot("slices").summary.startswith("10,000 file groups")
    assert table.plot("sizes").summary.startswith("10,000 base files")


def test_log_files_are_drawn_on_their_base_files(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(path, index_type="BUCKET", **{"hoodie.bucket.index.num.buckets": 1}) as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("a", "x", 2)))
        client.upsert(rows(("b", "y", 2)))
    shown = texts(parsed(Table(path).plot("slices")))
    assert any(text.startswith("x/") for text in shown)
    assert any(text.startswith(("1 log file", "2 log files")) for text in shown)
    assert {"base file", "log files"} <= set(shown)
    assert ": about 2 rows in " in Table(path).plot("growth").summary


def test_pending_instants_are_open_to_the_right_and_savepoints_are_flags(table: Table) -> None:
    root = parsed(table.plot("timeline"))
    before = Counter(found.get("class") for found in root.iter(f"{SVG}path"))
    assert before == {"f": 1}
    HoodieTableMetaClient.load(table.path).active_timeline.create_new_instant_time(Action.CLEAN)
    picture = table.plot("timeline")
    after = Counter(found.get("class") for found in parsed(picture).iter(f"{SVG}path"))
    assert after == {"f": 1, "d": 1}
    assert "1 pending" in picture.summary


def test_bars_of_a_lane_that_overlap_stand_below_each_other() -> None:
    start = datetime.fromisoformat("2026-01-01T10:00:00+00:00")

    def span(begin: int, end: int) -> Span:
        return Span("commit", start + timedelta(seconds=begin), start + timedelta(seconds=end), "a", "")

    chart = lanes("t", [span(0, 10), span(5, 15), span(11, 20)], start)
    drawn = ET.fromstring(f"<g>{chart.markup}</g>").iter("rect")
    ys = [float(found.get("y") or 0) for found in drawn]
    assert ys[1] > ys[0]
    assert ys[2] == ys[0]


def test_deleted_rows_are_drawn_downwards() -> None:
    chart = columns("rows", count_unit, [Bar("1", [("a", 4), ("c", -2)])])
    root = ET.fromstring(f"<g>{chart.markup}</g>")
    up, down = root.iter("rect")
    zero = float(up.get("y") or 0) + float(up.get("height") or 0)
    assert float(down.get("y") or 0) == pytest.approx(zero, abs=0.2)
    assert float(up.get("height") or 0) == pytest.approx(2 * float(down.get("height") or 0), abs=0.3)


def test_numbers_of_axes_are_short_and_have_units() -> None:
    assert [count_unit(value) for value in (0, 0.25, 1500, 2.5e6, 8e9)] == ["0", "0.25", "1,500", "2.5 m", "8 bn"]
    assert [bytes_unit(value) for value in (0, 512, 1024, 1.5 * 1024**3)] == ["0 B", "512 B", "1 KiB", "1.5 GiB"]
    assert [seconds_unit(value) for value in (0, 0.05, 1.5, 90, 7200, 86400)] == [
        "0 s",
        "50 ms",
        "1.5 s",
        "1.5 min",
        "2 h",
        "1 d",
    ]
    day = [datetime.fromisoformat(f"2026-01-01T10:00:0{second}+00:00") for second in (1, 2)]
    assert time_names([*day, None]) == ["10:00:01", "10:00:02", "?"]
    assert time_names([day[0], day[1] + timedelta(days=1)]) == ["01-01 10:00", "01-02 10:00"]


def test_labels_of_an_axis_do_not_touch() -> None:
    for count in (1, 3, 40, 120):
        names = [f"01-01 10:{number:02}:00" for number in range(count)]
        chart = columns("t", count_unit, [Bar(name, [("a", 1)]) for name in names])
        places = sorted(
            float(found.get("x") or 0)
            for found in ET.fromstring(f"<g>{chart.markup}</g>").iter("text")
            if (found.text or "").startswith("01-01")
        )
        assert places
        assert all(other - one > 14 * 6 for one, other in pairwise(places))


def test_a_key_that_looks_like_markup_is_text_in_the_hover(tmp_path: Path) -> None:
    given = pa.table({"id": ["<b>", "</title><script>"], "ts": [1, 2]})
    table = hoodie.Table.create(tmp_path / "t", given, record_key_fields="id", ordering_fields="ts")
    hovers = [found.text or "" for found in parsed(table.plot("overlap")).iter(f"{SVG}title")]
    assert any("</title><script> to <b>" in text for text in hovers)
