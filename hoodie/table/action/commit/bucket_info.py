"""A bucket: what one task of a write does.

Hudi: org.apache.hudi.table.action.commit.{BucketInfo, BucketType}.
"""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.io.append_handle import LogPlace


class BucketType(StrEnum):
    """Whether a bucket's rows go to an existing file group or to new ones."""

    UPDATE = "UPDATE"
    INSERT = "INSERT"


@attrs.frozen
class BucketInfo:
    """The destination of the rows of one bucket.

    Attributes:
        bucket_type: Existing file group or new ones.
        file_id: UPDATE: the file group's id. INSERT: the prefix of the ids of the new groups.
        partition_path: The partition.
        file_slice: UPDATE: the version to start from.
        log_place: UPDATE: where the rows are appended; None: the base file is rewritten. INSERT: where the rows are
            written, if the new file group begins with a log file.
    """

    bucket_type: BucketType
    file_id: str
    partition_path: str
    file_slice: FileSlice | None = None
    log_place: LogPlace | None = None
