"""README, CHANGELOG and docs: links lead somewhere, prose lines are short, and sentences have a subject."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks/RESULTS.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = {
    "configuration.md", "hudi-options.md", "java-map.md", "kafka-properties.md", "streamer-options.md",
}  # fmt: skip
WRITTEN = [page for page in PAGES if page.name not in GENERATED]
LINE = 100

CODE_BLOCK = re.compile(r"^```.*?^```$|(?<=\n\n) {4,}\S[^\n]*$", re.DOTALL | re.MULTILINE)
# A line is not broken within code and within the target of a link.
UNBREAKABLE = re.compile(r"`[^`]*`|\]\([^)]*\)")
HEADLESS = {
    r"\bas of the same\b": "name what you mean: see ...",
    r"\bwithout a word\b": "silently",
    r"(?<!there )\bis none[.,;:]": "say what it is not: is not valid, does not count",
    r"(?:^|[.;] )Who [a-z][^?]*?[.!](?: |$)": "name who acts: a writer that ...",
    r"\bwhat (?:it|a \w+) came to\b": "the result",
    r"\bsay so themselves\b": "name what says it",
    r"\bof a call that\b": "after a call",
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def prose(page: Path) -> str:
    """A page without its code blocks; the lines keep their numbers."""
    return CODE_BLOCK.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def breakable(line: str) -> bool:
    """Whether a line that is too long could end earlier."""
    solid = UNBREAKABLE.sub(lambda found: "x" * len(found[0]), line)
    text = re.sub(r"^\s*(?:(?:[-*]|\d+\.) )?", lambda found: "x" * len(found[0]), solid)
    return " " in text[: LINE + 1]


def long_lines(text: str) -> list[str]:
    """The lines of prose that should have been broken; tables, headings and images stay on one line."""
    return [
        f"{number}: {line}"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > LINE and not line.startswith(("|", "#", "![")) and breakable(line)
    ]


def headless(text: str) -> list[str]:
    """The phrases of a text that leave the reader to guess who or what is meant."""
    paragraphs = [re.sub(r"\s+", " ", paragraph) for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*|#] ?)", text)]
    return [
        f"{found[0]!r}, better: {better}: {paragraph.strip()[:80]}"
        for paragraph in paragraphs
        for phrase, better in HEADLESS.items()
        for found in re.finditer(phrase, paragraph.strip())
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_lines_of_prose_are_short(page: Path) -> None:
    assert long_lines(prose(page)) == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_sentences_name_their_subject(page: Path) -> None:
    assert headless(prose(page)) == []


def test_a_line_is_too_long_only_where_it_could_be_broken() -> None:
    assert long_lines("- a " + "word " * 25) != []
    assert long_lines(f"- `{'a b ' * 30}`") == []
    assert long_lines(f"- [text]({'x' * 120})") == []
    assert long_lines(f"- see [text]({'x' * 120})") != []
    assert long_lines("| " + "cell " * 30) == []


def test_headless_phrases_are_found_across_lines() -> None:
    assert headless("A plan that was made\nlate is\nnone.") != []
    assert headless("Who finishes the plan looks again.") != []
    assert headless("Create the table if there is none.") == []
    assert headless("The table says who holds the lock. Who can write?") == []
