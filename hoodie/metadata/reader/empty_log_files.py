"""The empty log files with which file groups of a metadata table begin. They need not be read.

A build of a partition of a metadata table begins each file group with a log file of one delete block without keys, so
that file groups without records exist, too. Such a file is known by its name and size:

- It belongs to an instant that built a partition, is its first one, and has the token ``0-0-0``.
- It has `_BLOCK_BYTES` beside the digits of the instant, which the block's only header repeats: 80 bytes, in version 6
  up to 83.

Nothing else has that size. The trailer of an HFile alone takes 4096 bytes. A delete block with a key takes at least
four bytes more, a command block that cancels an instant of that length 25 bytes more, and two blocks take 92 bytes.

Hudi: HoodieBackedTableMetadataWriter.initializeFileGroups.
"""

from __future__ import annotations

import attrs

from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.metadata.reader.metadata_table_files import is_initial_time

_BLOCK_BYTES = 63
_TOKEN = "0-0-0"


def is_empty_log_file(log_file: HoodieLogFile) -> bool:
    """Whether a log file of a metadata table is an empty one that begins a file group, by its name and size.

    Args:
        log_file: The log file, with its size from a listing of storage.
    """
    return (
        log_file.size_bytes == _BLOCK_BYTES + len(log_file.instant_time)
        and log_file.version == 1
        and log_file.write_token == _TOKEN
        and is_initial_time(log_file.instant_time)
    )


def without_empty_log_files(file_slice: FileSlice) -> FileSlice:
    """A slice of a metadata table without its empty log files.

    Args:
        file_slice: As listed.
    """
    log_files = tuple(log_file for log_file in file_slice.log_files if not is_empty_log_file(log_file))
    return file_slice if len(log_files) == len(file_slice.log_files) else attrs.evolve(file_slice, log_files=log_files)
