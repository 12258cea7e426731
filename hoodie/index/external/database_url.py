"""The URL of the database of an index."""

from __future__ import annotations

import re
from urllib.parse import unquote

from hoodie.common.config.property import display_value
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_path import join, normalise_path, scheme

DATABASE_URL_KEY = "hoodie.index.database.url"
DEFAULT_FILE = ".hoodie/.index/keys.sqlite"
"""The path of SQLite's file, relative to a local table's folder."""
_POSTGRESQL = ("postgresql://", "postgres://")
_LIBPQ_WORD = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|service)\s*=")
_PASSWORD_OF_URL = re.compile(r"[^:/@?]*:(.*)@")


def is_postgresql(url: str | None) -> bool:
    """Whether a URL names PostgreSQL; otherwise it names SQLite.

    Raises:
        HoodieConfigException: The password contains characters that end a password in a URL. libpq would show the rest
            of the password in its errors.
    """
    if url is None or not url.startswith(_POSTGRESQL):
        return False
    found = _PASSWORD_OF_URL.match(url.partition("://")[2].partition("?")[0])
    if found is not None and set(found[1]) & set("@/"):
        raise HoodieConfigException(
            f"{DATABASE_URL_KEY}: the password contains an @ or a /, which end a password in a URL: write %40 and %2F, "
            "or give the password to libpq (PGPASSFILE, PGPASSWORD)"
        )
    return True


def sqlite_path(url: str | None, base_path: str) -> str:
    """The path of SQLite's file.

    Args:
        url: ``sqlite:///path`` or a local path; None for the file in the table's folder.
        base_path: The table's folder.

    Raises:
        HoodieConfigException: No file is named and the table is not on a local disk, or the URL names something else.
    """
    if url is None:
        if scheme(normalise_path(base_path)) != "file":
            raise HoodieConfigException(
                f"{DATABASE_URL_KEY} is missing, and SQLite cannot keep its file in {base_path}: name a file on a "
                "local disk (sqlite:////var/lib/hoodie/trips.sqlite), or a database (postgresql://user@host/name)"
            )
        return join(normalise_path(base_path), DEFAULT_FILE)
    if "://" not in url and _LIBPQ_WORD.search(url):
        raise HoodieConfigException(
            f"{DATABASE_URL_KEY} contains parameters of libpq (host=... dbname=...): write them as a URL, "
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
