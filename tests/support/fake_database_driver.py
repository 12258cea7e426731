"""Modules of Python's DB-API for tests of JdbcSource: SQLite under other names and with other styles of parameters."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

NAME = "driver_of_tests"


class Connection:
    """A connection to SQLite that takes parameters as another style says."""

    def __init__(self, path: str, style: str) -> None:
        self._opened = sqlite3.connect(path)
        self._style = style

    def cursor(self, kind: Any = None) -> Any:
        return Cursor(self._opened.cursor(), self._style)

    def close(self) -> None:
        self._opened.close()


class Cursor:
    """A cursor that refuses parameters of another style."""

    def __init__(self, cursor: sqlite3.Cursor, style: str) -> None:
        self._cursor = cursor
        self._style = style

    def execute(self, sql: str, parameters: Any = None) -> None:
        if parameters is None:
            self._cursor.execute(sql)
            return
        if self._style in ("format", "pyformat"):
            assert "?" not in sql
            assert "%" not in re.sub("%[s%]", "", sql)
            # The marks are those of the module: %s for a value, %% for a percent sign.
            sql = re.sub("%[s%]", lambda found: "?" if found[0] == "%s" else "%", sql)
        elif self._style == "numeric":
            sql = re.sub(r":(\d)", r"?\1", sql)
        self._cursor.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def running_driver(
    monkeypatch: pytest.MonkeyPatch, path: str, style: str = "qmark", error: Exception | None = None, name: str = NAME
) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """A module whose connections are to a file of SQLite; gives the arguments of each connection.

    Args:
        monkeypatch: For the time of the module.
        path: The file.
        style: The style of parameters.
        error: Raised instead of a connection.
        name: The name of the module.
    """
    module: Any = ModuleType(name)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def connect(*arguments: Any, **options: Any) -> Connection:
        calls.append((arguments, options))
        if error is not None:
            raise error
        return Connection(path, style)

    module.connect = connect
    module.paramstyle = style
    monkeypatch.setitem(sys.modules, name, module)
    yield calls
