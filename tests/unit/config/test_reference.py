"""The reference page of properties."""

from __future__ import annotations

from pathlib import Path

from hoodie.common.config.property import properties_of
from hoodie.config.write_config import GROUPS
from tests.support.configuration_page import render

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run: python -m tests.support.configuration_page > docs/configuration.md"
    )


def test_the_page_names_every_property() -> None:
    page = render()
    for group in GROUPS.values():
        for field, prop in properties_of(group).items():
            assert f"| `{prop.key}` | `{field}` | " in page
