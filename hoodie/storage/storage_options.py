"""Options and credentials of a storage: a dict, or a function that gives one.

A function (or any picklable callable) is called in each process that needs it, tasks of Spark included, so that
credentials need not travel; it may add ``expires_at``, and is called again shortly before that moment::

    def credentials():
        frozen = boto3.Session(profile_name="lake").get_credentials().get_frozen_credentials()
        return {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key,
                "session_token": frozen.token, "region": "eu-central-1"}

    hoodie.read_table("s3://lake/trips", storage_options=credentials)

hoodie never prints the values: no ``repr`` shows them, and `redact` removes them from messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hoodie.exception import HoodieConfigException

StorageOptions = Mapping[str, Any] | Callable[[], Mapping[str, Any]]

_SECRET_NAME = re.compile(r"key|secret|token|passw|sas|credential|signature", re.IGNORECASE)
_HARMLESS_NAME = re.compile(r"_enabled$|_file$", re.IGNORECASE)
_SHORTEST_SECRET = 6
_USER_INFORMATION = re.compile(r"(?<=://)[^\s/@]+@")
_QUERY = re.compile(r"(https?://[^\s?,)]+)\?[^\s,)]*")


def check_options(options: StorageOptions | None) -> None:
    """Refuse a value that cannot be storage options, without showing it.

    Raises:
        HoodieConfigException: They are neither a dict with text keys nor callable.
    """
    if options is None or callable(options):
        return
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise HoodieConfigException(
            f"storage_options are a {type(options).__name__}: give a dict of texts, or a function that returns one"
        )


def resolve_options(options: StorageOptions | None) -> dict[str, Any]:
    """The options as a dict of their own; a function is called.

    Raises:
        HoodieConfigException: The function failed, or did not return a dict with text keys.
    """
    if not callable(options):
        check_options(options)
        return dict(options or {})
    failure = None
    try:
        given = options()
    except Exception as error:
        # Its text may hold a secret, so it must not be chained to the error that is raised.
        failure = type(error).__name__
    if failure is not None:
        raise HoodieConfigException(
            f"the function given as storage_options failed with {failure}; call it by itself to see why"
        )
    if callable(given):
        raise HoodieConfigException("the function given as storage_options returned a function, not a dict")
    check_options(given)
    return dict(given or {})


def secrets_of(options: Mapping[str, Any]) -> frozenset[str]:
    """The texts among the options that must not be shown, nested ones too."""
    return frozenset(_secrets(options))


def redact(text: str, secrets: frozenset[str]) -> str:
    """The message without secrets, queries of URLs (they contain signatures) and user names in URLs."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _QUERY.sub(r"\1?***", _USER_INFORMATION.sub("***@", text))


def _secrets(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif _SECRET_NAME.search(str(name)) and not _HARMLESS_NAME.search(str(name)):
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            if len(text) >= _SHORTEST_SECRET:
                yield text
