"""Every error that hoodie raises on purpose.

::

    HoodieException
    ├── HoodieConfigException (ValueError)         a property is unknown, does not parse or contradicts another
    ├── TableNotFoundException (FileNotFoundError) no table at that path
    ├── TableExistsException (FileExistsError)     there is already a table at that path
    ├── InvalidTableException                      a table whose own properties are broken
    ├── HoodiePendingOverwriteException            a new table is taking the place of this one
    ├── HoodieNotSupportedException                a feature that hoodie does not have: nothing is written
    ├── HoodieIOException (OSError)                storage failed, or a file is missing
    │   ├── HoodieCorruptedDataException           a file is cut short or damaged
    │   ├── HoodieMissingChangesException          changes of the range were cleaned or archived
    │   └── HoodieMissingFileException             a base file that was listed does not exist
    ├── HoodieKeyException (ValueError)            a record key or partition path that cannot be stored
    ├── HoodieSchemaException (TypeError)          a schema that cannot be used
    │   ├── SchemaCompatibilityException           input and table disagree about a column's type
    │   ├── NullColumnException                    a column holds nulls only, so its type is unknown
    │   └── MissingSchemaFieldException            the input lacks a column of the table
    ├── HoodieMetadataException                    the metadata table cannot be kept up to date
    ├── HoodieIndexException                       the index cannot answer, or does not fit the table
    │   └── HoodieAmbiguousKeyException            ... a key would be in more file groups than it can name
    ├── HoodieValidationException                  a validator rejected a commit: nothing was committed
    ├── HoodieCommitCallbackException              a callback could not report a commit, which stands
    ├── HoodieWriteException                       a write operation failed
    │   ├── HoodieInsertException                  ... insert or bulk_insert
    │   │   └── HoodieDuplicateKeyException        ... of keys that are in the table and refused
    │   ├── HoodieUpsertException                  ... upsert
    │   ├── HoodieDeleteException                  ... delete
    │   └── HoodieClusteringUpdateException        ... of records that a pending clustering is rewriting
    ├── HoodieCommitException                      an instant that cannot be completed
    │   └── HoodieWriteConflictException           ... because another writer was first
    │       └── HoodieEarlyConflictDetectionException  ... shown by a marker, before a file was written
    ├── HoodieCompactionException                  a compaction that cannot be planned or carried out
    ├── HoodieClusteringException                  a clustering that cannot be planned or carried out
    ├── HoodieRollbackException                    a rollback that cannot be done
    ├── HoodieSavepointException                   a savepoint that cannot be made
    ├── HoodieRestoreException                     a restore that cannot be done
    ├── HoodieHeartbeatException                   another writer is alive, or this one counts as dead
    ├── HoodieLockException                        the table's lock could not be taken, or was lost
    ├── HoodieSyncException                        a catalog could not be told of the table
    │   ├── CatalogChangeRefusedException          ... as it refuses a change of the entry, such as another type
    │   ├── CatalogEntryExistsException            ... as the name was taken meanwhile
    │   └── CatalogEntryChangedException           ... as another process changed the entry meanwhile
    └── HoodieStreamerException                    a round of the streamer failed: nothing of it was committed
        ├── HoodieReadFromSourceException          ... a source does not give what it should
        │   └── HoodieSourceTimeoutException       ... a source does not answer; the round may be tried again
        ├── HoodieSchemaProviderException          ... a schema cannot be had
        └── HoodieTransformException               ... a transformer failed

Names are Hudi's (package ``org.apache.hudi.exception``) where it has one. ``HoodieConfigException`` gathers all
problems of a configuration in one message.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "CatalogChangeRefusedException",
    "CatalogEntryChangedException",
    "CatalogEntryExistsException",
    "HoodieAmbiguousKeyException",
    "HoodieClusteringException",
    "HoodieClusteringUpdateException",
    "HoodieCommitCallbackException",
    "HoodieCommitException",
    "HoodieCompactionException",
    "HoodieConfigException",
    "HoodieCorruptedDataException",
    "HoodieDeleteException",
    "HoodieDuplicateKeyException",
    "HoodieEarlyConflictDetectionException",
    "HoodieException",
    "HoodieHeartbeatException",
    "HoodieIOException",
    "HoodieIndexException",
    "HoodieInsertException",
    "HoodieKeyException",
    "HoodieLockException",
    "HoodieMetadataException",
    "HoodieMissingChangesException",
    "HoodieMissingFileException",
    "HoodieNotSupportedException",
    "HoodiePendingOverwriteException",
    "HoodieReadFromSourceException",
    "HoodieRestoreException",
    "HoodieRollbackException",
    "HoodieSavepointException",
    "HoodieSchemaException",
    "HoodieSchemaProviderException",
    "HoodieSourceTimeoutException",
    "HoodieStreamerException",
    "HoodieSyncException",
    "HoodieTransformException",
    "HoodieUpsertException",
    "HoodieValidationException",
    "HoodieWriteConflictException",
    "HoodieWriteException",
    "InvalidTableException",
    "MissingSchemaFieldException",
    "NullColumnException",
    "SchemaCompatibilityException",
    "TableExistsException",
    "TableNotFoundException",
]


class HoodieException(Exception):
    """The base of every error that hoodie raises on purpose."""


class HoodieConfigException(HoodieException, ValueError):
    """One or more properties are unknown, do not parse, or contradict each other."""


class TableNotFoundException(HoodieException, FileNotFoundError):
    """There is no Hudi table at the base path."""


class TableExistsException(HoodieException, FileExistsError):
    """There is a Hudi table at the base path already."""


class InvalidTableException(HoodieException):
    """The table's own properties are missing, damaged or contradict each other."""


class HoodiePendingOverwriteException(HoodieException):
    """A new table is taking the place of the one at the base path; the message names the call that finishes that."""


class HoodieNotSupportedException(HoodieException):
    """The table or the request needs a feature that hoodie does not have; nothing was written."""


class HoodieIOException(HoodieException, OSError):
    """Storage failed, or a file that must exist is missing."""


class HoodieCorruptedDataException(HoodieIOException):
    """A file exists but is cut short or damaged."""


class HoodieMissingFileException(HoodieIOException):
    """A base file that a listing or a commit names does not exist; a clean, rollback or restore may have deleted it."""


class HoodieMissingChangesException(HoodieIOException):
    """Changes that a query asks for were cleaned or archived.

    Attributes:
        earliest: The earliest time at which a range of changes can begin; None if it is not known.
    """

    def __init__(self, message: str, earliest: str | None = None) -> None:
        super().__init__(message)
        self.earliest = earliest

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.earliest)


class HoodieKeyException(HoodieException, ValueError):
    """A record key or partition path is missing, empty or cannot be stored."""


class HoodieSchemaException(HoodieException, TypeError):
    """A schema cannot be used."""


class SchemaCompatibilityException(HoodieSchemaException):
    """The type of a column in the input does not fit the type in the table."""


class NullColumnException(HoodieSchemaException):
    """A column holds only nulls, so its type is unknown.

    Attributes:
        column: The column's name, with the names of the columns around it.
    """

    def __init__(self, column: str) -> None:
        super().__init__(
            f"column '{column}' of type null cannot be stored: it holds nulls only, so its type is unknown; give it a "
            "type, or leave it out"
        )
        self.column = column

    def __reduce__(self) -> tuple[type[NullColumnException], tuple[str]]:
        return type(self), (self.column,)


class MissingSchemaFieldException(HoodieSchemaException):
    """The input lacks a column of the table."""


class HoodieMetadataException(HoodieException):
    """The metadata table cannot be kept up to date, so nothing may be committed."""


class HoodieIndexException(HoodieException):
    """The index cannot answer, or this kind of index does not fit the table."""


class HoodieAmbiguousKeyException(HoodieIndexException):
    """A record key is, or would be, in several file groups, and the record index of the table can name only one."""


class HoodieWriteException(HoodieException):
    """A write operation failed. Its instant was rolled back; if not, a note of the error says so."""


class HoodieInsertException(HoodieWriteException):
    """An insert or bulk_insert failed."""


class HoodieDuplicateKeyException(HoodieInsertException):
    """The input of an insert has keys that are in the table, and the writer's configuration refuses that."""


class HoodieUpsertException(HoodieWriteException):
    """An upsert failed."""


class HoodieDeleteException(HoodieWriteException):
    """A delete failed."""


class HoodieClusteringUpdateException(HoodieWriteException):
    """A write would change records that a pending clustering rewrites."""


class HoodieCommitException(HoodieException):
    """An instant cannot be completed: it was rolled back, completed before, or never started."""


class HoodieWriteConflictException(HoodieCommitException):
    """Another writer committed to the same file groups first.

    Attributes:
        instant_time: The instant of this writer; "" if it is not known.
        other_instants: The instants of other writers that conflict with it.
        file_groups: Partition path and file id of the file groups that both changed; empty if the conflict is not about
            file groups.
        is_retry_safe: Whether nothing of the instant was committed, so that the same write can be repeated.
    """

    def __init__(
        self,
        message: str,
        *,
        instant_time: str = "",
        other_instants: Iterable[str] = (),
        file_groups: Iterable[tuple[str, str]] = (),
        is_retry_safe: bool = False,
    ) -> None:
        super().__init__(message)
        self.instant_time = instant_time
        self.other_instants = tuple(other_instants)
        self.file_groups = tuple(file_groups)
        self.is_retry_safe = is_retry_safe


class HoodieEarlyConflictDetectionException(HoodieWriteConflictException):
    """Another writer is writing to the same file group; its marker showed that before the file was written."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_retry_safe=True)


class HoodieCompactionException(HoodieException):
    """A compaction cannot be planned, or a planned one cannot be carried out."""


class HoodieClusteringException(HoodieException):
    """A clustering cannot be planned, or a planned one cannot be carried out."""


class HoodieRollbackException(HoodieException):
    """An instant cannot be rolled back."""


class HoodieSavepointException(HoodieException):
    """A commit cannot be savepointed."""


class HoodieRestoreException(HoodieException):
    """A table cannot be restored to an instant."""


class HoodieHeartbeatException(HoodieException):
    """Another writer's heartbeat is fresh, so that writer is alive; or this writer's own heartbeat has expired."""


class HoodieCommitCallbackException(HoodieException):
    """A callback could not report a commit; the commit itself stands."""


class HoodieValidationException(HoodieException):
    """A validator rejected a commit; nothing was committed."""


class HoodieLockException(HoodieException):
    """The lock of a table could not be taken in time, or was lost while it was held.

    Attributes:
        was_lost: Whether the lock was held and then lost.
    """

    def __init__(self, message: str, *, was_lost: bool = False) -> None:
        super().__init__(message)
        self.was_lost = was_lost


class HoodieSyncException(HoodieException):
    """A catalog could not be told of a table; the table itself is not affected, and the next sync makes up for it."""


class CatalogChangeRefusedException(HoodieSyncException):
    """A catalog refuses a change of an entry, such as another type of a column."""


class CatalogEntryExistsException(HoodieSyncException):
    """A name of the catalog was taken meanwhile."""


class CatalogEntryChangedException(HoodieSyncException):
    """Another process changed or dropped the entry of the catalog meanwhile; sync again."""


class HoodieStreamerException(HoodieException):
    """A round of the streamer failed; nothing of it was committed."""


class HoodieReadFromSourceException(HoodieStreamerException):
    """A source does not give what it should: rows are gone, messages cannot be decoded, a position does not fit."""


class HoodieSourceTimeoutException(HoodieReadFromSourceException):
    """A source does not answer, or fails for a while; the round may be tried again."""


class HoodieSchemaProviderException(HoodieStreamerException):
    """A schema provider has no schema, or cannot reach it."""


class HoodieTransformException(HoodieStreamerException):
    """A transformer failed, or returned something else than rows."""
