"""The report of a table: one page that needs nothing else, with findings first; looked at with Chromium where it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import pytest
from matplotlib import image

from hoodie import HoodieTableMetaClient, Table
from hoodie.common.table.timeline.instant import Action
from hoodie.picture.pictures import PICTURES
from tests.support.simulated_table import simulated_table
from tests.support.table_builder import init_table, local_client, rows

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
HOSTILE = [
    "</script><script>console.error('ran')</script>",
    "<img src=a onerror=console.error(1)>",
    "a\"b'c&d",
    "東京-🚲",
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(*((f"k{number}", name, 1) for number, name in enumerate(HOSTILE))))
        client.upsert(rows(*((f"k{number}", name, 2) for number, name in enumerate(HOSTILE))))
    return Table(path)


class Elements(HTMLParser):
    """The elements of a page, with the attributes of each, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_a_page_has_findings_facts_and_each_picture_with_its_numbers(table: Table, tmp_path: Path) -> None:
    HoodieTableMetaClient.load(table.path).active_timeline.create_new_instant_time(Action.COMMIT)
    report = table.report(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Elements(html)
    assert report.size_bytes == len(html.encode())
    assert report.failed_pictures == ()
    assert str(report).startswith(f"{tmp_path / 'r.html'}: ")
    assert [section["id"] for section in page.all("section")] == ["findings", "table", *PICTURES]
    assert len(page.all("svg")) == len(page.all("details")) == len(PICTURES)
    found = table.doctor().findings
    assert report.finding_count == len(found) > 0
    assert found[0].problem in page.texts
    assert table.describe().readers in page.texts


def test_a_page_without_findings_says_so(table: Table, tmp_path: Path) -> None:
    assert table.doctor().is_healthy
    assert table.report(tmp_path / "r.html").finding_count == 0
    assert "Nothing was found." in Elements((tmp_path / "r.html").read_text(encoding="utf-8")).texts


def test_names_are_text_and_nothing_is_loaded(table: Table, tmp_path: Path) -> None:
    table.report(tmp_path / "r.html")
    page = Elements((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert len(page.all("script")) == len(page.all("style")) == 1
    assert not page.all("img")
    assert not page.all("link")
    for _, attributes in page.found:
        assert not {"src", "srcset", "style", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(found["content"] or "" for found in page.all("meta") if found.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for partition in table.partitions():
        assert any(partition.partition_path in text for text in page.texts)


def test_a_picture_that_cannot_be_drawn_gives_way_to_its_error(table: Table, tmp_path: Path) -> None:
    for file in Path(table.path).glob("*/*.parquet"):
        file.write_bytes(b"PAR1 damaged PAR1")
    report = table.report(tmp_path / "r.html")
    assert report.failed_pictures == ("overlap",)
    assert "not drawn: overlap" in str(report)
    page = Elements((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert any("is cut short or damaged" in text for text in page.texts)
    assert len(page.all("svg")) == len(PICTURES)


def test_a_report_replaces_an_older_one_as_a_whole(table: Table, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "r.html"
    file.write_text("old")
    table.report(file)
    assert file.read_text(encoding="utf-8").endswith("</html>\n")
    assert [found.name for found in file.parent.iterdir()] == ["r.html"]
    with pytest.raises(FileNotFoundError):
        table.report(tmp_path / "nowhere" / "r.html")


def test_a_report_of_ten_thousand_file_groups_is_below_one_megabyte(tmp_path: Path) -> None:
    partitions = [f"day={number:03}-{'x' * 150}" for number in range(100)]
    path = simulated_table(tmp_path / "t", partitions, 100, commits=20)
    report = Table(path).report(tmp_path / "r.html")
    assert report.size_bytes < 1_000_000
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    for told in ("the 50 largest of 100 partitions", "10,000 file groups", "10,000 rows, the first 60 of them"):
        assert told in html


@attrs.frozen
class Shown:
    """A page as a browser shows it."""

    console: list[str]
    dom: str
    picture: Any
    requests: list[str]


def shown(page: Path, *flags: str) -> Shown:
    """Open a page in Chromium."""
    assert CHROMIUM is not None
    folder = page.parent / "chromium"
    log, screen = page.parent / "net.json", page.parent / "screen.png"
    call = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--disable-background-networking", "--disable-component-update", "--no-first-run", f"--user-data-dir={folder}",
        "--enable-logging=stderr", f"--log-net-log={log}", *flags,
    ]  # fmt: skip
    taken = subprocess.run(
        [*call, f"--screenshot={screen}", "--window-size=1000,1600", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    # Where the browser is stopped, the last bracket is missing.
    text = log.read_text(encoding="utf-8").rstrip().rstrip(",")
    requests = re.findall(r'"url":"((?:https?|wss?|ftp):[^"]+)"', text)
    dumped = subprocess.run(
        [*call, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    console = [line for line in (taken.stderr + dumped.stderr).splitlines() if "CONSOLE" in line]
    return Shown(console, dumped.stdout, image.imread(screen), requests)


def is_of_the_browser(request: str) -> bool:
    """Whether the browser itself asked its maker, for the time and the like."""
    return bool(re.match(r"https?://[\w.-]+\.(?:google|googleapis|gstatic|gvt1)\.com/", request))


@needs_chromium
def test_a_browser_shows_the_page_without_an_error_or_a_request(table: Table, tmp_path: Path) -> None:
    table.report(tmp_path / "r.html")
    light = shown(tmp_path / "r.html")
    assert light.console == []
    assert [request for request in light.requests if not is_of_the_browser(request)] == []
    for text in ("Findings", "Nothing was found.", "Timeline", "Growth", "Write amplification", "Versions"):
        assert text in light.dom
    # The script ran: headings of tables can be clicked.
    assert light.dom.count('<button type="button">') > 20
    dark = shown(tmp_path / "r.html", "--blink-settings=preferredColorScheme=0")
    assert dark.console == []
    for found, is_dark in ((light.picture, False), (dark.picture, True)):
        assert found.std() > 0.05, "the page is blank"
        assert (found[5, 5, :3].mean() < 0.2) == is_dark


@needs_chromium
def test_the_browser_of_these_tests_tells_errors_and_requests(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(
        "<title>x</title><script>console.error('told')</script><img src='http://127.0.0.1:9/x.png'>"
    )
    bad = shown(tmp_path / "bad.html")
    assert any("told" in line for line in bad.console)
    assert "http://127.0.0.1:9/x.png" in bad.requests
    assert bad.picture.std() < 0.05


@needs_chromium
def test_tables_are_sorted_and_filtered(table: Table, tmp_path: Path) -> None:
    table.report(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    # The policy allows the page's own script only: what drives it here is put into a copy without the policy.
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    drive = """
    const table = document.querySelector("#partitions table");
    const values = () => Array.from(table.tBodies[0].rows, (row) => row.cells[2].textContent);
    const button = table.tHead.rows[0].cells[2].querySelector("button");
    button.click(); const down = values(); button.click(); const up = values();
    addFilter(table); const input = table.previousSibling;
    input.value = "東京"; input.dispatchEvent(new Event("input"));
    const left = Array.from(table.tBodies[0].rows).filter((row) => !row.hidden).length;
    document.title = JSON.stringify({down, up, left});
    """
    (tmp_path / "driven.html").write_text(html.replace("</body>", f"<script>{drive}</script></body>"), encoding="utf-8")
    driven = shown(tmp_path / "driven.html")
    assert driven.console == []
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", driven.dom)[1])  # type: ignore[index]
    sizes = sorted((row.size_bytes for row in table.partitions()), reverse=True)
    assert [int(text.replace(",", "")) for text in found["down"]] == sizes
    assert found["up"] == found["down"][::-1]
    assert found["left"] == 1
