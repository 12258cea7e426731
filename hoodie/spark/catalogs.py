"""Catalog syncs by hand, with the metastore of a Spark session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from hoodie.common.config.property import check_properties
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.storage.storage_options import StorageOptions
from hoodie.sync.catalog_sync import sync_catalogs
from hoodie.sync.sync_result import SyncResult


def sync_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    catalog: str | None = None,
    *,
    properties: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    check: bool = False,
    full: bool = False,
) -> list[SyncResult]:
    """Tell a catalog of a table, as `hoodie.sync_table`; without another address it is the session's metastore.

    Args:
        spark: The session.
        path: The table's folder.
        catalog: See `hoodie.sync_table`.
        properties: See `hoodie.sync_table`.
        storage_options: See `hoodie.sync_table`.
        check: See `hoodie.sync_table`.
        full: See `hoodie.sync_table`.

    Raises:
        HoodieException: See `hoodie.sync_table`.
    """
    check_properties(properties)
    config = HoodieWriteConfig.from_properties(os.fspath(path), dict(properties or {}), storage_options)
    return sync_catalogs(config, catalog, context=HoodieSparkEngineContext(spark), check=check, full=full)
