"""The kinds of changes.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCOperation.
"""

from __future__ import annotations

from enum import StrEnum


class HoodieCDCOperation(StrEnum):
    """The change of a record; the value is the one in the column ``op``."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
