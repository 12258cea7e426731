"""The range of record keys of a base file, read from its last bytes.

A footer is as large as its bloom filter, 430 kB by default. Hudi and hoodie write the smallest and the largest key
behind the filter, so a read of the end of the file tells them; of 10,000 files that is 40 MB instead of 4 GB.
"""

from __future__ import annotations

from hoodie.exception import HoodieIOException, HoodieMissingFileException
from hoodie.storage.storage import HoodieStorage

__all__ = ["TAIL_BYTES", "missing_base_file", "read_key_range"]

TAIL_BYTES = 4096
"""How much is read of the end of a file."""
_MAGIC = b"PAR1"
_NAMES = (b"hoodie_min_record_key", b"hoodie_max_record_key")
_BEGIN_OF_NAMES = b"hoodie_m"
_STRING_FIELD = b"\x18"
"""In Thrift's compact protocol: a string, of the field after the one before."""


def read_key_range(storage: HoodieStorage, path: str) -> tuple[bytes, bytes] | None:
    """The smallest and the largest record key, UTF-8; None when the end of the file does not tell them for sure.

    Then the whole footer must be asked: it may have no range, a long one, or another order of entries.

    Args:
        storage: Where the file is.
        path: Full path of the file.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieIOException: Storage failed.
    """
    try:
        with storage.open_input_file(path) as stream:
            size = stream.size()
            stream.seek(max(0, size - TAIL_BYTES))
            tail: bytes = stream.read(TAIL_BYTES)
    except FileNotFoundError as error:
        raise missing_base_file(path) from error
    except OSError as error:
        raise HoodieIOException(f"reading the end of {path} failed: {error}") from error
    return _parse(tail)


def missing_base_file(path: str) -> HoodieMissingFileException:
    """The error for a base file that is not there.

    Args:
        path: Its full path.
    """
    return HoodieMissingFileException(
        f"base file {path} is missing; if a clean, rollback or restore removed it meanwhile, load the table again, "
        "otherwise restore the file from a copy"
    )


def _parse(tail: bytes) -> tuple[bytes, bytes] | None:
    if len(tail) < 8 or tail[-4:] != _MAGIC:
        return None
    # What stands before the footer belongs to rows, which may say anything.
    footer = tail[-8 - int.from_bytes(tail[-8:-4], "little") : -8] if len(tail) >= 8 else b""
    low, high = (_value(footer, name) for name in _NAMES)
    if low is None or high is None or _BEGIN_OF_NAMES in low or _BEGIN_OF_NAMES in high:
        return None
    return low, high


def _value(footer: bytes, name: bytes) -> bytes | None:
    """The value of an entry: name and value are strings, each after its length; None unless it is there once."""
    entry = _STRING_FIELD + bytes([len(name)]) + name + _STRING_FIELD
    start = footer.find(entry)
    if start < 0 or footer.find(name, start + len(entry)) >= 0 or footer.find(name) != start + 2:
        return None
    place = start + len(entry)
    length = shift = 0
    while place < len(footer):
        byte = footer[place]
        place += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            value = footer[place : place + length]
            # Behind the value its entry ends.
            return value if footer[place + length : place + length + 1] == b"\0" else None
    return None
