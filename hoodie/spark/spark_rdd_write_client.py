"""The write client for PySpark.

Hudi: org.apache.hudi.client.SparkRDDWriteClient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig, check_config
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.metrics.progress import ProgressCallback
from hoodie.spark.spark_engine_context import HoodieSparkEngineContext
from hoodie.spark.spark_workers import check_workers
from hoodie.spark.sql_query_validators import (
    SparkPendingCommit,
    SqlQueryEqualityPreCommitValidator,
    SqlQueryInequalityPreCommitValidator,
    SqlQuerySingleResultPreCommitValidator,
)
from hoodie.storage.storage_path import normalise_path


class SparkRDDWriteClient(BaseHoodieWriteClient):
    """Writes one table with Spark's executors.

    ``records`` may be a DataFrame or an RDD of `HoodieRecord`. The input is never collected: it flows through the
    executors as Arrow batches.

    Args:
        spark_or_context: A session, or the context of a session.
        config: The writer's configuration.
        on_progress: Called with every `ProgressEvent`; see `BaseHoodieWriteClient`.
        validators: Asked before each commit, with a `SparkPendingCommit`; see `BaseHoodieWriteClient`.

    Raises:
        HoodieConfigException: An argument has the wrong type.
        HoodieException: The session was stopped.
        HoodieNotSupportedException: The table is in this process's memory, which executors cannot see.

    Hudi: org.apache.hudi.client.SparkRDDWriteClient.
    """

    supported_indexes: ClassVar[frozenset[str]] = frozenset(
        {str(one) for one in IndexType if one is not IndexType.INMEMORY}
    )

    sql_validators: ClassVar[Mapping[str, type[HoodiePreCommitValidator]]] = {
        validator.__name__: validator
        for validator in (
            SqlQueryEqualityPreCommitValidator,
            SqlQueryInequalityPreCommitValidator,
            SqlQuerySingleResultPreCommitValidator,
        )
    }

    def __init__(
        self,
        spark_or_context: SparkSession | HoodieSparkEngineContext,
        config: HoodieWriteConfig,
        *,
        on_progress: ProgressCallback | None = None,
        validators: Sequence[Validator | HoodiePreCommitValidator] = (),
    ) -> None:
        if isinstance(spark_or_context, HoodieWriteConfig) and not isinstance(config, HoodieWriteConfig):
            raise HoodieConfigException(
                "the arguments of SparkRDDWriteClient are swapped: call SparkRDDWriteClient(spark, config)"
            )
        check_config(config, type(self).__name__)
        if normalise_path(config.base_path).startswith("memory://"):
            raise HoodieNotSupportedException(
                f"Spark's executors cannot see {config.base_path}, which is in this process's memory: "
                "use HoodieLocalWriteClient, or a folder that all executors see"
            )
        context = (
            spark_or_context
            if isinstance(spark_or_context, HoodieSparkEngineContext)
            else HoodieSparkEngineContext(spark_or_context)
        )
        super().__init__(context, config, on_progress, validators)
        self._spark = context.spark

    def _write(
        self, operation: WriteOperationType, records: Any, instant_time: str | None, **options: Any
    ) -> HoodieWriteResult:
        check_workers(self._spark)
        return super()._write(operation, records, instant_time, **options)

    def _pending_commit(
        self, snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata
    ) -> SparkPendingCommit:
        commit = SparkPendingCommit(snapshot, result, metadata)
        commit.spark = self._spark
        return commit
