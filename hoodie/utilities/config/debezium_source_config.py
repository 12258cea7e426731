"""Properties of the sources of Debezium."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, property_field, text


@attrs.frozen(kw_only=True, repr=False)
class DebeziumSourceConfig(PropertyGroup):
    """Properties of PostgresDebeziumSource and MysqlDebeziumSource, beside those of all sources of Kafka."""

    override_checkpoint: str | None = property_field(
        "hoodie.debezium.override.initial.checkpoint.key", text("a position of a topic"), None
    )
    "The position that commits hold instead of the one after their rows, to move to another topic or offset."
    marks_deletes: bool | None = property_field(
        "hoodie.streamer.source.debezium.mark.deletes", boolean(), None, is_ours=True
    )
    """Whether rows have `_hoodie_is_deleted`, by which deletes work with every payload. By default they do if the table
    is new or has this column. Payloads of Debezium know `_change_operation_type`, and do not need it."""
