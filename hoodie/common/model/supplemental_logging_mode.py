"""The part of a change that a table stores.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCSupplementalLoggingMode.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hoodie.exception import HoodieConfigException

CDC_ENABLED: Final = "hoodie.table.cdc.enabled"
"""The property of a table that stores change data."""
LOGGING_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"
"""The property that says how much of each change is stored."""


class HoodieCDCSupplementalLoggingMode(StrEnum):
    """The part of each change that is stored. Readers look up the rest in the base files before and after it."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    """The operation and the record key."""
    DATA_BEFORE = "DATA_BEFORE"
    """The row before the change, too."""
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"
    """The rows before and after the change, and the time of the commit: nothing is looked up."""


def logging_mode_of(properties: Mapping[str, str]) -> HoodieCDCSupplementalLoggingMode | None:
    """The mode in which a table stores its changes; None for a table that stores none.

    Args:
        properties: The properties of the table; values in any case.

    Raises:
        HoodieConfigException: The mode is none of Hudi's.
    """
    if properties.get(CDC_ENABLED, "").strip().lower() != "true":
        return None
    text = properties.get(LOGGING_MODE, "").strip().upper() or HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER
    try:
        return HoodieCDCSupplementalLoggingMode(text)
    except ValueError:
        known = ", ".join(mode.value for mode in HoodieCDCSupplementalLoggingMode)
        raise HoodieConfigException(f"{LOGGING_MODE}={text} is no mode of change data: give one of {known}") from None


def cdc_properties(enabled: bool, mode: HoodieCDCSupplementalLoggingMode | None) -> dict[str, str]:
    """The properties of a table about its change data, as Hudi stores them: a mode only where change data is stored.

    Args:
        enabled: Whether the table stores change data.
        mode: The mode; None for the default, DATA_BEFORE_AFTER.
    """
    if not enabled:
        return {CDC_ENABLED: "false"}
    return {CDC_ENABLED: "true", LOGGING_MODE: mode or HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER}
