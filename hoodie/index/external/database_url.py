"""Where the database of an index is."""

from __future__ import annotations

import re
from urllib.parse import unquote

from hoodie.common.config.property import display_value
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_path import join, normalise_path, scheme

__all__ = ["DATABASE_URL_KEY", "is_postgresql", "shown_url", "sqlite_path"]

DATABASE_URL_KEY = "hoodie.index.database.url"
DEFAULT_FILE = ".hoodie/.index/keys.sqlite"
"""Where SQLite's file is below a local table."""
_POSTGRESQL = ("postgresql://", "postgres://")
_LIBPQ_WORD = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|service)\s*=")
_PASSWORD_OF_URL = re.compile(r"[^:/@?]*:(.*)@")


def is_postgresql(url: str | None) -> bool:
    """Whether a URL is of PostgreSQL; otherwise it is SQLite's.

    Raises:
        HoodieConfigException: Its password has characters that libpq would take for the end of it, and show in errors.
    """
    if url is None or not url.startswith(_POSTGRESQL):
        return False
    found = _PASSWORD_OF_URL.match(url.partition("://")[2].partition("?")[0])
    if found is not None and set(found[1]) & set("@/"):
        raise HoodieConfigException(
            f"{DATABASE_URL_KEY}: the password has an @ or a /, which end it in a URL: write %40 and %2F, or leave it "
            "to libpq (PGPASSFILE, PGPASSWORD)"
        )
    return True


def sqlite_path(url: str | None, base_path: str) -> str:
    """The file of SQLite.

    Args:
        url: ``sqlite:///path`` or a local path; None for the file below the table.
        base_path: The table.

    Raises:
        HoodieConfigException: The table is not on a local disk and no file is named, or the URL is of something else.
    """
    if url is None:
        if scheme(normalise_path(base_path)) != "file":
            raise HoodieConfigException(
                f"{DATABASE_URL_KEY} is not given, and SQLite cannot keep its file in {base_path}: name a file on a "
                "local disk (sqlite:////var/lib/hoodie/trips.sqlite), or a database (postgresql://user@host/name)"
            )
        return join(normalise_path(base_path), DEFAULT_FILE)
    if "://" not in url and _LIBPQ_WORD.search(url):
        raise HoodieConfigException(
            f"{DATABASE_URL_KEY} holds words of libpq (host=... dbname=...): write them as a URL, "
            "postgresql://user@host:port/name"
        )
    path = unquote(url.removeprefix("sqlite://")) if url.startswith("sqlite://") else url
    if "://" in path or not path.strip("/"):
        raise HoodieConfigException(
            f"{DATABASE_URL_KEY} = {shown_url(url)} is neither sqlite:///path, nor a local path, nor postgresql://..."
        )
    if url.startswith("sqlite://") and not path.startswith("/"):
        raise HoodieConfigException(f"{DATABASE_URL_KEY} = {shown_url(url)} names a host: write sqlite:///path")
    return normalise_path("/" + path.lstrip("/") if path.startswith("/") else path)


def shown_url(url: str) -> str:
    """The URL without its password, for messages."""
    return display_value(DATABASE_URL_KEY, url).strip("'")
