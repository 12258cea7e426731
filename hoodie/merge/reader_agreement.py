"""The differences between readers of a merge-on-read table, by the table's properties.

They merge log files when they read, each by its own code: Hudi 0.15, Hudi 1.x and hudi-rs. In a table of version 6
all of them give the same rows with DefaultHoodieRecordPayload and an ordering field (unless rows marked as deleted come
late), and with OverwriteWithLatestAvroPayload without one; in versions 8 and 9 with a merge mode other than CUSTOM and
at most one ordering field, but for what Hudi 1.0 fails to read. ``docs/merging.md`` lists every case.
"""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.merge.merge_modes import PARTIAL_UPDATE_KEY, is_by_mode
from hoodie.merge.merge_properties import MergeProperties
from hoodie.merge.payload_rules import (
    DEFAULT_PAYLOAD,
    MERGER_PREFIX,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    MergeMode,
    canonical_payload_class,
)


def differences_between_readers(properties: Mapping[str, str]) -> list[str]:
    """The cases in which readers of a table give different rows; none of a copy-on-write table.

    Args:
        properties: The table's properties.
    """
    if properties.get("hoodie.table.type", "").strip().upper() != HoodieTableType.MERGE_ON_READ:
        return []
    fields = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field") or ""
    orderings = [name for name in fields.split(",") if name.strip()]
    version = int(properties["hoodie.table.version"])
    found = _of_modes(properties, orderings, version) if is_by_mode(version) else _of_payloads(properties, orderings)
    if properties.get("hoodie.populate.meta.fields", "true").strip().lower() == "false":
        found.append(
            "hudi-rs does not merge log files of a table with hoodie.populate.meta.fields=false, and shows all rows of "
            "a key"
        )
    return found


def _of_payloads(properties: Mapping[str, str], orderings: list[str]) -> list[str]:
    payload = canonical_payload_class(MergeProperties.of(properties).payload_class or OVERWRITE_WITH_LATEST_PAYLOAD)
    if payload.startswith(MERGER_PREFIX):
        return [_only_hoodie(payload)]
    if payload == OVERWRITE_WITH_LATEST_PAYLOAD and orderings:
        return [
            f"with OverwriteWithLatestAvroPayload and the ordering field '{orderings[0]}', of two rows of a key in log "
            "files Hudi 0.15 takes the one with the larger value, also if one of them deletes the key; Hudi 1.x and "
            "hudi-rs take the later one. Hudi's upgrade to version 9 makes it EVENT_TIME_ORDERING. Leave the "
            "ordering field out, or take DefaultHoodieRecordPayload"
        ]
    if payload in (OVERWRITE_WITH_LATEST_PAYLOAD, DEFAULT_PAYLOAD):
        return []
    name = payload.rpartition(".")[2]
    difference = _OF_PAYLOAD.get(
        name, "each reader merges log files by code of its own, and hudi-rs may fail to read them"
    )
    return [f"with {name} {difference}; take DefaultHoodieRecordPayload with an ordering field for one result"]


def _of_modes(properties: Mapping[str, str], orderings: list[str], version: int) -> list[str]:
    found = []
    mode = properties.get("hoodie.record.merge.mode", "").strip().upper()
    payload = MergeProperties.of(properties).payload_class
    if mode == MergeMode.CUSTOM:
        is_of_python = payload is not None and payload.startswith(MERGER_PREFIX)
        found.append(_only_hoodie(payload) if is_of_python and payload else _CUSTOM)
    elif len(orderings) > 1:
        found.append("hudi-rs and Hudi 1.0 do not read a merge-on-read table of several ordering fields")
    elif mode == MergeMode.EVENT_TIME_ORDERING and orderings and version == _VERSION_OF_1_0:
        found.append(
            "by event time Hudi 1.0 fails to read log files in which a row follows a delete by key, until they are "
            "compacted; later releases read them"
        )
    if properties.get(PARTIAL_UPDATE_KEY) == "FILL_UNAVAILABLE":
        found.append(
            f"with {PARTIAL_UPDATE_KEY}=FILL_UNAVAILABLE hudi-rs takes rows whole, unavailable values included"
        )
    return found


_VERSION_OF_1_0 = 8
_CUSTOM = "with merge mode CUSTOM hudi-rs does not read the table, and Hudi 1.0 or Hudi 1.2 fails with most classes"
_OF_PAYLOAD = {
    "EventTimeAvroPayload": "a row marked as deleted that is older than the stored row deletes it in Hudi 0.15 and "
    "hoodie, and not in Hudi 1.x and hudi-rs",
    "FirstValueAvroPayload": "hudi-rs and Hudi 1.x fail to read the table",
    "PartialUpdateAvroPayload": "hudi-rs fails to read the table",
    "OverwriteNonDefaultsWithLatestAvroPayload": "hudi-rs fails to read the table, and of two rows of a key in log "
    "files Hudi 0.15 takes the one with the larger ordering value whole; Hudi 1.x and hoodie merge the later one",
}
"""Class without package -> the results of the readers in version 6."""


def _only_hoodie(payload: str) -> str:
    return (
        f"only hoodie can merge log files by {payload}: other readers fail, or show rows that your merger would not "
        "choose"
    )
