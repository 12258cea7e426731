"""Properties of callbacks: who is told of each commit."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field, text

__all__ = ["HTTP_CALLBACK", "HoodieWriteCommitCallbackConfig", "parse_headers"]

HTTP_CALLBACK = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"

_PREFIX = "hoodie.write.commit.callback."
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADERS_FORM = "Name:value;Name2:value2"


def parse_headers(value: str) -> dict[str, str]:
    """Read headers of HTTP: names and values by a colon, separated by semicolons.

    Args:
        value: Such as ``X-Team:data;Accept:application/json``. The value goes to the next semicolon, colons too.

    Raises:
        ValueError: It has not that form; the message has no value in it, because headers can be secrets.
    """
    headers = {}
    for part in value.split(";"):
        if not part.strip():
            continue
        name, colon, content = (piece.strip() for piece in part.partition(":"))
        if not colon or not content or not _HEADER_NAME.fullmatch(name) or not content.isprintable():
            raise ValueError(f"must be headers as {_HEADERS_FORM}")
        headers[name] = content
    return headers


def _check_headers(value: str) -> None:
    parse_headers(value)


def _check_url(value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not value.isprintable() or " " in value:
        raise ValueError
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "must have no user and password in it: give them as a header, by "
            "hoodie.write.commit.callback.http.custom.headers"
        )


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteCommitCallbackConfig(PropertyGroup):
    """Who is told of each commit, once it is completed.

    Hudi: org.apache.hudi.config.HoodieWriteCommitCallbackConfig.
    """

    is_on: bool = property_field(
        _PREFIX + "on",
        boolean(),
        False,
        "Call the callback after each commit. What goes wrong there is logged, and the commit stands.",
        since="0.6.0",
    )
    class_name: str = property_field(
        _PREFIX + "class",
        text("a class"),
        HTTP_CALLBACK,
        "What is called: Hudi's HTTP callback, by this name or `HoodieWriteCommitHttpCallback`, or a "
        "`HoodieWriteCommitCallback` of your own as package.module.Class.",
        since="0.6.0",
    )
    http_url: str | None = property_field(
        _PREFIX + "http.url",
        text("a URL that begins with http:// or https://", _check_url),
        None,
        "Where the HTTP callback posts the message to, as JSON. Redirects are not followed.",
        since="0.6.0",
    )
    http_api_key: str = property_field(
        _PREFIX + "http.api.key",
        text(),
        "hudi_write_commit_http_callback",
        "What the HTTP callback sends as the header `HUDI-CALLBACK-KEY`.",
        since="0.6.0",
    )
    http_timeout_seconds: int = property_field(
        _PREFIX + "http.timeout.seconds",
        integer(minimum=1, maximum=86_400),
        30,
        "How long the HTTP callback waits for a connection, and for an answer, in seconds. The write waits for it.",
        since="0.6.0",
    )
    http_custom_headers: str | None = property_field(
        _PREFIX + "http.custom.headers",
        text(f"headers as {_HEADERS_FORM}", _check_headers),
        None,
        f"More headers of the HTTP callback, as `{_HEADERS_FORM}`. They are never logged.",
        since="0.15.0",
    )
