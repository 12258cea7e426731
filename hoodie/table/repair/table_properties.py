"""Make ``hoodie.properties`` again, from its backup, or from the user's arguments and the table's files.

Hudi: org.apache.hudi.cli.commands.RepairsCommand (repair overwrite-hoodie-props, repair recover-table).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import StrEnum

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.config.property import check_properties
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.fs.pending_overwrite import PROPERTIES_FILE_NAME
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE
from hoodie.common.model.write_operation_type import REWRITES, HoodieTableType, WriteOperationType
from hoodie.common.table.cdc.cdc_schemas import mode_of_schema
from hoodie.common.table.table_config import PROPERTIES_BACKUP_FILE_NAME, HoodieTableConfig
from hoodie.common.table.table_features import KEY_GENERATOR_CLASSES
from hoodie.common.table.table_metadata import table_metadata_of
from hoodie.common.table.table_schema_resolver import TableSchemaResolver
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.moved_commits import moved_commits
from hoodie.common.table.timeline.timeline_layout import TimelineLayout, timeline_layout
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieMissingFileException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.key_generator import create_key_generator
from hoodie.merge.merge_modes import properties_of_new_table
from hoodie.merge.merge_properties import MergeProperties
from hoodie.storage import storage_path
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import METAFOLDER_NAME
from hoodie.table.action.rollback.instant_files import COMPACTIONS
from hoodie.table.repair.repaired_table import RepairResult, check_flags

logger = logging.getLogger(__name__)

_DAMAGED_SUFFIX = ".damaged"
_CHECKED_FILES = 3
_CHECKED_ROWS = 1000
_KEY_GENERATOR = "hoodie.table.keygenerator.class"
_PARTITION_FIELDS = "hoodie.table.partition.fields"
_TYPE = "hoodie.table.type"
_VERSION = "hoodie.table.version"
_LATER_VERSIONS = ("8", "9")
_TO_BE_TOLD: Mapping[str, str] = {
    "hoodie.table.name": "the table's name",
    "hoodie.table.recordkey.fields": "the columns of the record key, with commas between them",
    _PARTITION_FIELDS: 'the columns of the partition path, "" for none',
    "hoodie.table.timeline.timezone": "UTC, as hoodie makes tables; LOCAL where Hudi made it with its default",
    "hoodie.datasource.write.hive_style_partitioning": "true for folders as region=asia",
    "hoodie.datasource.write.partitionpath.urlencode": "true where partition values are escaped in folders",
}
"""Properties that no file of a table tells, each with a hint for the user."""
_TO_BE_TOLD_OF_6: Mapping[str, str] = {
    "hoodie.table.precombine.field": 'the ordering column, "" for none',
    _KEY_GENERATOR: "such as org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compaction.payload.class": "how records merge, such as DefaultHoodieRecordPayload; "
    '"" where Hudi made the table and stored none',
}
_TO_BE_TOLD_OF_LATER: Mapping[str, str] = {
    _VERSION: "8 or 9",
    "hoodie.table.ordering.fields": 'the ordering columns, with commas between them, "" for none',
    "hoodie.table.keygenerator.type": "such as SIMPLE; of CUSTOM, the partition fields have types: region:SIMPLE",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING where the larger ordering value stays, COMMIT_TIME_ORDERING where "
    "the later write stays, CUSTOM with hoodie.compaction.payload.class",
}
_ONLY_OF_PARTITIONS = frozenset(
    {"hoodie.datasource.write.hive_style_partitioning", "hoodie.datasource.write.partitionpath.urlencode"}
)


class PropertiesSource(StrEnum):
    """The origin of the properties."""

    INTACT = "intact"
    BACKUP = "backup"
    REBUILT = "rebuilt"


@attrs.frozen
class RebuiltProperty:
    """One property.

    Attributes:
        key: Its key.
        value: Its value.
        source: The origin of the value: ``given``, ``the file``, ``the backup``, ``the timeline``, ``the newest
            commit`` or ``the base files``.
    """

    key: str
    value: str
    source: str


@attrs.frozen(repr=False)
class RebuiltProperties(RepairResult):
    """The properties, and where they come from.

    Attributes:
        base_path: The table.
        source: INTACT: nothing was to be done. BACKUP: the file was made again from ``hoodie.properties.backup``.
            REBUILT: the file was made again from the arguments and the table's files.
        properties: All of them; the checksum comes last.
        checked_rows: The number of stored rows whose keys and folders were checked against these properties.
        problem: The problem of the file; "" for none.
        is_dry_run: Whether nothing was changed.
    """

    base_path: str
    source: PropertiesSource
    properties: tuple[RebuiltProperty, ...]
    checked_rows: int = 0
    problem: str = ""
    is_dry_run: bool = False

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        if self.source is PropertiesSource.INTACT:
            return f"the properties of {self.base_path} are intact: nothing to do"
        done = "would be made again" if self.is_dry_run else "were made again"
        text = f"the properties of {self.base_path} {done}"
        if self.source is PropertiesSource.BACKUP:
            return f"{text} from their backup ({self.problem})"
        return f"{text} ({self.problem}); {self.checked_rows} rows agree with them"

    @property
    def table(self) -> SummaryTable[RebuiltProperty]:
        """See `RepairResult`."""
        return SummaryTable(RebuiltProperty, self.properties)


def rebuild_table_properties(
    base_path: str,
    *,
    properties: Mapping[str, str] | None = None,
    check_rows: bool = True,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
) -> RebuiltProperties:
    """Make the lost properties file of a table again; a good file is left as it is.

    A good backup is used. Otherwise table type, timeline layout, archive folder, meta fields and schema are taken from
    the table's files, and everything else must be given: with a wrong key or partitioning, later writes would add
    records where they should change some. The keys and folders of some rows in base files are compared with those that
    the new properties make. Files do not tell version 8 from 9.

    No writer may write to the table meanwhile. A damaged file is kept as ``hoodie.properties.damaged``.

    Args:
        base_path: The table's folder.
        properties: Table properties, as ``hoodie.properties`` has them; "" for one that the table does not have.
        check_rows: False accepts properties that disagree with stored rows. Records that a global index left in their
            old partition disagree.
        dry_run: Change nothing, and report what would be written.
        storage_options: Options of the storage.

    Raises:
        TableNotFoundException: There is no ``.hoodie`` folder.
        HoodieConfigException: Properties are missing, and the message names all of them; or the file is intact and
            contradicts what is given.
        InvalidTableException: Stored rows disagree with the properties, or nothing was ever committed.
        HoodieNotSupportedException: The table is of another version.
        HoodieIOException: Storage failed; call again.
    """
    check_flags(check_rows=check_rows, dry_run=dry_run)
    check_properties(properties)
    path = storage_path.normalise_path(base_path)
    storage = open_storage(path, storage_options)
    meta_path = storage_path.join(path, METAFOLDER_NAME)
    given = dict(properties or {})
    if not storage.list_directory(meta_path):
        raise TableNotFoundException(
            f"There is no Hudi table at {path}: {meta_path} is empty or missing. Make one by "
            "HoodieTableMetaClient.init_table"
        )
    found = HoodieTableConfig.inspect(storage, path)
    if isinstance(found, HoodieTableConfig):
        _refuse_contradictions(found, given, path)
        return RebuiltProperties(path, PropertiesSource.INTACT, _told_by("the file", found.properties))
    problem = found or "the file is missing"
    backup = HoodieTableConfig.inspect(storage, path, PROPERTIES_BACKUP_FILE_NAME)
    if isinstance(backup, HoodieTableConfig):
        _refuse_contradictions(backup, given, path)
        if not dry_run:
            HoodieTableConfig.update(storage, path, {})
        rebuilt = _told_by("the backup", backup.properties)
        return RebuiltProperties(path, PropertiesSource.BACKUP, rebuilt, problem=problem, is_dry_run=dry_run)
    rebuilding = _Rebuilding(storage, path, given)
    rebuilt, checked_rows = rebuilding.tell(check_rows)
    if not dry_run:
        _write(storage, path, {entry.key: entry.value for entry in rebuilt})
        rebuilt = _with_stored_checksum(rebuilt, storage, path)
    return RebuiltProperties(path, PropertiesSource.REBUILT, rebuilt, checked_rows, problem, dry_run)


def _refuse_contradictions(found: HoodieTableConfig, given: Mapping[str, str], base_path: str) -> None:
    stored = {key: found.properties.get(key, "") for key in given}
    differ = [f"{key} = {stored[key]!r}" for key in given if stored[key] != given[key]]
    if differ:
        raise HoodieConfigException(
            f"the properties of {base_path} exist and differ from the given ones: {', '.join(differ)}; nothing was "
            "changed"
        )


def _told_by(source: str, properties: Mapping[str, str]) -> tuple[RebuiltProperty, ...]:
    return tuple(RebuiltProperty(key, value, source) for key, value in properties.items())


def _write(storage: HoodieStorage, base_path: str, properties: Mapping[str, str]) -> None:
    """Keep a copy of the damaged file, then write the new file in its place."""
    path = storage_path.join(base_path, METAFOLDER_NAME, PROPERTIES_FILE_NAME)
    try:
        storage.replace(path + _DAMAGED_SUFFIX, storage.read(path))
        storage.delete_file(path)
    except FileNotFoundError:
        logger.debug("%s is missing", path)
    storage.delete_file(storage_path.join(base_path, METAFOLDER_NAME, PROPERTIES_BACKUP_FILE_NAME))
    HoodieTableConfig.create(storage, base_path, properties)
    logger.warning("made %s again", path)


def _with_stored_checksum(
    rebuilt: tuple[RebuiltProperty, ...], storage: HoodieStorage, base_path: str
) -> tuple[RebuiltProperty, ...]:
    sources = {entry.key: entry.source for entry in rebuilt}
    stored = HoodieTableConfig.load(storage, base_path).properties
    return tuple(RebuiltProperty(key, value, sources.get(key, "checksum")) for key, value in stored.items())


class _Rebuilding:
    """Collects the properties of one table, each with its source."""

    def __init__(self, storage: HoodieStorage, base_path: str, given: Mapping[str, str]) -> None:
        self._storage = storage
        self._base_path = base_path
        has_fields = given.get(_PARTITION_FIELDS) != ""
        self._files = table_metadata_of(storage, base_path, has_partition_fields=has_fields)
        self._given = given
        self._meta_path = storage_path.join(base_path, METAFOLDER_NAME)
        self._told: dict[str, RebuiltProperty] = {}

    def tell(self, check_rows: bool) -> tuple[tuple[RebuiltProperty, ...], int]:
        """Collect the properties; returns them, and how many rows agree with them."""
        layout = self._layout()
        self._refuse_missing_properties(_TO_BE_TOLD_OF_6 if layout.version == 1 else _TO_BE_TOLD_OF_LATER)
        timeline = self._timeline(layout)
        view = HoodieTableFileSystemView(self._files, timeline)
        for key, value in self._given.items():
            if value:
                self._add(key, value, "given")
        self._add_table_type(timeline)
        self._add_change_data(timeline)
        self._add("hoodie.timeline.layout.version", str(layout.version), "the timeline")
        if layout.version == 1:
            self._add(_VERSION, "6", "the timeline")
            self._add("hoodie.archivelog.folder", "archived", "the timeline")
        else:
            self._add_those_of_later_versions()
        known = HoodieTableConfig({key: entry.value for key, entry in self._told.items()})
        avro = TableSchemaResolver(self._storage, self._base_path, timeline, lambda: view, known).load_avro_schema()
        if avro is None:
            raise InvalidTableException(f"no commit and no base file of {self._base_path} has a schema")
        self._add("hoodie.table.create.schema", avro, "the newest commit")
        schema = to_arrow(avro)
        self._refuse_unknown_columns(known, schema)
        self._add("hoodie.datasource.write.drop.partition.columns", "false", "the newest commit")
        slices = self._some_slices(view)
        if slices and not self._has_meta_fields(slices[0]):
            self._add("hoodie.populate.meta.fields", "false", "the base files")
        elif layout.version > 1:
            self._add("hoodie.populate.meta.fields", "true", "the base files")
        config = HoodieTableConfig({key: entry.value for key, entry in self._told.items()})
        config.check_readable()
        rows = self._check_rows(config, schema, slices) if check_rows else 0
        return tuple(self._told.values()), rows

    def _add(self, key: str, value: str, source: str) -> None:
        """Add a property, unless it is there already: what the caller gives comes first."""
        if key not in self._told:
            self._told[key] = RebuiltProperty(key, value, source)

    def _add_table_type(self, timeline: HoodieActiveTimeline) -> None:
        """Add the table type that timeline and files tell, and refuse another one that is given."""
        is_merge_on_read = bool(len(timeline.filter_actions(Action.DELTA_COMMIT, *COMPACTIONS))) or any(
            timeline.read_commit_metadata(commit).operation_type is WriteOperationType.COMPACT
            for commit in timeline.completed_writes()
        )
        source = "the timeline"
        if not is_merge_on_read and self._has_log_files():
            is_merge_on_read, source = True, "the log files"
        found = HoodieTableType.MERGE_ON_READ if is_merge_on_read else HoodieTableType.COPY_ON_WRITE
        given = self._given.get(_TYPE) or found
        if is_merge_on_read and given != found:
            raise HoodieConfigException(
                f"{_TYPE} is {given!r}, and {source} of {self._base_path} are those of a {found} table; nothing was "
                "changed"
            )
        self._add(_TYPE, found, source)

    def _has_log_files(self) -> bool:
        """Whether a partition has log files of records."""
        for partition_path in self._files.list_partitions():
            names = [parse_log_file_name(status.name) for status in self._files.list_files(partition_path)]
            if any(name is not None and not name.is_cdc for name in names):
                return True
        return False

    def _add_change_data(self, timeline: HoodieActiveTimeline) -> None:
        """Add whether, and how, the newest commit that rewrote a base file stored its changes.

        Raises:
            HoodieConfigException: Its changes are gone, so that they do not tell their mode.
        """
        if CDC_ENABLED in self._given:
            return
        for commit in reversed(tuple(timeline.completed_writes())):
            metadata = timeline.read_commit_metadata(commit)
            if metadata.operation_type in REWRITES:
                continue
            rewritten = [stat for stat in metadata.write_stats if not (stat.is_log_file or stat.is_first_of_group)]
            if not rewritten:
                continue
            stored = next((path for stat in rewritten for path in stat.cdc_stats or ()), None)
            if stored is not None:
                self._add(CDC_ENABLED, "true", "the timeline")
                self._add(LOGGING_MODE, self._mode_of(stored), "the change data")
            return

    def _mode_of(self, path: str) -> str:
        """The mode of a file of change data."""
        try:
            with open_log_file(self._storage, storage_path.join(self._base_path, path)) as reader:
                schemas = (block.headers.get(HeaderMetadataType.SCHEMA) for block in reader.stored_blocks())
                mode = next((mode_of_schema(schema) for schema in schemas if schema), None)
        except HoodieMissingFileException:
            mode = None
        if mode is None:
            raise HoodieConfigException(
                f"{self._base_path} has change data, and {path} does not tell which; nothing was changed. Give "
                f"{CDC_ENABLED} and {LOGGING_MODE}"
            )
        return mode

    def _add_those_of_later_versions(self) -> None:
        """Add what tables of versions 8 and 9 have as well, if nobody gave them other values."""
        version, ordering_fields = self._given[_VERSION], self._given["hoodie.table.ordering.fields"]
        if version not in _LATER_VERSIONS:
            raise HoodieConfigException(
                f"{_VERSION} is {version!r}, and {self._base_path} has the timeline of a table of version 8 or 9; "
                "nothing was changed"
            )
        self._add("hoodie.table.initial.version", version, "given")
        for key, value in (
            ("hoodie.timeline.path", "timeline"),
            ("hoodie.timeline.history.path", "history"),
            ("hoodie.archivelog.folder", "history"),
        ):
            self._add(key, value, "the timeline")
        for key, value in (
            ("hoodie.table.format", "native"),
            ("hoodie.table.base.file.format", "PARQUET"),
            (CDC_ENABLED, "false"),
            ("hoodie.table.multiple.base.file.formats.enable", "false"),
            ("hoodie.partition.metafile.use.base.format", "false"),
        ):
            self._add(key, value, "the base files")
        merging = MergeProperties.of(self._given)
        payload = merging.resolve_payload(bool(ordering_fields))
        for key, value in properties_of_new_table(merging, payload, int(version)).items():
            self._add(key, value, "given")
        if version == "8" and ordering_fields:
            self._add("hoodie.table.precombine.field", ordering_fields, "given")

    def _refuse_missing_properties(self, of_version: Mapping[str, str]) -> None:
        has_partitions = bool(self._given.get(_PARTITION_FIELDS))
        missing = [
            f"{key} ({hint})"
            for key, hint in {**_TO_BE_TOLD, **of_version}.items()
            if key not in self._given and (has_partitions or key not in _ONLY_OF_PARTITIONS)
        ]
        strange = [key for key in self._given if not key.startswith("hoodie.")]
        if missing or strange:
            lines = "".join(f"\n  - {line}" for line in missing)
            raise HoodieConfigException(
                f"the properties of {self._base_path} cannot be made again without guessing; nothing was changed. Give"
                f"{lines}" + (f"\nand leave out {', '.join(strange)}: no table properties" if strange else "")
            )

    def _layout(self) -> TimelineLayout:
        """The layout of the timeline that has instants; that of the given version if an upgrade left two timelines."""
        layouts = (
            timeline_layout(1),
            timeline_layout(2, timezone=self._given.get("hoodie.table.timeline.timezone") or "UTC"),
        )
        found = [
            layout
            for layout in layouts
            if any(map(layout.instant_of, self._storage.list_directory(layout.active_path(self._meta_path))))
        ]
        version = self._given.get(_VERSION)
        if len(found) > 1 and not version:
            raise HoodieConfigException(
                f"{self._base_path} has two timelines, because it was being upgraded or downgraded; nothing was "
                f"changed. Give {_VERSION}, the version before that, and begin the upgrade again afterwards; or the "
                "version after it, if files of the old timeline are gone already"
            )
        chosen = found[0] if len(found) == 1 else layouts[version in _LATER_VERSIONS]
        if len(found) > 1:
            self._refuse_half_of_a_timeline(chosen)
        return chosen

    def _refuse_half_of_a_timeline(self, layout: TimelineLayout) -> None:
        """Refuse the timeline of an upgrade that lacks commits: their rows would be gone with the next write."""
        stored = {_VERSION: "6" if layout.version == 1 else "9", "hoodie.timeline.layout.version": str(layout.version)}
        moved = moved_commits(self._storage, self._meta_path, HoodieTableConfig({**self._given, **stored}))
        if moved:
            raise HoodieConfigException(
                f"{self._base_path} has two timelines, because it was being upgraded or downgraded, and that of "
                f"{_VERSION}={self._given[_VERSION]} lacks {len(moved)} commits, {moved[0]} the first; nothing was "
                f"changed. Give {_VERSION}={'8 or 9' if layout.version == 1 else '6'}, the version of the other one"
            )

    def _timeline(self, layout: TimelineLayout) -> HoodieActiveTimeline:
        timeline = HoodieActiveTimeline.load(self._storage, self._meta_path, layout)
        if not len(timeline.completed_writes()):
            raise InvalidTableException(
                f"nothing was committed to {self._base_path}: make it anew by HoodieTableMetaClient.init_table"
            )
        return timeline

    def _refuse_unknown_columns(self, config: HoodieTableConfig, schema: pa.Schema) -> None:
        named = [*config.record_key_fields, *config.partition_fields, *config.ordering_fields]
        unknown = [name for name in named if top_level_name(schema, name.partition(":")[0]) not in schema.names]
        if unknown:
            raise InvalidTableException(
                f"the newest commit of {self._base_path} has no column {', '.join(unknown)}; it has "
                f"{', '.join(schema.names)}. Nothing was changed"
            )

    def _some_slices(self, view: HoodieTableFileSystemView) -> list[FileSlice]:
        """File slices to check, each of another partition."""
        found = []
        for partition_path in view.list_partitions():
            with_base = [part for part in view.latest_file_slices(partition_path) if part.base_file is not None]
            # Its base file tells enough.
            found += [attrs.evolve(part, log_files=()) for part in with_base[:1]]
            if len(found) >= _CHECKED_FILES:
                break
        return found

    def _has_meta_fields(self, file_slice: FileSlice) -> bool:
        assert file_slice.base_file is not None
        with HoodieParquetReader(self._storage, file_slice.base_file.path) as reader:
            try:
                keys = reader.read_record_keys()
            except HoodieException:
                return False
        return not len(keys) or keys.null_count < len(keys)

    def _check_rows(self, config: HoodieTableConfig, schema: pa.Schema, slices: list[FileSlice]) -> int:
        """Compare keys and folders of stored rows with those that the properties make; returns how many rows."""
        if str(config.key_generator_class) not in KEY_GENERATOR_CLASSES:
            logger.warning("keys of %s are made by %s: not checked", self._base_path, config.key_generator_class)
            return 0
        full = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])
        context = HoodieReaderContext(self._storage, full)
        checked = 0
        for file_slice in slices:
            partition_path, base_file = file_slice.partition_path, file_slice.base_file
            assert base_file is not None
            rows = next(HoodieFileGroupReader(context, file_slice).iter_batches(_CHECKED_ROWS), None)
            if rows is None:
                continue
            batch = rows.select(schema.names)
            made: list[str] = []
            for prefix in (True, False):
                generator = create_key_generator(config, prefix).bind(batch.schema)
                paths = generator.partition_paths(batch)
                stored = rows.column(RECORD_KEY_META)
                keys = stored if generator.generates_keys else generator.record_keys(batch)
                if not config.populate_meta_fields:
                    stored = keys
                same = pc.and_(pc.equal(keys, stored), pc.equal(paths, partition_path))
                if pc.all(pc.fill_null(same, False)).as_py():
                    break
                wrong = pc.index(pc.fill_null(same, False), False).as_py()
                made.append(f"{short_repr(keys[wrong].as_py())} in {short_repr(paths[wrong].as_py())}")
                shown = f"{short_repr(stored[wrong].as_py())} in '{partition_path}'"
            else:
                raise InvalidTableException(
                    f"{base_file.path} of {self._base_path} has a row of key {shown}, and these properties make "
                    f"{made[0]}: a wrong key generator, field, or form of folders was given. Nothing was changed"
                )
            checked += batch.num_rows
        return checked
