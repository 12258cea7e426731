"""Make the record that the archive keeps of an instant: its state, and the content of its file.

Hudi: org.apache.hudi.common.table.timeline.MetadataConversionUtils.
"""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

from hoodie.avro.timeline_metadata import (
    complete,
    decode_datum_as,
    decode_record,
    encode_datums,
    encode_record,
    schema_of,
)
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.exception import HoodieCorruptedDataException, HoodieException

logger = logging.getLogger(__name__)

ENTRY_RECORD = "HoodieArchivedMetaEntry"
ROLLING_STAT = "ROLLING_STAT"
"""Key that archivers of Hudi add to the extra metadata of commits, with an empty value."""
_PLANS = {
    (Action.COMPACTION, State.REQUESTED): ("hoodieCompactionPlan", "HoodieCompactionPlan"),
    (Action.LOG_COMPACTION, State.REQUESTED): ("hoodieCompactionPlan", "HoodieCompactionPlan"),
    (Action.CLEAN, State.REQUESTED): ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    (Action.CLEAN, State.INFLIGHT): ("hoodieCleanerPlan", "HoodieCleanerPlan"),
    (Action.CLEAN, State.COMPLETED): ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    (Action.ROLLBACK, State.COMPLETED): ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
    (Action.SAVEPOINT, State.COMPLETED): ("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
    (Action.REPLACE_COMMIT, State.REQUESTED): ("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata"),
}
"""Contents that are Avro: the entry's field and its record. Commits hold JSON; the archive leaves out all others."""


@cache
def entry_schema() -> str:
    """The Avro schema of an entry, as JSON."""
    return json.dumps(schema_of(ENTRY_RECORD), separators=(",", ":"))


def encode_archived_entry(instant: HoodieInstant, content: bytes, transition_time: str, source: str) -> bytes:
    """The encoded record of one instant in one state.

    Args:
        instant: The instant and the state.
        content: The content of the state's file; may be empty.
        transition_time: The time at which that file was made, as an instant time.
        source: The file's path, for the error message.

    Raises:
        HoodieCorruptedDataException: The content of a completed instant is damaged. (Damaged content of a pending state
            is left out with a warning: nobody needs it any more.)
    """
    try:
        field, value = _payload(instant, content, source)
        return _encode(instant, transition_time, field, value)
    except HoodieException as error:
        if instant.state is State.COMPLETED:
            raise HoodieCorruptedDataException(f"Cannot archive {instant}: {error}") from error
        logger.warning("%s is archived without the content of %s, which is damaged: %s", instant, source, error)
        return _encode(instant, transition_time, None, None)


def completed_content(instant: HoodieInstant, schema: str, datum: bytes, source: str) -> bytes | None:
    """The content of the completed file of an archived instant, for actions whose files are the same in all layouts.

    Args:
        instant: A completed instant that is no commit.
        schema: The schema of its record.
        datum: The record.
        source: The file of the archive, for the error message.

    Returns:
        The content; None if the archive has none.

    Raises:
        HoodieCorruptedDataException: The record is damaged.
    """
    found = _PLANS.get((instant.action, State.COMPLETED))
    if found is None:
        return None
    field, record = found
    value = decode_datum_as(schema, datum, ENTRY_RECORD, source).get(field)
    return None if value is None else encode_record(record, value)


def _encode(instant: HoodieInstant, transition_time: str, field: str | None, value: Any) -> bytes:
    entry: dict[str, Any] = {
        "commitTime": instant.requested_time,
        "actionType": str(instant.action),
        "actionState": State(instant.state).name,
        "stateTransitionTime": transition_time,
        "version": 1,
    }
    if field is not None:
        entry[field] = value
    return encode_datums(ENTRY_RECORD, [complete(ENTRY_RECORD, entry)])[0]


def _payload(instant: HoodieInstant, content: bytes, source: str) -> tuple[str | None, Any]:
    found = _PLANS.get((instant.action, instant.state))
    is_replace = instant.action is Action.REPLACE_COMMIT
    if not content and instant.is_pending and (found is not None or is_replace):
        return None, None
    if found is not None:
        field, record = found
        return field, decode_record(content, record, source)
    if is_replace and instant.is_completed:
        return "hoodieReplaceCommitMetadata", _commit("HoodieReplaceCommitMetadata", content, source)
    if is_replace:
        return "HoodieInflightReplaceMetadata", _commit("HoodieCommitMetadata", content, source)
    if instant.action in COMMIT_ACTIONS:
        if not content and instant.state is State.COMPLETED:
            raise HoodieCorruptedDataException(f"{source} is empty")
        return "hoodieCommitMetadata", _commit("HoodieCommitMetadata", content or b"{}", source)
    return None, None


def _commit(record: str, content: bytes, source: str) -> dict[str, Any]:
    """Commit metadata as its Avro record, with the changes that Hudi's archivers make."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HoodieCorruptedDataException(f"Cannot read {source} as the JSON of a commit: {error}") from error
    if not isinstance(value, dict):
        raise HoodieCorruptedDataException(f"Cannot read {source} as the JSON of a commit: it is no object")
    HoodieCommitMetadata.from_value(value, source)
    extra = {key: text for key, text in (value.get("extraMetadata") or {}).items() if text is not None}
    operation = value.get("operationType") or WriteOperationType.UNKNOWN.value
    if value.get("compacted") is True:
        operation = WriteOperationType.COMPACT.value
    completed = complete(
        record,
        {
            **value,
            "extraMetadata": {
                **{key: text if isinstance(text, str) else json.dumps(text) for key, text in extra.items()},
                ROLLING_STAT: "",
            },
            "operationType": operation,
            "version": None,
        },
    )
    stats = completed["partitionToWriteStats"] or {}
    completed["partitionToWriteStats"] = {
        partition_path: [complete("HoodieWriteStat", stat) for stat in group] for partition_path, group in stats.items()
    }
    return completed
