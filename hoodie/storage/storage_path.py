"""Paths as strings: made uniform, joined and split.

A path is an absolute local path (``/data/trips``) or a URL (``s3://bucket/trips``, ``memory://trips``), with ``/``
between its parts and no trailing slash. `normalise_path` makes that form of a path from a user; all other functions
here expect it. Names below a base path are taken literally: nothing is percent-decoded, because a partition path may
hold ``%2F`` as a name.

    normalise_path("file:///data/trips/")  -> "/data/trips"
    normalise_path("~/trips")              -> "/home/ann/trips"
    normalise_path("s3a://bucket/trips")   -> "s3://bucket/trips"
"""

from __future__ import annotations

import os
import re

from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):(/.*)$", re.DOTALL)
METAFOLDER_NAME = ".hoodie"
HEARTBEAT_FOLDER_NAME = ".heartbeat"
"""The folder below ``.hoodie`` with one file for each living writer."""
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}


def normalise_path(path: str) -> str:
    """The uniform form of a path that a user typed.

    Args:
        path: ``file:///x``, ``file:/x``, a plain or relative local path (relative to the working directory), or a URL
            of another scheme. ``s3a`` and ``s3n`` become ``s3``, ``gcs`` becomes ``gs``. A plain path that begins with
            ``~`` or ``~user`` begins with that home folder, as in a shell; ``./~`` and URLs are taken literally.

    Returns:
        An absolute local path or a URL, without empty or ``.`` parts and without a trailing slash.

    Raises:
        HoodieConfigException: The path is no text, is empty, or holds a NUL character; a URL lacks its ``//``, has
            nothing behind it, or climbs with ``..``; or nobody knows the home folder that ``~user`` names.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise HoodieConfigException(
            f"A path is of type {type(path).__name__}, not text; give a local path or a URL such as s3://bucket/table"
        )
    if "\0" in text:
        raise HoodieConfigException(f"The path {text!r} holds a NUL character; write it without")
    if not text:
        raise HoodieConfigException("A path is empty; give a local path or a URL such as s3://bucket/table")
    match = _URL.match(text)
    if match is None:
        return os.path.abspath(_with_home(text))
    found_scheme, rest = match.group(1).lower(), match.group(2)
    if found_scheme == "file":
        # file:/x, file:///x and file://localhost/x are the same file; file://x/y would name a host.
        if rest.startswith("//") and not rest.startswith("///"):
            host, _, rest = rest[2:].partition("/")
            if host.startswith("~"):
                raise HoodieConfigException(f"The path {text}: a URL has no '~'; write the plain path {host}/{rest}")
            if host != "localhost":
                raise HoodieConfigException(f"The path {text} names the host {host!r}; write file:/// or a plain path")
        return os.path.abspath("/" + rest.lstrip("/"))
    if not rest.startswith("//"):
        raise HoodieConfigException(f"The path {text} is not a URL; write {found_scheme}:// with two slashes")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if not parts:
        raise HoodieConfigException(f"The path {text} names no place; add a bucket or folder")
    if ".." in parts:
        raise HoodieConfigException(f"The path {text} climbs with '..'; write the path out")
    return f"{_SCHEME_ALIASES.get(found_scheme, found_scheme)}://{'/'.join(parts)}"


def is_same_path(one: str, other: str) -> bool:
    """Whether two paths that a user typed are the same; of paths that are wrong, whether they read the same.

    Args:
        one: As for `normalise_path`.
        other: As for `normalise_path`.
    """
    try:
        return normalise_path(one) == normalise_path(other)
    except HoodieConfigException:
        return one.rstrip("/") == other.rstrip("/")


def _with_home(path: str) -> str:
    """The path with a home folder in place of its ``~`` or ``~user``."""
    expanded = os.path.expanduser(path)
    if path.startswith("~") and expanded == path:
        name = path.partition("/")[0]
        raise HoodieConfigException(
            f"The path {path} begins with the home folder {name}, and there is no such user here; write the path out, "
            f"or ./{path} for a folder of that name"
        )
    return expanded


def scheme(path: str) -> str:
    """The scheme of a normalised path: ``file`` for local ones."""
    head, separator, _ = path.partition("://")
    return head if separator and not path.startswith("/") else "file"


def as_uri(path: str) -> str:
    """A full path as Hudi writes those of data files in plans and metadata: local ones with a scheme."""
    return f"file:{path}" if scheme(path) == "file" else path


def join(base: str, *parts: str) -> str:
    """Put parts below a base; empty parts (the partition path of a non-partitioned table) are skipped.

    Args:
        base: A normalised path.
        parts: Relative paths of one or more names.

    Returns:
        The path below the base.

    Raises:
        ValueError: A part climbs with ``..``: the result would leave the base.
    """
    result = base.rstrip("/")
    for part in parts:
        name = part.strip("/")
        if not name:
            continue
        if ".." in name and ".." in name.split("/"):
            raise ValueError(f"The part {part!r} would leave {base}")
        result = f"{result}/{name}"
    return result or "/"


def parent(path: str) -> str:
    """The path without its last name; a root is its own parent."""
    head, separator, tail = path.partition("://")
    prefix, rest = (head + separator, tail) if separator and not path.startswith("/") else ("", path)
    if "/" not in rest:
        return path
    above = rest.rsplit("/", 1)[0]
    return prefix + above if above else "/"


def file_name(path: str) -> str:
    """The last name of a path."""
    return path.rsplit("/", 1)[-1]


def relative_to(base: str, path: str) -> str:
    """The part of a path that is below a base.

    Args:
        base: A normalised path.
        path: A normalised path below it, or the base itself.

    Returns:
        The relative path without a leading slash; ``""`` for the base itself.

    Raises:
        ValueError: The path is not below the base.
    """
    if path == base:
        return ""
    prefix = base if base.endswith("/") else base + "/"
    if not path.startswith(prefix):
        raise ValueError(f"{path} is not below {base}")
    return path[len(prefix) :]


def check_inside(path: str) -> str:
    """A relative path, unchanged, if it stays among the data of a table.

    Names are taken literally: a backslash is a character like others, except on Windows, where it is refused.

    Args:
        path: The path of a file or folder below the base path, from a file of the table; "" for the base path itself.

    Raises:
        ValueError: It is absolute or a URL, climbs with ``..``, holds a NUL character, or leads into ``.hoodie``. The
            message names the reason, such as "is absolute".
    """
    if "\0" in path:
        raise ValueError("holds a NUL character")
    if path.startswith("/"):
        raise ValueError("is absolute")
    if "://" in path:
        raise ValueError("is a URL")
    if os.sep != "/" and (os.sep in path or os.path.splitdrive(path)[0]):
        raise ValueError("is one of this operating system, not of a table")
    if ".." in path and ".." in path.split("/"):
        raise ValueError("climbs with '..'")
    if path == METAFOLDER_NAME or path.startswith(f"{METAFOLDER_NAME}/"):
        raise ValueError(f"leads into '{METAFOLDER_NAME}'")
    return path


def resolve_inside(base_path: str, path: str, source: str) -> str:
    """The full path for a relative path in a file of the table. It must stay among the table's data.

    Args:
        base_path: The table's folder, normalised.
        path: See `check_inside`.
        source: The file that names it, for the error message.

    Raises:
        HoodieCorruptedDataException: It does not stay there.
    """
    try:
        return join(base_path, check_inside(path))
    except ValueError as error:
        raise HoodieCorruptedDataException(
            f"{source} names the path {path!r}, which {error}; only data files of {base_path} may be named there. The "
            "file is damaged, or its author cannot be trusted: nothing was done with that path"
        ) from error
