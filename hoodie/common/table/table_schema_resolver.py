"""The schema of a table: from its newest commit with a schema, or a base file, or its properties, in this order.

Hudi: org.apache.hudi.common.table.TableSchemaResolver. Differs: a base file takes precedence over the schema that the
table was created with, because later writes do not update that schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from hoodie.avro.schema_converters import record_name, record_namespace, remove_meta_columns, to_avro
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import REWRITES
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage import storage_path
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline

_AVRO_FOOTER_KEYS = (b"parquet.avro.schema", b"avro.schema")


@attrs.frozen
class TableSchemaResolver:
    """Finds the schema of a table at the state of a timeline.

    Attributes:
        storage: The table's storage.
        base_path: The table's folder.
        timeline: The active timeline.
        view: Gives what finds a base file, if no commit of the timeline has a schema.
        table_config: The table's properties, with the schema that it was created with.
        commits: Completed commits whose metadata was read in the search, for other users of it.
    """

    storage: HoodieStorage
    base_path: str
    timeline: HoodieActiveTimeline
    view: Callable[[], HoodieTableFileSystemView]
    table_config: HoodieTableConfig
    commits: dict[HoodieInstant, HoodieCommitMetadata] = attrs.field(factory=dict)

    def load_avro_schema(self) -> str | None:
        """The user's columns as Avro JSON; None if neither commits nor base files nor properties have a schema.

        Raises:
            HoodieCorruptedDataException: Commit metadata, or the base file that was read, is damaged.
            HoodieSchemaException: The schema is not a valid one.
            HoodieIOException: Storage failed.
        """
        schema = self._schema_of_commits(self.timeline.completed_writes())
        if schema is None:
            schema = self._schema_of_base_file()
        if schema is None:
            schema = self.table_config.create_schema
        return remove_meta_columns(schema) if schema is not None else None

    def load_avro_schema_as_of(self, time: str, load_archived: Callable[[], HoodieArchivedTimeline]) -> str | None:
        """The user's columns at a time as Avro JSON; None if no commit up to it has a schema.

        Args:
            time: An instant time.
            load_archived: Gives the archive; called if no active commit tells.

        Raises:
            HoodieCorruptedDataException: Commit metadata is damaged.
            HoodieIOException: Storage failed.
        """
        schema = self._schema_of_commits(self.timeline.completed_writes().before_or_on(time))
        if schema is None and self.timeline.newest_archived_time() is not None:
            archived = load_archived()
            commits = archived.completed_writes().before_or_on(time)
            schema = self._schema_of_commits(commits, archived.read_commit_metadata)
        return remove_meta_columns(schema) if schema is not None else None

    def _schema_of_commits(
        self, commits: HoodieTimeline, read: Callable[[HoodieInstant], HoodieCommitMetadata] | None = None
    ) -> str | None:
        for instant in reversed(commits.instants):
            metadata = (read or self._read_commit_metadata)(instant)
            if metadata.schema and metadata.operation_type not in REWRITES:
                return metadata.schema
        return None

    def _read_commit_metadata(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        if instant not in self.commits:
            self.commits[instant] = self.timeline.read_commit_metadata(instant)
        return self.commits[instant]

    def _schema_of_base_file(self) -> str | None:
        """The schema of one of the newest base files that still exist."""
        for path in self._base_file_paths():
            try:
                with HoodieParquetReader(self.storage, path) as reader:
                    return self._schema_of_footer(reader)
            except HoodieCorruptedDataException as error:
                raise HoodieCorruptedDataException(
                    f"Cannot read the schema of the table {self.base_path}: {error}"
                ) from error
            except HoodieIOException as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
                # The file was cleaned meanwhile.
        return None

    def _base_file_paths(self) -> Iterator[str]:
        for instant in reversed(self.timeline.completed_writes().instants):
            for stat in self._read_commit_metadata(instant).write_stats:
                if stat.path and stat.path.endswith(".parquet"):
                    yield storage_path.join(self.base_path, stat.path)
        view = self.view()
        for partition_path in view.list_partitions():
            for base_file in view.latest_base_files(partition_path):
                yield base_file.path

    def _schema_of_footer(self, reader: HoodieParquetReader) -> str:
        """The Avro schema that Hudi and hoodie store in a base file; without one, a schema made from the file's
        columns.
        """
        for key in _AVRO_FOOTER_KEYS:
            if key in reader.entries:
                return reader.entries[key].decode("utf-8", "replace")
        name = self.table_config.table_name
        return to_avro(reader.file_schema.remove_metadata(), record_name(name), record_namespace(name))
