from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import hoodie.utilities.config
from hoodie.common.config.property import PropertyGroup, all_keys
from hoodie.utilities.config.groups import STREAMER_GROUPS
from tests.support.streamer_options_page import render

PAGE = Path(__file__).parents[3] / "docs" / "streamer-options.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run: python -m tests.support.streamer_options_page > docs/streamer-options.md"
    )


def test_every_group_of_properties_is_known_to_the_streamer() -> None:
    """A property of a group that is not listed would be refused as misspelt."""
    found = set()
    for module in pkgutil.iter_modules(hoodie.utilities.config.__path__, "hoodie.utilities.config."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, PropertyGroup) and value.__module__ == module.name:
                found.add(value)
    assert found == set(STREAMER_GROUPS)


def test_properties_have_the_newer_spelling() -> None:
    assert [key for key in all_keys(STREAMER_GROUPS) if key.startswith("hoodie.deltastreamer.")] == []
