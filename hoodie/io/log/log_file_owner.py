"""A check whether an instant wrote a log file.

Hudi has no such check.
"""

from __future__ import annotations

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.exception import HoodieCorruptedDataException, HoodieMissingFileException, HoodieNotSupportedException
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.storage.storage import HoodieStorage


def is_log_file_of(storage: HoodieStorage, path: str, instant_time: str) -> bool:
    """Whether an instant alone wrote a log file, so that a rollback of the instant deletes the file.

    In table versions 8 and 9 the name of the file shows it. In version 6 the name holds the base instant of the slice,
    and two writers may choose the same name; then the blocks show it.

    Args:
        storage: The storage of the file.
        path: Full path of the file.
        instant_time: The instant.

    Returns:
        In version 6, False also if the file is missing, has a block of another instant, or cannot be read.

    Raises:
        HoodieIOException: Storage failed.
    """
    name = parse_log_file_name(path.rsplit("/", 1)[-1])
    if name is None:
        return False
    if name.instant_time == instant_time:
        return True
    try:
        with open_log_file(storage, path) as reader:
            instants = {block.headers.get(HeaderMetadataType.INSTANT_TIME) for block in reader.stored_blocks()}
    except (HoodieMissingFileException, HoodieCorruptedDataException, HoodieNotSupportedException):
        return False
    return instants == {instant_time}
