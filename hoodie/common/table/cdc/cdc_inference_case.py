"""The ways in which the changes of a file group are found.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCInferenceCase. Differs: has cases for commits that stored no changes.
"""

from __future__ import annotations

from enum import StrEnum


class HoodieCDCInferenceCase(StrEnum):
    """The source of the changes of a file group, or of a partition."""

    AS_IS = "AS_IS"
    """The changes are stored in ``.cdc`` files; images that the mode of the table leaves out are looked up."""
    BASE_FILE_INSERT = "BASE_FILE_INSERT"
    """A new file group: its rows are inserts."""
    BASE_FILE_DELETE = "BASE_FILE_DELETE"
    """No row is left in the new base file: the rows before it are deletes."""
    LOG_FILE = "LOG_FILE"
    """The records of log files are compared with the rows before them."""
    REPLACE_COMMIT = "REPLACE_COMMIT"
    """The file group was replaced: its rows are deletes."""
    ROWS_OF_COMMIT = "ROWS_OF_COMMIT"
    """A base file with new rows beside older ones, and no stored changes: the rows of the commit are inserts."""
    BASE_FILE_COMPARE = "BASE_FILE_COMPARE"
    """A base file with updates or deletes, and no stored changes: it is compared with the one before it."""
    STATE_COMPARE = "STATE_COMPARE"
    """The table stores no changes: the states at the begin and at the end of the range are compared."""
