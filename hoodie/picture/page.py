"""A page of pictures in one file: it asks nothing of the network, and is readable without its script.

The content policy in its head allows the page's own style and script, by their digests, and nothing else: text that got
past the escaping would not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from hoodie.common.util.shown_table import ShownTable, plural
from hoodie.picture.charts import STYLE
from hoodie.picture.picture import Picture
from hoodie.picture.svg import Markup, element

_MAX_ROWS = 60
_OPEN_ROWS = 12
"""A table of so many rows is open; a longer one opens with a click."""
_PAGE_STYLE = """\
:root{color-scheme:light dark;
--fg:#22272e;--soft:#5a6572;--bg:#fff;--line:#e3e7ec;--box:#f5f7f9;--warn:#fdf3e3;--mark:#d98c21}
@media (prefers-color-scheme:dark){
:root{--fg:#e4e8ed;--soft:#9aa5b1;--bg:#15181c;--line:#2b3138;--box:#1d2126;--warn:#2c2519;--mark:#e9b050}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:964px;margin:0 auto;padding:24px 32px 64px}
h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:18px;margin:40px 0 8px}
p{margin:4px 0 12px;overflow-wrap:anywhere}.soft{color:var(--soft)}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:12px 0;padding:8px 0;border-bottom:1px solid var(--line)}
a{color:inherit}
section>svg{display:block;max-width:100%;height:auto;border:1px solid var(--line);border-radius:6px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
td{overflow-wrap:anywhere}th{white-space:nowrap;color:var(--soft);font-weight:600}
.number{text-align:right}.data td{white-space:nowrap}.found td:nth-child(n+2){white-space:normal}
details{margin:8px 0}summary{cursor:pointer;color:var(--soft)}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--mark)}
th[aria-sort=ascending] button::after{content:" \\25b2"}th[aria-sort=descending] button::after{content:" \\25bc"}
input{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);border-radius:4px;
padding:2px 8px;margin:6px 0}
.found{background:var(--warn);border-left:4px solid var(--mark);padding:8px 16px}
.facts td:first-child{white-space:nowrap;color:var(--soft)}
@media print{nav,input{display:none}}
"""
_SCRIPT = """\
"use strict";
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = Number(text.replaceAll(",", ""));
  return text === "-" ? -Infinity : Number.isNaN(number) ? text : number;
}
function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other));
}
function sortBy(table, head, column) {
  const descends = head.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descends ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  rows.sort((one, other) => {
    const order = compare(valueOf(one, column), valueOf(other, column));
    return descends ? -order : order;
  });
  body.append(...rows);
}
function addFilter(table) {
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "filter rows";
  input.setAttribute("aria-label", "filter rows");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
  table.before(input);
}
for (const table of document.querySelectorAll(".data table")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortBy(table, head, column));
    head.replaceChildren(button);
  });
  if (table.tBodies[0].rows.length > 10) addFilter(table);
}
"""


def page(
    title: str, told: str, facts: ShownTable, findings: ShownTable, pictures: Sequence[Picture], *, has_findings: bool
) -> str:
    """The page, as HTML.

    Args:
        title: Its title.
        told: A line below it.
        facts: The facts of the table.
        findings: The things that are wrong with it, and what repairs them.
        pictures: The pictures, in their order.
        has_findings: Whether something is wrong.
    """
    style = STYLE + _PAGE_STYLE
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(_SCRIPT)}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    links = [element("a", picture.title, href=f"#{picture.name}") for picture in pictures]
    main = element(
        "main",
        element("h1", title),
        element("p", told, class_="soft"),
        element("section", element("h2", "Findings"), _findings(findings, has_findings), id="findings"),
        element("nav", *links, aria_label="pictures"),
        element("section", element("h2", "Table"), _table(facts, "facts"), id="table"),
        *map(_section, pictures),
    )
    body = element("body", main, Markup(f"<script>{_SCRIPT}</script>"))
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n{body}</html>\n'


def _findings(findings: ShownTable, has_findings: bool) -> Markup:
    return _table(findings, "found data") if has_findings else element("p", "Nothing was found.")


def _section(picture: Picture) -> Markup:
    count = len(picture.numbers)
    shown = picture.numbers.shown(_MAX_ROWS)
    rows = plural(count, "row") + (f", the first {_MAX_ROWS} of them" if count > _MAX_ROWS else "")
    details = element(
        "details",
        element("summary", f"Numbers: {rows}"),
        _table(shown, "data"),
        open="" if count <= _OPEN_ROWS else None,
    )
    heading, told = element("h2", picture.title), element("p", picture.summary, class_="soft")
    return element(
        "section", heading, told, picture.drawn(is_part=True), *([details] if count else []), id=picture.name
    )


def _table(shown: ShownTable, class_: str) -> Markup:
    return element("div", Markup(shown.to_html(inline_style=False)), class_=f"scroll {class_}")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
