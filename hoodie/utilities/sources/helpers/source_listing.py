"""Listings of the files that a source may read: below folders, and by globs.

A folder of a source is not a table: names that begin with ``.`` or ``_`` are somebody's temporary files and marks, and
folders that are symbolic links are left out, since they may lead in a circle.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from hoodie.exception import HoodieConfigException, HoodieIOException
from hoodie.storage.local_files import file_status
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.threads import ThreadPool

_HIDDEN = (".", "_")
_GLOB = re.compile(r"[*?\[{]")
_ANY_DEPTH = "**"
_MOST_ALTERNATIVES = 1000

T = TypeVar("T")
R = TypeVar("R")


def is_hidden(name: str) -> bool:
    """Whether the name of a file or folder says that it is not data.

    Args:
        name: The last part of a path.
    """
    return name.startswith(_HIDDEN)


def glob_root(path: str) -> str:
    """The folder above the first glob of a path; the path itself if it has no glob.

    Args:
        path: A normalised path.

    Raises:
        HoodieConfigException: The bucket, or the scheme, is a glob.

        >>> glob_root("s3://bucket/in/*/2026-??.json")
        's3://bucket/in'
    """
    found = _GLOB.search(path)
    if found is None:
        return path
    folder = path[: found.start()].rpartition("/")[0]
    if folder.endswith(("/", ":")) or (not folder and not path.startswith("/")):
        raise HoodieConfigException(f"{path}: a glob may stand in the names of folders and files, not in a bucket's")
    return folder or "/"


def children_of(storage: HoodieStorage, folder: str) -> Iterator[FileStatus]:
    """The files and folders in a folder; nothing if it is missing.

    Args:
        storage: The storage.
        folder: Its full path.

    Raises:
        HoodieIOException: Storage failed.
    """
    if "://" in folder:
        yield from storage.list_directory(folder)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() and entry.is_dir():
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:  # it was deleted meanwhile, or is a link that leads nowhere
                    continue
                yield file_status(f"{folder.rstrip('/')}/{entry.name}", status)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise HoodieIOException(f"Listing {folder} failed: {error}") from error


def files_below(storage: HoodieStorage, folder: str) -> Iterator[FileStatus]:
    """The files below a folder, at any depth, in no particular order; hidden ones are left out.

    Args:
        storage: The storage.
        folder: Its full path.

    Raises:
        HoodieIOException: Storage failed.
    """
    if "://" in folder:
        start = len(folder) + 1
        for file in storage.list_files(folder):
            if not any(is_hidden(name) for name in file.path[start:].split("/")):
                yield file
        return
    open_folders = [folder]
    while open_folders:
        for child in children_of(storage, open_folders.pop()):
            if is_hidden(child.name):
                continue
            if child.is_directory:
                open_folders.append(child.path)
            else:
                yield child


def matches_of(storage: HoodieStorage, path: str, threads: int = 1) -> list[FileStatus]:
    """The files and folders that a path with globs names; hidden ones only if the glob says their first character.

    Args:
        storage: The storage.
        path: A normalised path. If something has that very name, it is meant.
        threads: The number of folders that are listed at once.

    Raises:
        HoodieConfigException: The braces of the glob do not fit, or give too many names.
        HoodieIOException: Storage failed.
    """
    itself = storage.file_status(path)
    if itself is not None:
        return [itself]
    found: dict[str, FileStatus] = {}
    if _GLOB.search(path) is not None:
        root = glob_root(path)
        names = [name for name in path[len(root) :].split("/") if name]
        for status in _matches(storage, [root], names, threads):
            found[status.path] = status
    return list(found.values())


def _matches(storage: HoodieStorage, folders: Sequence[str], names: Sequence[str], threads: int) -> list[FileStatus]:
    """The matches of the first name, and below them those of the other ones."""
    name, *others = names
    if name == _ANY_DEPTH and not others:
        return [FileStatus(folder, 0, 0, is_directory=True) for folder in folders]
    if name == _ANY_DEPTH:
        here = _matches(storage, folders, others, threads)
        below = [child.path for child in _children_of_all(storage, folders, threads) if child.is_directory]
        below = [path for path in below if not is_hidden(path.rpartition("/")[2])]
        return here + (_matches(storage, below, names, threads) if below else [])
    matches = _matcher(name)
    found = [child for child in _children_of_all(storage, folders, threads) if matches(child.name)]
    if not others:
        return found
    below = [child.path for child in found if child.is_directory]
    return _matches(storage, below, others, threads) if below else []


def _children_of_all(storage: HoodieStorage, folders: Sequence[str], threads: int) -> Iterator[FileStatus]:
    for children in each_at_once(lambda folder: list(children_of(storage, folder)), folders, threads):
        yield from children


def each_at_once(work: Callable[[T], R], subjects: Sequence[T], threads: int) -> Iterable[R]:
    """The results of some calls, in order.

    Args:
        work: The call for one subject.
        subjects: The subjects.
        threads: The most calls at once.
    """
    if threads == 1 or len(subjects) < 2:
        return map(work, subjects)
    with ThreadPool(min(threads, len(subjects)), "hoodie-listing") as pool:
        return list(pool.map(work, subjects))


def _matcher(name: str) -> Callable[[str], bool]:
    alternatives = _without_braces(name)
    expressions = [(re.compile(fnmatch.translate(one)), is_hidden(one)) for one in alternatives]

    def matches(found: str) -> bool:
        return any(
            (says_hidden or not is_hidden(found)) and expression.match(found) is not None
            for expression, says_hidden in expressions
        )

    return matches


def _without_braces(name: str) -> list[str]:
    """``{a,b}c`` is ``ac`` and ``bc``."""
    start = name.find("{")
    if start < 0:
        return [name]
    depth, commas = 0, [start]
    for place in range(start, len(name)):
        depth += {"{": 1, "}": -1}.get(name[place], 0)
        if depth == 1 and name[place] == ",":
            commas.append(place)
        if depth == 0:
            commas.append(place)
            break
    else:
        raise HoodieConfigException(f"the glob {name} has a '{{' without its '}}'")
    parts = [name[first + 1 : last] for first, last in pairwise(commas)]
    found = [one for part in parts for one in _without_braces(name[:start] + part + name[commas[-1] + 1 :])]
    if len(found) > _MOST_ALTERNATIVES:
        raise HoodieConfigException(f"the glob {name} stands for more than {_MOST_ALTERNATIVES} names: write fewer")
    return found
