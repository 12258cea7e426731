"""Properties of the sync with AWS Glue."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, column_names, integer, property_field, text

_PREFIX = "hoodie.datasource.meta.sync.glue."


def _tags(value: str) -> tuple[str, ...]:
    pairs = tuple(pair.strip() for pair in value.split(",")) if value else ()
    if not all(pair.partition(":")[0].strip() and ":" in pair for pair in pairs):
        raise ValueError
    return pairs


@attrs.frozen(kw_only=True, repr=False)
class GlueCatalogSyncClientConfig(PropertyGroup):
    """The sync with AWS Glue: names, batches, and what entries have beyond those of a Hive metastore.

    Hudi: org.apache.hudi.config.GlueCatalogSyncClientConfig.
    """

    database_name: str | None = property_field(_PREFIX + "database_name", text("a name"), None, since="1.1")
    """The database of Glue; default: `hoodie.datasource.hive_sync.database`."""
    table_name: str | None = property_field(_PREFIX + "table_name", text("a name"), None, since="1.1")
    """The name in Glue; default: `hoodie.datasource.hive_sync.table`."""
    catalog_id: str | None = property_field(_PREFIX + "catalogId", text("an account id"), None, since="1.1")
    """The account whose catalog it is; default: that of the credentials."""
    skip_table_archive: bool = property_field(_PREFIX + "skip_table_archive", boolean(), True)
    """Keep no old version of an entry when it changes; Glue limits their number."""
    all_partitions_read_parallelism: int = property_field(
        _PREFIX + "all_partitions_read_parallelism", integer(minimum=1, maximum=10), 1
    )
    """The number of threads that list all partitions."""
    changed_partitions_read_parallelism: int = property_field(
        _PREFIX + "changed_partitions_read_parallelism", integer(minimum=1), 1
    )
    """The number of threads that look up given partitions, 1000 a request."""
    partition_change_parallelism: int = property_field(_PREFIX + "partition_change_parallelism", integer(minimum=1), 1)
    """The number of threads that add, change (100 a request) and remove (25 a request) partitions."""
    metadata_file_listing: bool | None = property_field(_PREFIX + "metadata_file_listing", boolean(), None)
    """The table parameter `hudi.metadata-listing-enabled`: whether Athena lists files by the metadata table. Default:
    FALSE in new entries; others keep theirs."""
    partition_index_fields_enable: bool | None = property_field(
        _PREFIX + "partition_index_fields.enable", boolean(), None
    )
    """Whether Glue has indexes of the partitions. With false those that a sync made are removed; without it nothing
    changes."""
    partition_index_fields: tuple[str, ...] = property_field(
        _PREFIX + "partition_index_fields", column_names("partition fields with `;` between those of one index,"), ()
    )
    """The fields of these indexes, at most three: `year;month,day` makes two of them. Default: one for each partition
    field."""
    recreate_table_on_error: bool = property_field(_PREFIX + "recreate_table_on_error", boolean(), False)
    """Make the entry anew, with all partitions, if Glue refuses a change of it."""
    resource_tags: tuple[str, ...] = property_field(
        _PREFIX + "resource_tags", Parser(_tags, "pairs key:value separated by commas"), (), since="1.1"
    )
    """The tags of a database that a sync makes: `team:data,stage:test`."""
