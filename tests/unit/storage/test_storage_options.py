"""Options of a storage: what a function gives, and what is shown when it fails."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import resolve_options


def test_the_text_of_a_function_that_fails_is_shown_nowhere() -> None:
    def broken() -> Mapping[str, Any]:
        raise PermissionError("vault refused s3cr3t-token")

    with pytest.raises(HoodieConfigException, match="storage_options failed with PermissionError; call it") as raised:
        resolve_options(broken)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))
