"""The Avro schemas of stored changes.

Hudi: org.apache.hudi.common.table.cdc.HoodieCDCUtils. Differs: only the schemas are here.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from hoodie.avro.schema_converters import remove_meta_columns
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode

OP: Final = "op"
"""The column of the operation."""
RECORD_KEY_FIELD: Final = "record_key"
TIME: Final = "ts_ms"
"""The column of the commit's requested time."""
BEFORE: Final = "before"
AFTER: Final = "after"
_MODES: Final = {
    frozenset({OP, RECORD_KEY_FIELD}): HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY,
    frozenset({OP, RECORD_KEY_FIELD, BEFORE}): HoodieCDCSupplementalLoggingMode.DATA_BEFORE,
    frozenset({OP, TIME, BEFORE, AFTER}): HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER,
}


@lru_cache(maxsize=64)
def cdc_schema(mode: HoodieCDCSupplementalLoggingMode, avro_schema: str) -> str:
    """The schema of the changes of a table, as the block's header SCHEMA stores it.

    Args:
        mode: The mode of the table.
        avro_schema: The schema of the rows as JSON; meta columns are left out.

    Returns:
        JSON of an Avro record: ``op`` and ``record_key`` for OP_KEY_ONLY; ``op``, ``record_key`` and ``before`` for
        DATA_BEFORE; ``op``, ``ts_ms``, ``before`` and ``after`` for DATA_BEFORE_AFTER.
    """
    if mode is HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY:
        fields = [{"name": name, "type": ["string", "null"]} for name in (OP, RECORD_KEY_FIELD)]
        return _dump({"type": "record", "name": "Record", "fields": fields})
    row: dict[str, Any] = json.loads(remove_meta_columns(avro_schema))
    namespace = row.pop("namespace", None)
    outer: dict[str, Any] = {"type": "record", "name": "CDC"}
    if namespace is not None:
        outer["namespace"] = namespace
    images = [_field(BEFORE, row)]
    names = [OP, RECORD_KEY_FIELD]
    if mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER:
        names = [OP, TIME]
        images.append(_field(AFTER, row["name"]))
    outer["doc"] = ""
    outer["fields"] = [*(_field(name, "string") for name in names), *images]
    return _dump(outer)


def mode_of_schema(schema: str) -> HoodieCDCSupplementalLoggingMode | None:
    """The mode of the table that stored changes; None if the schema is not one of changes.

    Args:
        schema: The schema of the changes; see `cdc_schema`.
    """
    fields = {field["name"] for field in json.loads(schema).get("fields", ())}
    return _MODES.get(frozenset(fields))


def _field(name: str, what: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", what], "doc": "", "default": None}


def _dump(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
