"""The placement of records by the index, for the tasks of a write."""

from __future__ import annotations

from typing import Protocol

import attrs
import pyarrow as pa

from hoodie.io.written_keys import WrittenKeys


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
        names_file_groups: Whether the key alone says which file group a record belongs to; a file group has all of its
            records then, however many.
        knows_positions: Whether the rows of an upsert or delete say at which row of the base file their key stands;
            else the task that writes the file group looks for it.
        looks_up_for_logs: Whether the task that writes a log file looks its keys up in the base file too.
        guesses_positions: Whether rows may say so by a hash of their key: the task compares the keys, and looks them up
            if one differs.
        verifies_positions: Whether the task compares these rows with the keys that they are said to hold.
        key_check: Refuses a base file with keys of other file groups; None where none can be.
        written_keys: Gets the record keys that handles write, for an index in the same process; None without such an
            index.
    """

    names_file_groups: bool = False
    knows_positions: bool = True
    verifies_positions: bool = False
    key_check: KeyCheck | None = None
    written_keys: WrittenKeys | None = attrs.field(default=None, repr=False, eq=False)
    looks_up_for_logs: bool = False
    guesses_positions: bool = False
