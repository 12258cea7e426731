"""Syncs of a table with its catalogs.

Hudi: org.apache.hudi.sync.common.util.SyncUtilHelpers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import attrs

from hoodie.common.config.property import check_properties
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.class_loading import create_object
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieException, HoodieSyncException
from hoodie.storage.storage_options import StorageOptions
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.hive_sync_tool import HiveSyncTool
from hoodie.sync.manifest_file_writer import sync_manifest
from hoodie.sync.sync_result import SyncResult
from hoodie.sync.sync_settings import CATALOGS, GLUE, MANIFEST, METASTORE_OPTIONS, TOOL_KEY, SyncSettings, sync_settings
from hoodie.table.open_table import look_as_writer


def sync_table(
    path: str | os.PathLike[str],
    catalog: str | None = None,
    *,
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    check: bool = False,
    full: bool = False,
) -> list[SyncResult]:
    """Tell a catalog of a table: its name, columns, location and partitions; the table itself is not changed.

        hoodie.sync_table("/data/trips", "hms", properties={
            "hoodie.datasource.hive_sync.metastore.uris": "thrift://metastore:9083",
            "hoodie.datasource.hive_sync.database": "rides",
        })

    Name, database, partition columns and how partition paths become values are taken from the table, unless an option
    says otherwise. A second call without a new commit costs one request for each name. See ``docs/catalogs.md``.

    Args:
        path: The table's folder.
        catalog: ``hms`` for a Hive Metastore, ``glue`` for AWS Glue, ``manifest`` for a file with the names of the
            newest files; or a `hoodie.HoodieCatalogClient` of yours, as ``package.module.Class``. By default what
            ``hoodie.datasource.hive_sync.mode`` or ``hoodie.meta.sync.client.tool.class`` says.
        properties: Hudi's options, such as ``hoodie.datasource.hive_sync.table``.
        storage_options: Options and credentials of the table's storage, or a function that returns them.
        check: Change nothing, and tell all differences between the catalog and the table.
        full: Compare everything, and repair all differences; by default only what commits since the last sync touched.

    Returns:
        One result for each catalog.

    Raises:
        HoodieConfigException: Options are wrong or missing.
        TableNotFoundException: There is no table.
        HoodieSyncException: The catalog refuses, or cannot be reached.
        HoodieException: The table cannot be read.
    """
    check_properties(properties)
    config = HoodieWriteConfig.from_properties(os.fspath(path), dict(properties or {}), storage_options)
    return sync_catalogs(config, catalog, check=check, full=full)


def sync_catalogs(
    config: HoodieWriteConfig,
    catalog: str | None = None,
    *,
    context: HoodieEngineContext | None = None,
    check: bool = False,
    full: bool = False,
) -> list[SyncResult]:
    """Sync a table with its catalogs; see `sync_table`. If several catalogs fail, the errors are raised together.

    Args:
        config: The options, and the table's folder.
        catalog: See `sync_table`.
        context: The engine, which knows the metastore and the version of a Spark session.
        check: See `sync_table`.
        full: See `sync_table`.
    """
    snapshot = look_as_writer(config)
    results: list[SyncResult] = []
    failures: list[HoodieException] = []
    session = {} if context is None else context.metastore_options(METASTORE_OPTIONS)
    spark_version = None if context is None else context.spark_version
    for settings in sync_settings(config, snapshot.table_config, catalog=catalog, session=session):
        if spark_version and not settings.spark_version:
            settings = attrs.evolve(settings, spark_version=spark_version)
        try:
            results.append(_sync(snapshot, settings, config, check=check, full=full))
        except HoodieException as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise HoodieSyncException(f"{len(failures)} catalogs could not be told: {'; '.join(map(str, failures))}")
    return results


def _sync(
    snapshot: TableSnapshot, settings: SyncSettings, config: HoodieWriteConfig, *, check: bool, full: bool
) -> SyncResult:
    if settings.catalog == MANIFEST:
        return sync_manifest(snapshot, check=check)
    with open_catalog(settings, config) as client:
        return HiveSyncTool(snapshot, settings, client).sync(check=check, full=full)


def open_catalog(settings: SyncSettings, config: HoodieWriteConfig) -> HoodieCatalogClient:
    """A connection to a catalog.

    Args:
        settings: The resolved options.
        config: The options of the connection.

    Raises:
        HoodieSyncException: The library that speaks to the catalog is missing, or the catalog cannot be reached.
    """
    if settings.catalog not in CATALOGS:
        return create_object(settings.catalog, TOOL_KEY, HoodieCatalogClient, config)
    # Imported here: the core needs neither library, and a start without a catalog takes less time.
    if settings.catalog == GLUE:
        from hoodie.sync.glue_client import GlueCatalogClient

        return GlueCatalogClient(config.glue_sync, config.aws)
    from hoodie.sync.hms_client import HiveMetastoreClient

    return HiveMetastoreClient(settings.uris, batch_num=settings.batch_num)
