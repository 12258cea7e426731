"""The log files with which file groups of a metadata table begin: they hold nothing, and need not be read.

Who builds a partition of a metadata table begins each file group with a log file of one delete block without keys, so
that also groups without records are there. Its name and size tell such a file:

- It belongs to an instant that built a partition, is its first one, and has the token ``0-0-0``.
- It has `_BLOCK_BYTES` beside the digits of the instant, which the block's only header repeats: 80 bytes, in version 6
  up to 83.

Nothing else has that size. An HFile alone takes 4096 bytes for its trailer. A delete block with a key takes at least
four bytes more, a command that takes back an instant of that length 25, and two blocks 92 bytes.

Hudi: HoodieBackedTableMetadataWriter.initializeFileGroups.
"""

from __future__ import annotations

import attrs

from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.metadata.reader.metadata_table_files import is_initial_time

_BLOCK_BYTES = 63
_TOKEN = "0-0-0"


def is_empty_log_file(log_file: HoodieLogFile) -> bool:
    """Whether a log file of a metadata table is one with which a file group begins, as its name and size tell.

    Args:
        log_file: As a listing of storage has told it.
    """
    return (
        log_file.size_bytes == _BLOCK_BYTES + len(log_file.instant_time)
        and log_file.version == 1
        and log_file.write_token == _TOKEN
        and is_initial_time(log_file.instant_time)
    )


def without_empty_log_files(file_slice: FileSlice) -> FileSlice:
    """A slice of a metadata table without log files that hold nothing.

    Args:
        file_slice: As listed.
    """
    left = tuple(log_file for log_file in file_slice.log_files if not is_empty_log_file(log_file))
    return file_slice if len(left) == len(file_slice.log_files) else attrs.evolve(file_slice, log_files=left)
