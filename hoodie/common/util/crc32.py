"""The checksum CRC-32 of zlib and gzip, computed ten times as fast by ISA-L where that is installed."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    # The library has no wheels for some processors.
    from zlib import crc32

__all__ = ["crc32"]
