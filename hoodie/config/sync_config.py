"""Properties of catalog syncs: whether, with which catalog, and what its entries say.

Empty text is the same as no text, as in Hudi. What is not given comes from the table; see `hoodie.sync.sync_settings`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import attrs

from hoodie.common.config.property import (
    Parser,
    PropertyGroup,
    boolean,
    choice,
    column_names,
    integer,
    property_field,
    text,
)
from hoodie.common.util.uris import without_user

_T = TypeVar("_T")
_META = "hoodie.meta.sync."
_DATASOURCE = "hoodie.datasource.meta.sync."
_HIVE = "hoodie.datasource.hive_sync."
_LINES_FORM = "lines of key=value"


class HiveSyncMode(StrEnum):
    """The way to a catalog.

    Hudi: org.apache.hudi.hive.ddl.HiveSyncMode.
    """

    HMS = "hms"
    GLUE = "glue"
    JDBC = "jdbc"
    HIVEQL = "hiveql"


class HoodieSyncTableStrategy(StrEnum):
    """The views of a merge-on-read table that a catalog gets a name for.

    Hudi: org.apache.hudi.common.model.HoodieSyncTableStrategy.
    """

    ALL = "ALL"
    RO = "RO"
    RT = "RT"


def parse_key_values(value: str) -> dict[str, str]:
    """Parse lines of ``key=value``.

    Args:
        value: The lines; blank ones are skipped, a line without ``=`` is a key with an empty value.

    Returns:
        Key -> value, without the blanks around them.

    Raises:
        ValueError: A line has no key.

    Hudi: org.apache.hudi.common.util.ConfigUtils.toMap. Differs: a value may contain ``=``.
    """
    found = {}
    for line in value.split("\n"):
        key, _, content = (part.strip() for part in line.partition("="))
        if not key and line.strip():
            raise ValueError(f"must be {_LINES_FORM}, and a line has no key")
        if key:
            found[key] = content
    return found


def _check_key_values(value: str) -> None:
    parse_key_values(value)


def _or_none(parser: Parser[_T]) -> Parser[_T | None]:
    """A parser that takes empty text for a property that is not given."""
    return Parser(lambda value: parser.parse(value) if value else None, parser.allowed)


@attrs.frozen(kw_only=True, repr=False)
class HoodieSyncConfig(PropertyGroup):
    """Catalog syncs: whether, with which catalogs, and how.

    Hudi: org.apache.hudi.sync.common.HoodieSyncConfig.
    """

    enable: bool = property_field(_DATASOURCE + "enable", boolean(), False, alternatives=(_META + "enable",))
    """Tell a catalog of the table after each completed action: its entry gets the newest columns and partitions. An
    error of the catalog is a warning, and in `service_errors` of the result; the next sync makes up for it."""
    hive_sync_enable: bool = property_field(_HIVE + "enable", boolean(), False)
    """The same as `hoodie.datasource.meta.sync.enable`: one of them is enough."""
    client_tool_class: tuple[str, ...] = property_field(
        _META + "client.tool.class", column_names("class names"), (), since="0.9.0"
    )
    """The catalogs, by Hudi's classes with or without package: `HiveSyncTool` (the catalog of
    `hoodie.datasource.hive_sync.mode`), `AwsGlueCatalogSyncTool`, `ManifestFileWriter` (the list of files that BigQuery
    reads); or your own `HoodieCatalogClient`, as package.module.Class. Without it the mode says which catalog it is."""
    base_path: str | None = property_field(_DATASOURCE + "base.path", _or_none(text("the table's folder")), None)
    """The table's folder. A sync refuses any other one."""
    conditional: bool = property_field("hoodie.datasource.meta_sync.condition.sync", boolean(), False)
    """Store the time of the newest commit only when something else of the entry changes, or when the stored time lies
    behind the middle of the active timeline. Readers that tell by it whether the table changed need false."""
    spark_version: str | None = property_field("hoodie.meta_sync.spark.version", _or_none(text()), None)
    """The parameter `spark.sql.create.version` of entries, which have none without it. Hudi's Spark writer gives the
    version of its session."""
    snapshot_with_table_name: bool = property_field(
        _META + "sync_snapshot_with_table_name", boolean(), True, since="0.14.0"
    )
    """A merge-on-read table has a third entry, its bare name, which reads what the entry with `_rt` reads."""
    incremental: bool = property_field(_META + "incremental", boolean(), True, since="0.14.0")
    """Look only at the partitions that commits touched since the last sync. With false all partitions are compared; so
    they are when the commit of the last sync is no longer in the active timeline."""
    no_partition_metadata: bool = property_field(_META + "no_partition_metadata", boolean(), False, since="1.0.0")
    """Register no partitions. Spark lists the table itself; Hive, Presto and Trino see no rows without them."""
    touch_partitions: bool = property_field(_META + "touch.partitions.enabled", boolean(), False, since="1.2.0")
    """Write the catalog's partitions anew, as they are, that got rows since the last sync: their time of change says
    so."""
    force_recreate: bool = property_field(_META + "force.recreate.table", boolean(), False, since="1.3.0")
    """Make the entry anew in each sync, with all partitions."""
    moves_entries: bool = property_field(_META + "moved.table.enabled", boolean(), True, is_ours=True)
    """An entry of the name that is the one of a table in another folder is made anew, with a warning, as Hudi does.
    With false a sync refuses that, as it always does for tables that are opened by their name."""
    with_table_definition: bool = property_field(_META + "table.definition.enabled", boolean(), True, is_ours=True)
    """Entries have the parameters `primaryKey`, `preCombineField` and `type`, as those that
    `CREATE TABLE ... USING hudi` makes. Without them `INSERT INTO` of Hudi 0.15 fails."""
    derived_partition_columns: bool = property_field(
        _META + "derived.partition.columns.enabled", boolean(), True, is_ours=True
    )
    """Partition columns whose values the key generator makes of times, or your own one, have the type of these values,
    `string`. Hudi's tool gives them the type of the field."""

    @property
    def is_on(self) -> bool:
        """Whether a sync is asked for after each completed action."""
        return self.enable or self.hive_sync_enable


@attrs.frozen(kw_only=True, repr=False)
class HiveSyncConfig(PropertyGroup):
    """Entries of catalogs: their names, columns, partitions and parameters. They hold for Glue as well.

    Hudi: org.apache.hudi.hive.HiveSyncConfig.
    """

    mode: HiveSyncMode | None = property_field(_HIVE + "mode", _or_none(choice(HiveSyncMode)), None)
    """The catalog: `hms`, a Hive metastore, or `glue`, AWS Glue. `jdbc` and `hiveql` need a HiveServer2: a sync refuses
    them. Without a mode a sync asks for one, where Hudi takes `jdbc`."""
    use_jdbc: bool | None = property_field(_HIVE + "use_jdbc", _or_none(boolean()), None)
    """The older form of the mode: false is `hms`, if no mode is given."""
    metastore_uris: str | None = property_field(
        _HIVE + "metastore.uris", _or_none(Parser(without_user, "URIs separated by commas")), None
    )
    """The Hive metastore, such as `thrift://host:9083`; several are tried in order. Without it: `hive.metastore.uris`
    of the Spark session, or of the `hive-site.xml` in the folder that the environment variable `HIVE_CONF_DIR` names.
    Hudi takes localhost."""
    database: str | None = property_field(_HIVE + "database", _or_none(text()), None)
    """The database. Without it: the table's `hoodie.database.name`, else `default`."""
    table: str | None = property_field(_HIVE + "table", _or_none(text()), None)
    """The name of the entry. Without it: the table's name."""
    partition_fields: tuple[str, ...] | None = property_field(_HIVE + "partition_fields", column_names(), None)
    """The partition columns of the entry. Without it: the table's partition fields. Empty text: the entry has none."""
    partition_extractor_class: str | None = property_field(
        _HIVE + "partition_extractor_class", _or_none(text("a class")), None
    )
    """The reader of partition values from paths: one of Hudi's, with or without package, or your own
    `PartitionValueExtractor`, as package.module.Class. Without it: `NonPartitionedExtractor`,
    `HiveStylePartitionValueExtractor`, `SinglePartPartitionValueExtractor` or `MultiPartKeysValueExtractor`, by the
    partition fields."""
    base_file_format: str | None = property_field(_HIVE + "base_file_format", _or_none(text("PARQUET")), None)
    """The format of base files. It is always Parquet; a sync refuses any other one."""
    auto_create_database: bool = property_field(_HIVE + "auto_create_database", boolean(), True)
    """Make the database if there is none."""
    ignore_exceptions: bool | None = property_field(_HIVE + "ignore_exceptions", _or_none(boolean()), None)
    """With false an error of a sync fails the call that asked for it; a write is committed all the same. Without it a
    write goes on, and a sync by hand raises."""
    skip_ro_suffix: bool = property_field(_HIVE + "skip_ro_suffix", boolean(), False)
    """The read optimized view of a merge-on-read table has the bare name, without `_ro`."""
    table_strategy: HoodieSyncTableStrategy = property_field(
        _HIVE + "table.strategy", choice(HoodieSyncTableStrategy), HoodieSyncTableStrategy.ALL, since="0.13.0"
    )
    """The entries of a merge-on-read table. ALL: one for each view. RO: the bare name, as the read optimized view. RT:
    the bare name, as the snapshot."""
    support_timestamp: bool | None = property_field(_HIVE + "support_timestamp", _or_none(boolean()), None)
    """Timestamps are `timestamp` (true) or `bigint` (false). Without it they are `timestamp` in new entries, and stay
    what they are in others. Spark reads them right either way."""
    sync_as_datasource: bool = property_field(_HIVE + "sync_as_datasource", boolean(), True)
    """Entries say that the table is one of Hudi. With false Spark takes it for plain Parquet and reads all versions of
    its files: wrong rows."""
    schema_string_length_threshold: int = property_field(
        _HIVE + "schema_string_length_thresh", integer(minimum=1), 4000
    )
    """The most characters of one parameter that holds a piece of Spark's schema."""
    create_managed_table: bool = property_field(_HIVE + "create_managed_table", boolean(), False)
    """New entries are managed tables: dropping one of them deletes the table's files. hoodie itself never does."""
    omit_metadata_fields: bool = property_field(_HIVE + "omit_metadata_fields", boolean(), False, since="0.13.0")
    """Entries do not have Hudi's meta columns."""
    batch_num: int = property_field(_HIVE + "batch_num", integer(minimum=1), 1000)
    """The most partitions of one request to a Hive metastore."""
    sync_comment: bool = property_field(_HIVE + "sync_comment", boolean(), False)
    """Comments of columns follow those of the table's schema. With false those of the catalog stay."""
    table_properties: str | None = property_field(
        _HIVE + "table_properties", _or_none(text(_LINES_FORM, _check_key_values)), None
    )
    """Further parameters of entries."""
    serde_properties: str | None = property_field(
        _HIVE + "serde_properties", _or_none(text(_LINES_FORM, _check_key_values)), None
    )
    """Further parameters of the serde of entries."""
    recreate_table_on_error: bool = property_field(_HIVE + "recreate_table_on_error", boolean(), False, since="0.14.0")
    """An entry that the catalog refuses to change is made anew, with all partitions."""
