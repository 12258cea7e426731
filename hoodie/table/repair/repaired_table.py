"""Common parts of all repairs: the table, its lock, and results that print themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.open_table import look_at_table
from hoodie.table.table_state import refuse_pending_restore
from hoodie.transaction.transaction_manager import Transaction, TransactionManager


@attrs.frozen
class RepairedTable:
    """A table that is inspected and repaired.

    Attributes:
        config: The configuration of its writers, as far as it is known.
        snapshot: The table.
    """

    config: HoodieWriteConfig
    snapshot: TableSnapshot

    @classmethod
    def open(
        cls,
        table: str | HoodieWriteConfig,
        storage_options: StorageOptions | None = None,
        changes_rows: bool = True,
    ) -> RepairedTable:
        """Load a table that hoodie may change.

        Args:
            table: The table's folder, or the configuration of its writers.
            storage_options: The options of the storage, if a folder is given.
            changes_rows: Whether hoodie must be able to write the table; otherwise it must be able to read it.

        Raises:
            TableNotFoundException: There is no table.
            HoodieNotSupportedException: It has a feature that a repair could break.
        """
        config = (
            table
            if isinstance(table, HoodieWriteConfig)
            else HoodieWriteConfig.from_properties(table, {}, storage_options)
        )
        snapshot = look_at_table(config)
        snapshot.table_config.check_version(to_write=True)
        if changes_rows:
            snapshot.check_named_by(config.base_path)
            snapshot.table_config.check_writable()
        else:
            snapshot.table_config.check_readable()
        return cls(config, snapshot)

    @contextmanager
    def lock(self, what: str, *, dry_run: bool = False) -> Iterator[tuple[TableSnapshot, Transaction]]:
        """Hold the table's lock, where its writers have one; threads of this process wait in any case.

        Args:
            what: A name of the work, for the log.
            dry_run: Whether nothing will be changed; then no lock is taken.

        Yields:
            The table as it is under the lock, and the lock.

        Raises:
            HoodieLockException: The lock was not given.
            HoodieCommitException: A restore is pending.
        """
        if dry_run:
            yield self.look(what), Transaction(None)
            return
        transactions = TransactionManager(self.config)
        try:
            with transactions.held(self.snapshot, what) as transaction:
                yield self.look(what), transaction
        finally:
            transactions.close()

    def look(self, what: str) -> TableSnapshot:
        """The table as it is now; no table is repaired half-way through a restore.

        Raises:
            HoodieCommitException: A restore is pending.
        """
        snapshot = self.snapshot.refreshed()
        refuse_pending_restore(snapshot, f"finish it before {what}")
        return snapshot


def check_flags(**flags: object) -> None:
    """Refuse a flag that is neither True nor False: the text "false" would count as true.

    Args:
        flags: The arguments of a repair by their names.

    Raises:
        HoodieConfigException: A flag is something else.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise HoodieConfigException(f"{name} is {shown_value(value)}: give True or False; nothing was changed")


class RepairResult(ABC):
    """The findings and changes of a repair; prints as one line with a table below it."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The one line."""

    @property
    @abstractmethod
    def table(self) -> SummaryTable[Any]:
        """The rows."""

    def __repr__(self) -> str:
        rows = self.table
        return f"{self.headline}\n{rows!r}" if len(rows) else self.headline

    def _repr_html_(self) -> str:
        return f"<p>{self.headline}</p>{self.table._repr_html_() if len(self.table) else ''}"
