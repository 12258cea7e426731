"""The rules of Hudi's payload classes on copy-on-write tables, as values.

A payload class answers three questions: which of several incoming rows with the same key stays, whether an incoming row
replaces the stored one, and which rows are deletes. `MergeSpec` takes the answers from here and applies them to
columns. ``docs/merging.md`` shows them as a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import attrs

_MODEL_PACKAGE = "org.apache.hudi.common.model."
_DEBEZIUM_PACKAGE = f"{_MODEL_PACKAGE}debezium."
OVERWRITE_WITH_LATEST_PAYLOAD = f"{_MODEL_PACKAGE}OverwriteWithLatestAvroPayload"
DEFAULT_PAYLOAD = f"{_MODEL_PACKAGE}DefaultHoodieRecordPayload"
EVENT_TIME_PAYLOAD = f"{_MODEL_PACKAGE}EventTimeAvroPayload"
FIRST_VALUE_PAYLOAD = f"{_MODEL_PACKAGE}FirstValueAvroPayload"
PARTIAL_UPDATE_PAYLOAD = f"{_MODEL_PACKAGE}PartialUpdateAvroPayload"
OVERWRITE_NON_DEFAULTS_PAYLOAD = f"{_MODEL_PACKAGE}OverwriteNonDefaultsWithLatestAvroPayload"
AWS_DMS_PAYLOAD = f"{_MODEL_PACKAGE}AWSDmsAvroPayload"
MYSQL_DEBEZIUM_PAYLOAD = f"{_DEBEZIUM_PACKAGE}MySqlDebeziumAvroPayload"
POSTGRES_DEBEZIUM_PAYLOAD = f"{_DEBEZIUM_PACKAGE}PostgresDebeziumAvroPayload"

LEGACY_PAYLOADS: Mapping[str, str] = MappingProxyType({"org.apache.hudi.payload.AWSDmsAvroPayload": AWS_DMS_PAYLOAD})
"""Older names of payload classes that Hudi still accepts."""

MERGER_PREFIX = "python:"
"""The prefix of the payload class of tables whose records a Python class merges.

The class follows it (``python:shop.mergers.Largest``). A Java name never contains a colon: another engine that would
have to merge looks for a class that cannot exist, and fails, instead of merging by other rules.
"""

TOASTED_VALUE = "__debezium_unavailable_value"
"""The value that Debezium writes for a large PostgreSQL value that an update did not change."""

DEBEZIUM_OPERATION = "_change_operation_type"
BINLOG_POSITION = "_event_seq"
LOG_SEQUENCE_NUMBER = "_event_lsn"


class MergeMode(StrEnum):
    """Hudi 1.x's name for how records merge.

    Hudi: org.apache.hudi.common.config.RecordMergeMode.
    """

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class StoredRule(StrEnum):
    """The rule by which a stored row wins against an incoming row."""

    NEVER = "never"
    LARGER = "its ordering value is larger"
    LARGER_OR_EQUAL = "its ordering value is not smaller"
    BINLOG = "its binlog position is not smaller"
    LOG_SEQUENCE = "its log sequence number is larger"


class FieldRule(StrEnum):
    """The values of an incoming row that leave the stored values unchanged."""

    NULLS = "nulls"
    DEFAULTS = "nulls and the schema's default values"
    TOASTED = "values marked as unavailable"


@attrs.frozen
class PayloadRules:
    """The rules of one payload class.

    Attributes:
        class_name: The class with its package.
        mode: Hudi 1.x's merge mode for it.
        stored_rule: The rule by which the stored row wins.
        field_rule: The rule which incoming values are ignored; None: rows are taken as a whole.
        first_of_equals: The first of incoming rows with the same key and equal ordering values stays, not the last.
        combines_fields: Incoming rows with the same key are merged field by field, instead of choosing one.
        deletes_compete: A row marked as deleted loses to a stored row that wins; without this, it always deletes.
        takes_markers: Whether ``hoodie.payload.delete.field`` and ``.marker`` are used.
        delete_column: A column that marks deletes, in addition to ``_hoodie_is_deleted``.
        delete_value: The value of that column that marks a delete, in any case.
        sequence_column: A column that orders an incoming row against a stored one; it must not be null then.
        by_mode: These are the rules of a merge mode (tables of versions 8 and 9), not of a payload class. The class is
            then that of the mode. The winner of two rows takes values from the other by `field_rule`, whichever of them
            is stored; a delete gives and takes nothing.

    Hudi: org.apache.hudi.common.model.{OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload,
    EventTimeAvroPayload, FirstValueAvroPayload, PartialUpdateAvroPayload, OverwriteNonDefaultsWithLatestAvroPayload,
    AWSDmsAvroPayload}, and of its package debezium {MySqlDebeziumAvroPayload, PostgresDebeziumAvroPayload}.
    """

    class_name: str
    mode: MergeMode = MergeMode.CUSTOM
    stored_rule: StoredRule = StoredRule.NEVER
    field_rule: FieldRule | None = None
    first_of_equals: bool = False
    combines_fields: bool = False
    deletes_compete: bool = False
    takes_markers: bool = False
    delete_column: str | None = None
    delete_value: str | None = None
    sequence_column: str | None = None
    by_mode: bool = False

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Columns without which Hudi cannot merge."""
        return () if self.sequence_column is None else (self.sequence_column,)

    @property
    def needs_ordering_field(self) -> bool:
        """Whether the rules require an ordering field."""
        return self.stored_rule in (StoredRule.LARGER, StoredRule.LARGER_OR_EQUAL) and self.field_rule is None

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.class_name.rpartition(".")[2]


PAYLOADS: Mapping[str, PayloadRules] = MappingProxyType(
    {
        rules.class_name: rules
        for rules in (
            PayloadRules(OVERWRITE_WITH_LATEST_PAYLOAD, MergeMode.COMMIT_TIME_ORDERING),
            PayloadRules(
                DEFAULT_PAYLOAD,
                MergeMode.EVENT_TIME_ORDERING,
                StoredRule.LARGER,
                deletes_compete=True,
                takes_markers=True,
            ),
            PayloadRules(EVENT_TIME_PAYLOAD, MergeMode.EVENT_TIME_ORDERING, StoredRule.LARGER, takes_markers=True),
            PayloadRules(
                FIRST_VALUE_PAYLOAD,
                stored_rule=StoredRule.LARGER_OR_EQUAL,
                first_of_equals=True,
                deletes_compete=True,
                takes_markers=True,
            ),
            PayloadRules(
                PARTIAL_UPDATE_PAYLOAD,
                stored_rule=StoredRule.LARGER,
                field_rule=FieldRule.NULLS,
                combines_fields=True,
            ),
            PayloadRules(OVERWRITE_NON_DEFAULTS_PAYLOAD, field_rule=FieldRule.DEFAULTS),
            PayloadRules(AWS_DMS_PAYLOAD, delete_column="Op", delete_value="D"),
            PayloadRules(
                MYSQL_DEBEZIUM_PAYLOAD,
                stored_rule=StoredRule.BINLOG,
                deletes_compete=True,
                delete_column=DEBEZIUM_OPERATION,
                delete_value="d",
                sequence_column=BINLOG_POSITION,
            ),
            PayloadRules(
                POSTGRES_DEBEZIUM_PAYLOAD,
                stored_rule=StoredRule.LOG_SEQUENCE,
                field_rule=FieldRule.TOASTED,
                deletes_compete=True,
                delete_column=DEBEZIUM_OPERATION,
                delete_value="d",
                sequence_column=LOG_SEQUENCE_NUMBER,
            ),
        )
    }
)
"""Class name with package -> its rules."""

PAYLOAD_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "OVERWRITE_LATEST_AVRO": OVERWRITE_WITH_LATEST_PAYLOAD,
        "HOODIE_AVRO_DEFAULT": DEFAULT_PAYLOAD,
        "EVENT_TIME_AVRO": EVENT_TIME_PAYLOAD,
        "OVERWRITE_NON_DEF_LATEST_AVRO": OVERWRITE_NON_DEFAULTS_PAYLOAD,
        "PARTIAL_UPDATE_AVRO": PARTIAL_UPDATE_PAYLOAD,
        "AWS_DMS_AVRO": AWS_DMS_PAYLOAD,
        "MYSQL_DEBEZIUM_AVRO": MYSQL_DEBEZIUM_PAYLOAD,
        "POSTGRES_DEBEZIUM_AVRO": POSTGRES_DEBEZIUM_PAYLOAD,
    }
)
"""Hudi's short names (``hoodie.compaction.payload.type``) -> class names."""


def canonical_payload_class(name: str) -> str:
    """The name that hoodie uses for a payload class.

    Args:
        name: A class name with or without package, from current or older releases (``com.uber.hoodie...``), or a short
            name from `PAYLOAD_TYPES`.

    Returns:
        The class name with its package. An unknown name is returned with Hudi's package, or unchanged.
    """
    name = name.strip()
    if name.startswith(MERGER_PREFIX):
        return name
    name = name.replace("com.uber.hoodie", "org.apache.hudi")
    name = LEGACY_PAYLOADS.get(name, PAYLOAD_TYPES.get(name.upper(), name))
    if "." in name:
        return name
    known = (rules.class_name for rules in PAYLOADS.values() if rules.short_name == name)
    return next(known, f"{_MODEL_PACKAGE}{name}")


def merger_payload_class(merger_class: str) -> str:
    """The payload class that a table with a Python record merger stores."""
    return f"{MERGER_PREFIX}{merger_class}"


def instead_of_payload(payload_class: str) -> str:
    """The advice for a payload class that hoodie does not have.

    Args:
        payload_class: The class, which is not one of `PAYLOADS`.
    """
    name = payload_class.rpartition(".")[2]
    if name in ("CustomMergeIntoConnector", "ExpressionPayload"):
        return "it computes rows as MERGE INTO does: leave it out, and use hoodie.spark.merge_into"
    if name == "EmptyHoodieRecordPayload":
        return "it makes an upsert a delete: give hoodie.datasource.write.operation = delete, and leave the payload out"
    return f"use one of {', '.join(PAYLOADS)}"
