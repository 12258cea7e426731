"""hoodie: Apache Hudi tables written from Python, with PySpark or in-process, without a Hudi jar."""

import importlib as _importlib
import typing as _typing

from hoodie import exception as _exception
from hoodie.exception import *  # noqa: F403  (its __all__ is the list of errors)

if _typing.TYPE_CHECKING:
    from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
    from hoodie.client.local_write_client import HoodieLocalWriteClient
    from hoodie.client.read_client import HoodieReadClient
    from hoodie.client.table_writer import write_table
    from hoodie.client.validator.pending_commit import PendingCommit
    from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator
    from hoodie.client.write_result import HoodieWriteResult
    from hoodie.common.model.record import HoodieKey, HoodieRecord, HoodieRecordLocation
    from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
    from hoodie.common.model.write_status import WriteStatus
    from hoodie.common.table.table_meta_client import HoodieTableMetaClient
    from hoodie.config.write_config import HoodieWriteConfig
    from hoodie.index.index import HoodieIndex
    from hoodie.interface.catalog import Catalog, catalog
    from hoodie.interface.merge import col
    from hoodie.interface.reads import dataset, plan_read, read_table, scan_table
    from hoodie.interface.table import Table
    from hoodie.merge.record_merger import HoodieRecordMerger, HoodieSingleRecordMerger, MergeOutcome
    from hoodie.metrics.progress import ProgressEvent
    from hoodie.query.read_plan import ReadPlan
    from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
    from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
    from hoodie.sync.catalog_client import HoodieCatalogClient
    from hoodie.sync.catalog_sync import sync_table
    from hoodie.sync.partition_value_extractor import PartitionValueExtractor
    from hoodie.table.action.commit.upsert_plan import UpsertPlan

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "HoodieCatalogClient",
    "HoodieIndex",
    "HoodieKey",
    "HoodieLocalWriteClient",
    "HoodiePreCommitValidator",
    "HoodieReadClient",
    "HoodieRecord",
    "HoodieRecordLocation",
    "HoodieRecordMerger",
    "HoodieSingleRecordMerger",
    "HoodieSparkEngineContext",
    "HoodieTableMetaClient",
    "HoodieTableType",
    "HoodieWriteCommitCallback",
    "HoodieWriteCommitCallbackMessage",
    "HoodieWriteConfig",
    "HoodieWriteResult",
    "MergeOutcome",
    "PartitionValueExtractor",
    "PendingCommit",
    "ProgressEvent",
    "ReadPlan",
    "SparkRDDWriteClient",
    "Table",
    "UpsertPlan",
    "WriteOperationType",
    "WriteStatus",
    "catalog",
    "col",
    "dataset",
    "plan_read",
    "read_table",
    "scan_table",
    "sync_table",
    "write_table",
]
__all__ += _exception.__all__

_MODULES = {
    "Catalog": "hoodie.interface.catalog",
    "HoodieCatalogClient": "hoodie.sync.catalog_client",
    "HoodieIndex": "hoodie.index.index",
    "HoodieKey": "hoodie.common.model.record",
    "HoodieLocalWriteClient": "hoodie.client.local_write_client",
    "HoodiePreCommitValidator": "hoodie.client.validator.pre_commit_validators",
    "HoodieReadClient": "hoodie.client.read_client",
    "HoodieRecord": "hoodie.common.model.record",
    "HoodieRecordLocation": "hoodie.common.model.record",
    "HoodieRecordMerger": "hoodie.merge.record_merger",
    "HoodieSingleRecordMerger": "hoodie.merge.record_merger",
    "HoodieSparkEngineContext": "hoodie.spark.spark_engine_context",
    "HoodieTableMetaClient": "hoodie.common.table.table_meta_client",
    "HoodieTableType": "hoodie.common.model.write_operation_type",
    "HoodieWriteCommitCallback": "hoodie.callback.write_commit_callback",
    "HoodieWriteCommitCallbackMessage": "hoodie.callback.write_commit_callback",
    "HoodieWriteConfig": "hoodie.config.write_config",
    "HoodieWriteResult": "hoodie.client.write_result",
    "MergeOutcome": "hoodie.merge.record_merger",
    "PartitionValueExtractor": "hoodie.sync.partition_value_extractor",
    "PendingCommit": "hoodie.client.validator.pending_commit",
    "ProgressEvent": "hoodie.metrics.progress",
    "SparkRDDWriteClient": "hoodie.spark.spark_rdd_write_client",
    "Table": "hoodie.interface.table",
    "UpsertPlan": "hoodie.table.action.commit.upsert_plan",
    "WriteOperationType": "hoodie.common.model.write_operation_type",
    "WriteStatus": "hoodie.common.model.write_status",
    "ReadPlan": "hoodie.query.read_plan",
    "catalog": "hoodie.interface.catalog",
    "col": "hoodie.interface.merge",
    "dataset": "hoodie.interface.reads",
    "plan_read": "hoodie.interface.reads",
    "read_table": "hoodie.interface.reads",
    "scan_table": "hoodie.interface.reads",
    "sync_table": "hoodie.sync.catalog_sync",
    "write_table": "hoodie.client.table_writer",
}
_PACKAGES = frozenset(
    {
        "avro", "callback", "client", "common", "config", "engine", "execution", "index", "interface", "io", "keygen",
        "merge", "metrics", "picture", "query", "storage", "sync", "table", "transaction",
    }
)  # fmt: skip
_SUBMODULES = frozenset({"metadata", "plot", "spark", "stats"})


def __getattr__(name: str) -> _typing.Any:
    """Import a public name when it is asked for.

    A task of Spark needs no client, so that its Python starts in half the time; and the local client works where
    pyspark is absent. A package that is asked for (``hoodie.config.write_config`` after ``import hoodie``) comes with
    the modules that all public names need.
    """
    if name in _PACKAGES:
        for module in {*_MODULES.values()}:
            if not module.startswith("hoodie.spark."):
                _importlib.import_module(module)
        return _importlib.import_module(f"hoodie.{name}")
    if name in _SUBMODULES:
        return _importlib.import_module(f"hoodie.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'hoodie' has no attribute {name!r}")
    module = _MODULES[name]
    if module.startswith("hoodie.spark."):
        value = _importlib.import_module("hoodie.spark").load("hoodie", name, module)
    else:
        value = getattr(_importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, with the modules that people use by their names, without the other packages."""
    names = {*__all__, *_SUBMODULES, *(name for name in globals() if name.startswith("__"))}
    return sorted(names)
