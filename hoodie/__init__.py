"""hoodie: Apache Hudi tables written from Python, with PySpark or in-process, without a Hudi jar."""

import importlib as _importlib
import typing as _typing

from hoodie import exception as _exception
from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.table_writer import write_table
from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.record import HoodieKey, HoodieRecord, HoodieRecordLocation
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import *  # noqa: F403  (its __all__ is the list of errors)
from hoodie.index.index import HoodieIndex
from hoodie.merge.record_merger import HoodieRecordMerger, HoodieSingleRecordMerger, MergeOutcome
from hoodie.metrics.progress import ProgressEvent
from hoodie.table.action.commit.upsert_plan import UpsertPlan
from hoodie.table.table_scan import read_table, scan_table

if _typing.TYPE_CHECKING:
    from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
    from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient

__version__ = "0.1.0"

__all__ = [
    "HoodieIndex",
    "HoodieKey",
    "HoodieLocalWriteClient",
    "HoodiePreCommitValidator",
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
    "PendingCommit",
    "ProgressEvent",
    "SparkRDDWriteClient",
    "UpsertPlan",
    "WriteOperationType",
    "WriteStatus",
    "read_table",
    "scan_table",
    "write_table",
]
__all__ += _exception.__all__

_NEEDS_PYSPARK = {
    "HoodieSparkEngineContext": "hoodie.spark.spark_engine_context",
    "SparkRDDWriteClient": "hoodie.spark.spark_rdd_write_client",
}


def __getattr__(name: str) -> _typing.Any:
    """Import what needs pyspark when it is asked for: the local client works where pyspark is absent."""
    if name in _NEEDS_PYSPARK:
        return getattr(_importlib.import_module(_NEEDS_PYSPARK[name]), name)
    raise AttributeError(f"module 'hoodie' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, without the packages that they come from."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
