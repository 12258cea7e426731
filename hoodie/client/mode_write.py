"""Write a frame in one of Spark's modes, for writes without a client, whatever the engine.

Mode overwrite never deletes rows before the new ones are complete. It has two ways:

1. If mode append would take the options and the columns, all rows are replaced by one ``replacecommit``.
2. If anything of the table changes, a new table is written beside the old one, and takes its place; see
   `hoodie.client.table_replacement`.

Hudi: org.apache.hudi.HoodieSparkSqlWriter (handleSaveModes). Differs: Hudi deletes the table first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.chosen_operation import DELETES, check_mode, operation_to_do, with_default_operation
from hoodie.client.new_table import check_new_table
from hoodie.client.open_or_create import WritableTable, open_or_create
from hoodie.client.table_replacement import TableReplacement, described_by
from hoodie.client.write_result import HoodieWriteResult
from hoodie.client.write_schemas import WriteSchemas, absent_marks
from hoodie.common.data.stored_types import RESERVED_PREFIX, is_dropped, normalise_schema
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import InsertDupPolicy, KeylessUpsert
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.record_merger import named_merger
from hoodie.table.open_table import load_table

logger = logging.getLogger(__name__)

REPLACE_ROWS = "insert_overwrite_table"
"""The operation that replaces all rows of a table in one commit."""


class SaveMode(StrEnum):
    """The treatment of a table that exists already.

    Spark: org.apache.spark.sql.SaveMode.
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR_IF_EXISTS = "errorifexists"
    IGNORE = "ignore"

    @classmethod
    def of(cls, name: str) -> SaveMode:
        """Parse a mode as Spark does, in any case; ``error`` and ``default`` are ``errorifexists``.

        Raises:
            HoodieConfigException: There is no such mode.
        """
        text = str(name).lower()
        if text in ("error", "default"):
            return cls.ERROR_IF_EXISTS
        if text not in set(cls):
            raise HoodieConfigException(
                f"mode {name!r} is unknown: give append, overwrite, errorifexists (error) or ignore"
            )
        return cls(text)


class WrittenFrame(Protocol):
    """The rows to write: their columns can be seen without reading the rows."""

    @property
    def data(self) -> Any:
        """The rows, for the client."""

    def columns(self, known: pa.Schema | None) -> pa.Schema:
        """The columns.

        Args:
            known: The types of values that bring none, such as those of dicts.
        """

    def check_new(self, config: HoodieWriteConfig) -> None:
        """Refuse options and columns that make no table."""


@attrs.frozen
class FrameOfColumns:
    """A frame whose columns have types of their own, such as Spark's.

    Attributes:
        schema: Gives the columns; called when they are needed.
        data: The rows.
    """

    schema: Callable[[], pa.Schema]
    data: Any

    def columns(self, known: pa.Schema | None) -> pa.Schema:
        """See `WrittenFrame.columns`."""
        return self.schema()

    def check_new(self, config: HoodieWriteConfig) -> None:
        """See `check_new_table`."""
        check_new_table(self.schema(), config)


@attrs.frozen
class ModeWrite:
    """One write in a mode.

    Attributes:
        config: The writer's configuration.
        mode: The mode.
        operation: One of `hoodie.client.chosen_operation.OPERATIONS`.
        open_client: Makes a client of the engine.
        completed: The completed writes that the frame may know of; later ones are refused. None: none is.
        may_change_table: Whether mode overwrite may go the second way.
        keyless_by_default: Whether a new table without record key fields is one whose keys are generated.
    """

    config: HoodieWriteConfig
    mode: SaveMode
    operation: str
    open_client: Callable[[HoodieWriteConfig], BaseHoodieWriteClient]
    completed: frozenset[str] | None = None
    may_change_table: bool = True
    keyless_by_default: bool = False

    @classmethod
    def of(
        cls,
        config: HoodieWriteConfig,
        open_client: Callable[[HoodieWriteConfig], BaseHoodieWriteClient],
        mode: str,
        operation: WriteOperationType | str | None = None,
        *,
        keyless_by_default: bool = False,
    ) -> ModeWrite:
        """The write that a caller asks for.

        Args:
            config: The writer's configuration.
            open_client: Makes a client of the engine.
            mode: The mode's name.
            operation: The operation; None leaves the choice to the options.
            keyless_by_default: See the attribute.

        Raises:
            HoodieConfigException: There is no such mode; or see `operation_to_do` and `check_mode`.
        """
        save_mode = SaveMode.of(mode)
        name = operation_to_do(operation, config)
        check_mode(name, save_mode.value)
        if operation is None:
            config = with_default_operation(config)
        return cls(config, save_mode, name, open_client, keyless_by_default=keyless_by_default)

    def run(self, frame: WrittenFrame) -> HoodieWriteResult | None:
        """Write.

        Args:
            frame: The rows to write.

        Returns:
            The outcome, which is committed; None if mode ``ignore`` found a table.

        Raises:
            TableExistsException: There is a table, and the mode is ``errorifexists``.
            TableNotFoundException: There is no table to delete from.
            HoodieException: Any other error of the write.
        """
        with open_or_create(self.config, self.open_client) as table:
            if table.found is None:
                table.config = self._config_of_new
                self._check_new(frame)
                table.create()
            if table.found is not None:
                if self.mode is SaveMode.ERROR_IF_EXISTS:
                    raise TableExistsException(
                        f"there is a table at {self.config.base_path}: give mode 'append' to write to it, 'overwrite' "
                        "to replace its rows"
                    )
                if self.mode is SaveMode.IGNORE:
                    logger.info(
                        "nothing was written: there is a table at %s, and the mode is ignore", self.config.base_path
                    )
                    return None
                if self._replaces_all:
                    return self._overwrite(table.found, frame)
            return table.write(self._operation_on(table), frame.data, self.completed)

    def check(self, frame: WrittenFrame) -> TableSnapshot | None:
        """Refuse what can be refused before the rows are there.

        Args:
            frame: The rows to write.

        Returns:
            The table; None if there is none.

        Raises:
            HoodieException: See `run`.
        """
        with open_or_create(self.config, self.open_client) as table:
            if table.found is None:
                self._check_new(frame)
            elif not (self._replaces_all and self.may_change_table):
                load_table(self.config, table.found)
            return table.found

    @property
    def _replaces_all(self) -> bool:
        return self.mode is SaveMode.OVERWRITE and self.operation != REPLACE_ROWS

    def _check_new(self, frame: WrittenFrame) -> None:
        if self.operation in DELETES:
            raise TableNotFoundException(
                f"there is no table at {self.config.base_path} to delete from, and a delete creates none: check the "
                "path"
            )
        frame.check_new(self._config_of_new)

    @property
    def _config_of_new(self) -> HoodieWriteConfig:
        """The configuration that describes a new table."""
        table = self.config.table
        if not self.keyless_by_default or table.record_key_fields or table.keyless is not None:
            return self.config
        return attrs.evolve(self.config, table=attrs.evolve(table, keyless=True))

    def _operation_on(self, table: WritableTable) -> str:
        """The operation. A new table whose keys are generated has no rows that an upsert could change."""
        inserts = self.config.write.keyless_upsert is KeylessUpsert.INSERT and self.operation == "upsert"
        return "insert" if inserts and table.found is None and table.is_keyless else self.operation

    def _overwrite(self, table: TableSnapshot, frame: WrittenFrame) -> HoodieWriteResult:
        table.check_named_by(self.config.base_path)
        changes = self._changes(table, frame) if self.may_change_table else []
        if not changes:
            operation = "insert" if table.table_config.is_keyless else self.operation
            config = config_of_replaced_rows(self.config, operation)
            with self.open_client(config) as client:
                return WritableTable(config, client, table).write(REPLACE_ROWS, frame.data, self.completed)
        frame.check_new(described_by(self.config, table.table_config))
        logger.warning(
            "mode overwrite of %s: the table is replaced by a new one, and its history goes, because of: %s",
            table.base_path, "; ".join(changes),
        )  # fmt: skip
        operation = "insert" if described_by(self.config, table.table_config).table.keyless else self.operation
        replacement = TableReplacement(self.config, table, operation, self.open_client, self.completed)
        return replacement.run(frame.data)

    def _changes(self, table: TableSnapshot, frame: WrittenFrame) -> list[str]:
        """Why mode append would not take the write, so that the table has to change; empty if it would."""
        problems = []
        checks: tuple[Callable[[], None], ...] = (
            partial(self.config.check_against_table, table.table_config),
            table.table_config.check_writable,
            partial(self._check_columns, table, frame),
        )
        for check in checks:
            try:
                check()
            except (HoodieConfigException, HoodieNotSupportedException, HoodieSchemaException) as error:
                problems.append(str(error))
        return problems

    def _check_columns(self, table: TableSnapshot, frame: WrittenFrame) -> None:
        declared = self.config.write.avro_schema
        stored = table.load_avro_schema()
        known = to_arrow(stored) if stored is not None else to_arrow(declared) if declared else None
        columns = normalise_schema(frame.columns(known), known)
        given = [field for field in columns if not (is_dropped(field.name) or field.name.startswith(RESERVED_PREFIX))]
        payload = self.config.payload
        merge_spec = MergeSpec.from_table_config(
            table.table_config,
            delete_field=payload.delete_field,
            delete_marker=payload.delete_marker,
            merger=named_merger(payload.merger_class),
        )
        marks = absent_marks(table, merge_spec, [field.name for field in given])
        WriteSchemas.of(table, self.config, pa.schema([*given, *marks]))


def config_of_replaced_rows(config: HoodieWriteConfig, operation: str) -> HoodieWriteConfig:
    """The configuration by which `REPLACE_ROWS` writes what another operation would write into an empty table.

    Args:
        config: The writer's configuration.
        operation: The other operation.
    """
    write = config.write
    combines = write.combine_before_insert or write.duplicates_of_inserts is InsertDupPolicy.DROP
    combines = combines or (operation == "upsert" and write.combine_before_upsert)
    return attrs.evolve(config, write=attrs.evolve(write, combine_before_insert=combines))
