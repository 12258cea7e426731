"""Properties of the error table, which keeps messages and lines that could not be made rows."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field, text

_PREFIX: Final = "hoodie.errortable."


class ErrorWriteFailureStrategy(StrEnum):
    """The fate of a round whose errors cannot be kept.

    Hudi: org.apache.hudi.config.HoodieErrorTableConfig.ErrorWriteFailureStrategy.
    """

    ROLLBACK_COMMIT = "ROLLBACK_COMMIT"
    LOG_ERROR = "LOG_ERROR"


@attrs.frozen(kw_only=True, repr=False)
class HoodieErrorTableConfig(PropertyGroup):
    """The error table of a streamer.

    Hudi: org.apache.hudi.config.HoodieErrorTableConfig. Differs: a writer is there, so one property is enough.
    """

    is_enabled: bool = property_field(f"{_PREFIX}enable", boolean(), False)
    """Keep messages and lines that cannot be made rows in a table of their own, and go on. Otherwise the first one
    fails the round."""
    base_path: str | None = property_field(f"{_PREFIX}base.path", text("a folder"), None)
    """The folder of the error table; by default that of the table with `_errors` at its end."""
    table_name: str | None = property_field(f"{_PREFIX}target.table.name", text("a name"), None)
    """The name of the error table; by default that of the table with `_errors` at its end."""
    write_class: str | None = property_field(f"{_PREFIX}write.class", text("a class"), None)
    """A writer of your own, as `module:Class`: a subclass of
    `hoodie.utilities.streamer.error_table.BaseErrorTableWriter`."""
    validates_target_schema: bool = property_field(f"{_PREFIX}validate.targetschema.enable", boolean(), False)
    """Whether rows that do not fit the target schema go to the error table. Otherwise they fail the round."""
    validates_record_creation: bool = property_field(
        f"{_PREFIX}validate.recordcreation.enable", boolean(), True, since="0.15.0"
    )
    """Whether rows without a record key, or whose key or partition path cannot be stored, go to the error table.
    Otherwise they fail the round."""
    failure_strategy: ErrorWriteFailureStrategy = property_field(
        f"{_PREFIX}write.failure.strategy",
        choice(ErrorWriteFailureStrategy),
        ErrorWriteFailureStrategy.ROLLBACK_COMMIT,
    )
    """The fate of a round whose errors cannot be kept: ROLLBACK_COMMIT fails it, and nothing is committed; LOG_ERROR
    commits its rows, and the errors are only counted in the log."""
    upsert_parallelism: int = property_field(f"{_PREFIX}upsert.shuffle.parallelism", integer(minimum=0), 200)
    """No effect: errors are written in the process of the streamer."""
    insert_parallelism: int = property_field(f"{_PREFIX}insert.shuffle.parallelism", integer(minimum=0), 200)
    """No effect, likewise."""
    persists_source: bool = property_field(f"{_PREFIX}source.rdd.persist", boolean(), False, since="1.0")
    """No effect: rows are read once."""
    unites_writes: bool = property_field(f"{_PREFIX}write.union.enable", boolean(), False, since="1.0")
    """No effect: errors are always written before the rows are committed."""
