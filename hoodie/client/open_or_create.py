"""Open the table of a write, or create it; write to it; take a new table back if its first write fails.

Every write without a client goes through here, whatever the engine, those of streams too. A write that fails leaves the
folder as it was: the table that it created goes, unless another writer has begun to use it.

Hudi: the beginnings of org.apache.hudi.HoodieSparkSqlWriter. Differs: Hudi leaves the table there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import attrs
import pyarrow as pa

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.chosen_operation import run_operation
from hoodie.client.new_table import table_to_create
from hoodie.client.unknown_writes import refuse_unknown_writes
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.table_folder import NewTable
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieException, HoodieLockException, TableExistsException
from hoodie.table.open_table import find_table
from hoodie.transaction.transaction_manager import TransactionManager


def find_writable_table(config: HoodieWriteConfig) -> TableSnapshot | None:
    """The table at the path of a write, as it is now; None if there is none.

    Args:
        config: The writer's configuration.

    Raises:
        HoodieNotSupportedException: There is one of a version that hoodie does not write.
        HoodieIOException: Storage failed.
    """
    table = find_table(config)
    if table is not None:
        table.table_config.check_version(to_write=True)
    return table


@contextmanager
def open_or_create(
    config: HoodieWriteConfig, open_client: Callable[[HoodieWriteConfig], BaseHoodieWriteClient]
) -> Iterator[WritableTable]:
    """Open the table at the path of a write, if there is one. Whoever writes decides whether to create it.

    Args:
        config: The writer's configuration.
        open_client: Makes a client of the engine.

    Yields:
        The table. If the block raises before the first write to a table that it created is complete, the table is
        removed; if it cannot be, a note of the error says why.

    Raises:
        HoodieConfigException: Options are wrong.
        HoodieNotSupportedException: There is a table of a version that hoodie does not write.
        HoodieIOException: Storage failed.

        >>> from hoodie import HoodieLocalWriteClient
        >>> with open_or_create(config, HoodieLocalWriteClient) as table:  # doctest: +SKIP
        ...     if table.found is None:
        ...         check_new_table(rows.schema, config)
        ...         table.create()
        ...     table.write("upsert", rows)
    """
    table: WritableTable | None = None
    try:
        # The client checks the classes that options name, before the table is looked at.
        with open_client(config) as client:
            table = WritableTable(config, client, find_writable_table(config))
            yield table
    except BaseException as error:
        # The client is closed: it has no lock and no heartbeat.
        if table is not None:
            table.take_back(error)
        raise


@attrs.define(eq=False)
class WritableTable:
    """The table of one writer; made by `open_or_create`.

    Attributes:
        config: The writer's configuration.
        client: The writer's client.
        found: The table that somebody else created, as it was before the first write; None if there is none, or if this
            writer created it.
    """

    config: HoodieWriteConfig
    client: BaseHoodieWriteClient
    found: TableSnapshot | None
    _new: NewTable | None = attrs.field(init=False, default=None)
    """The table that this writer has created, until its first write is complete."""
    _is_first_write: bool = attrs.field(init=False, default=True)

    def create(self, schema: pa.Schema | None = None) -> None:
        """Create the table that the configuration describes. If another writer has just created one, that is `found`.

        Args:
            schema: The columns, which are stored; None leaves them to the first write.

        Raises:
            HoodieConfigException: The configuration does not describe a valid table; or the folder holds files of
                another format or files that no table wrote.
            TableExistsException: There is a table that could not be found.
            HoodieIOException: Storage failed.
        """
        try:
            self._new = table_to_create(self.config, schema)
            self._new.create()
        except TableExistsException:
            self._new = None
            self.found = find_writable_table(self.config)
            if self.found is None:
                raise

    @property
    def is_keyless(self) -> bool:
        """Whether the keys of the table, found or created, are generated."""
        return bool(self.config.table.keyless) if self.found is None else self.found.table_config.is_keyless

    def write(
        self,
        operation: str,
        data: Any,
        known: frozenset[str] | None = None,
        complete: Callable[[HoodieWriteResult], None] | None = None,
    ) -> HoodieWriteResult:
        """Write to the table.

        Args:
            operation: One of `hoodie.client.chosen_operation.OPERATIONS`.
            data: The rows, or the keys to delete.
            known: The completed writes that the rows may take into account; None for all. See `refuse_unknown_writes`.
            complete: Completes the instant, where the client does not do that by itself (``hoodie.auto.commit``).

        Returns:
            The outcome.

        Raises:
            HoodieConfigException: The configuration contradicts the table.
            HoodieException: Any error of the operation.
        """
        if self.found is not None and self._is_first_write:
            self.config.check_against_table(self.found.table_config)
            refuse_unknown_writes(self.found, known)
            self.client.go_on_from(self.found)
        self._is_first_write = False
        result = run_operation(self.client, operation, data, self.config, known)
        if complete is not None:
            complete(result)
        self._new = None
        return result

    def take_back(self, error: BaseException) -> None:
        """Remove the table if this writer has created it and no write to it is complete.

        Args:
            error: Why; it gets a note if the table stays.
        """
        new, self._new = self._new, None
        if new is None:
            return
        stays = f"the table {new.base_path}, which this call created, stays"
        try:
            with closing(TransactionManager(self.config)) as transactions, transactions.alone(is_patient=False):
                is_gone = new.take_back()
            if not is_gone:
                error.add_note(f"{stays}: another writer uses it, or its first write could not be rolled back")
        except HoodieLockException as second:
            error.add_note(f"{stays}: {second}")
        except (HoodieException, OSError) as second:
            error.add_note(f"the table {new.base_path}, which this call created, could not be removed ({second})")
