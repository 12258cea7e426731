"""Properties of callbacks, which are called after each commit."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field, text

HTTP_CALLBACK = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
MISSING_CALLBACKS = (
    "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback",
    "org.apache.hudi.utilities.callback.pulsar.HoodieWriteCommitPulsarCallback",
)
"""Callbacks of Hudi that hoodie does not have; a pasted configuration may name them."""

_PREFIX = "hoodie.write.commit.callback."
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADERS_FORM = "Name:value;Name2:value2"


def parse_headers(value: str) -> dict[str, str]:
    """Parse HTTP headers: ``name:value`` pairs, separated by semicolons.

    Args:
        value: Such as ``X-Team:data;Accept:application/json``. A value ends at the next semicolon and may hold colons.

    Raises:
        ValueError: The text has another form. The message does not quote it, because headers can be secrets.
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
            "must hold no user and password: pass them as a header, with "
            "hoodie.write.commit.callback.http.custom.headers"
        )


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteCommitCallbackConfig(PropertyGroup):
    """The callback that is called after each completed commit.

    Hudi: org.apache.hudi.config.HoodieWriteCommitCallbackConfig.
    """

    is_on: bool = property_field(_PREFIX + "on", boolean(), False, since="0.6.0")
    """Call the callback after each commit. Its errors are logged, and the commit stands."""
    class_name: str = property_field(_PREFIX + "class", text("a class"), HTTP_CALLBACK, since="0.6.0")
    """The callback: Hudi's HTTP callback, by this name or `HoodieWriteCommitHttpCallback`, or your own
    `HoodieWriteCommitCallback` as package.module.Class."""
    http_url: str | None = property_field(
        _PREFIX + "http.url", text("a URL that begins with http:// or https://", _check_url), None, since="0.6.0"
    )
    """The URL to which the HTTP callback posts the message, as JSON. Redirects are not followed."""
    http_api_key: str = property_field(
        _PREFIX + "http.api.key", text(), "hudi_write_commit_http_callback", since="0.6.0"
    )
    """The value that the HTTP callback sends in the header `HUDI-CALLBACK-KEY`."""
    http_timeout_seconds: int = property_field(
        _PREFIX + "http.timeout.seconds", integer(minimum=1, maximum=86_400), 30, since="0.6.0"
    )
    """How long the HTTP callback waits for a connection and for an answer, in seconds. The write waits for it."""
    http_custom_headers: str | None = property_field(
        _PREFIX + "http.custom.headers", text(f"headers as {_HEADERS_FORM}", _check_headers), None, since="0.15.0"
    )
    """Further headers of the HTTP callback, as `Name:value;Name2:value2`. They are never logged."""

    @property
    def missing_callback(self) -> str | None:
        """The callback of Hudi that is asked for, and that hoodie does not have; None if there is no such."""
        names = (*MISSING_CALLBACKS, *(name.rpartition(".")[2] for name in MISSING_CALLBACKS))
        return self.class_name if self.is_on and self.class_name in names else None
