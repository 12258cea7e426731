"""The manifest of the archive of timeline layout 2: the files that it consists of.

::

    _version_       "7": the number of the newest manifest
    manifest_7      {"files": [{"fileName": "20260102101530123_20260102111530123_0.parquet", "fileLen": 8583}, ...]}

A file counts only if the newest manifest lists it. Its name holds the first and the last requested time of its rows,
and its level. Files of level 0 are new; a file of a higher level was made of several of the level below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import attrs

from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

VERSION_FILE = "_version_"
"""The file that holds the number of the newest manifest."""
MAX_LEVEL = 9
"""Names have one digit for the level."""

_MANIFEST = re.compile(r"manifest_(\d+)", re.ASCII)
_DATA_FILE = re.compile(r"(\d+)_(\d+)_(\d)\.parquet", re.ASCII)


@attrs.frozen(order=True)
class LsmFile:
    """A file of the archive, as a manifest lists it; files are in the order of their times.

    Attributes:
        first: The smaller requested time in the name. Archives that Hudi upgraded have rows outside of the two times.
        last: The larger requested time in the name.
        level: 0 for a file that was not compacted.
        name: Name of the file.
        size_bytes: Its length.
    """

    first: str
    last: str
    level: int
    name: str
    size_bytes: int

    @classmethod
    def of(cls, name: str, size_bytes: int) -> LsmFile | None:
        """The file of a name; None if it is no name of a file of an archive."""
        match = _DATA_FILE.fullmatch(name)
        if match is None:
            return None
        first, last = sorted(match.group(1, 2))
        return cls(first, last, int(match[3]), name, size_bytes)

    @staticmethod
    def name_of(first: str, last: str, level: int) -> str:
        """The name of a file with rows of these requested times.

        Args:
            first: The first requested time.
            last: The last one.
            level: The level.
        """
        return f"{first}_{last}_{level}.parquet"


@attrs.frozen
class LsmManifest:
    """The files that make up an archive.

    Attributes:
        number: The manifest's number; 0 for an archive without manifests, which is empty.
        files: The files, in the manifest's order.
        has_version: Whether the file ``_version_`` names it. Without that file the manifest of the largest number is
            the newest.
    """

    number: int
    files: tuple[LsmFile, ...]
    has_version: bool = True

    def paths(self, folder: str) -> list[str]:
        """Full paths of the files."""
        return [join(folder, file.name) for file in self.files]


def manifest_name(number: int) -> str:
    """The name of a manifest."""
    return f"manifest_{number}"


def manifest_numbers(storage: HoodieStorage, folder: str) -> list[int]:
    """The numbers of all manifests of an archive, in ascending order.

    Raises:
        HoodieIOException: Storage failed.
    """
    names = (status.name for status in storage.list_directory(folder) if not status.is_directory)
    matches = (_MANIFEST.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match is not None)


def newest_manifest(storage: HoodieStorage, folder: str) -> LsmManifest:
    """The newest manifest of an archive.

    Writers of Hudi delete ``_version_`` and make it anew. Where it is missing or empty, the listing tells.

    Raises:
        FileNotFoundError: The manifest was deleted meanwhile.
        HoodieCorruptedDataException: The manifest is damaged.
        HoodieIOException: Storage failed.
    """
    number = version_of(storage, folder)
    if number is not None:
        return LsmManifest(number, read_manifest(storage, folder, number))
    numbers = manifest_numbers(storage, folder)
    if not numbers:
        return LsmManifest(0, (), False)
    return LsmManifest(numbers[-1], read_manifest(storage, folder, numbers[-1]), False)


def version_of(storage: HoodieStorage, folder: str) -> int | None:
    """The number in ``_version_``; None if that file is missing or unreadable.

    Raises:
        HoodieIOException: Storage failed.
    """
    try:
        text = storage.read(join(folder, VERSION_FILE)).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def read_manifest(storage: HoodieStorage, folder: str, number: int) -> tuple[LsmFile, ...]:
    """The files that a manifest lists.

    Raises:
        FileNotFoundError: There is no such manifest.
        HoodieCorruptedDataException: It is damaged.
        HoodieIOException: Storage failed.
    """
    path = join(folder, manifest_name(number))
    try:
        listed = [(str(file["fileName"]), int(file["fileLen"])) for file in json.loads(storage.read(path))["files"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise HoodieCorruptedDataException(
            f"Cannot read the manifest {path} of the archived timeline: {error!r}"
        ) from error
    files = []
    for name, size_bytes in listed:
        file = LsmFile.of(name, size_bytes)
        if file is None:
            raise HoodieCorruptedDataException(f"The manifest {path} lists {name!r}, which is no file of an archive")
        files.append(file)
    return tuple(files)


def encode_manifest(files: Sequence[LsmFile]) -> bytes:
    """The content of a manifest."""
    return json.dumps({"files": [{"fileName": file.name, "fileLen": file.size_bytes} for file in files]}).encode()
