"""The placement of records by the index, for the tasks of a write."""

from __future__ import annotations

from typing import Protocol

import attrs
import pyarrow as pa


class KeyCheck(Protocol):
    """Refuses a base file that holds keys of another file group; crosses to tasks."""

    def __call__(self, stored: pa.Array | pa.ChunkedArray, path: str, file_id: str) -> int:
        """Look at keys of the file.

        Args:
            stored: Its record keys (string), all or some.
            path: Full path of the base file.
            file_id: Its file group.

        Returns:
            How many were looked at.

        Raises:
            HoodieIndexException: A key belongs to another file group.
        """


@attrs.frozen
class RecordPlacement:
    """The placement of records by the index, as one value that crosses to tasks.

    Attributes:
        names_file_groups: Whether the key alone decides the file group of a record; a file group then has all of its
            records, however many.
        knows_positions: Whether the rows of an upsert or delete have the position of their key in the base file;
            otherwise the task that writes the file group looks for it.
        verifies_positions: Whether the task compares the keys at these positions with those of the rows.
        key_check: Refuses a base file with keys of other file groups; None where there can be none.
    """

    names_file_groups: bool = False
    knows_positions: bool = True
    verifies_positions: bool = False
    key_check: KeyCheck | None = None
