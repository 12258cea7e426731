"""What `import hoodie` gives."""

from __future__ import annotations

import pytest

import hoodie
from hoodie import exception


@pytest.mark.parametrize("name", exception.__all__)
def test_every_error_is_a_name_of_the_package(name: str) -> None:
    assert name in hoodie.__all__
    assert getattr(hoodie, name) is getattr(exception, name)


def test_every_public_name_is_there_once() -> None:
    assert len(set(hoodie.__all__)) == len(hoodie.__all__)
    for name in hoodie.__all__:
        assert getattr(hoodie, name).__name__ == name
