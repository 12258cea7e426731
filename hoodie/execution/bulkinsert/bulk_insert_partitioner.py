"""Spread the rows of a bulk insert over tasks, and sort them before they are written.

Hudi: org.apache.hudi.table.BulkInsertPartitioner and org.apache.hudi.execution.bulkinsert.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.common.util.class_loading import create_object
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import BulkInsertSortMode
from hoodie.engine.data import HoodieData
from hoodie.exception import HoodieConfigException, HoodieKeyException


class BulkInsertPartitioner(ABC):
    """Moves and sorts the rows of a bulk insert; one task writes each partition of the result.

    Pass a class of your own to ``bulk_insert(..., partitioner=...)``, or name it by
    ``hoodie.bulkinsert.user.defined.partitioner.class`` as ``package.module.Class``; then it is called with the
    writer's configuration. It must return every row exactly once.

        class ByCity(BulkInsertPartitioner):
            is_sorted = False

            def repartition_records(self, records, output_partitions):
                return records.repartition_by(["city"], output_partitions)

    Args:
        config: The writer's configuration.

    Hudi: org.apache.hudi.table.BulkInsertPartitioner. Differs: gets `HoodieData`, whose methods work on every engine
    (`hoodie.spark.spark_data.SparkData.frame` is the DataFrame of Spark).
    """

    is_sorted: bool = False
    """Whether all rows of a partition path are adjacent in a task, so that only one file is open at a time."""

    def __init__(self, config: HoodieWriteConfig | None = None) -> None:
        self.config = config

    @property
    def is_built_in(self) -> bool:
        """Whether the class is from this module, whose partitioners lose no rows."""
        return type(self).__module__ == __name__

    @abstractmethod
    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        """Spread and sort the rows.

        Args:
            records: The table's columns, ``__hoodie_record_key`` and ``__hoodie_partition_path`` (strings), and further
                reserved columns, which must stay. Rows whose key could not be made have null in both.
            output_partitions: The wanted number of tasks: ``hoodie.bulkinsert.shuffle.parallelism`` or the number of
                the input's partitions, whichever is smaller; 0 means as many as the input has.

        Returns:
            The same rows.
        """


class NonSortPartitioner(BulkInsertPartitioner):
    """Leaves rows where they are, without a shuffle: the fastest. Each task writes one file for each partition path.

    Hudi: org.apache.hudi.execution.bulkinsert.NonSortPartitioner.
    """

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records


class GlobalSortPartitioner(BulkInsertPartitioner):
    """Sorts everything by partition path and record key: few files, each with a narrow range of keys.

    Hudi: org.apache.hudi.execution.bulkinsert.GlobalSortPartitioner.
    """

    is_sorted = True

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.sort_by([PARTITION_PATH, RECORD_KEY], output_partitions or records.num_partitions)


class PartitionSortPartitioner(BulkInsertPartitioner):
    """Sorts the rows of each task by partition path and record key; no row moves to another task.

    Hudi: org.apache.hudi.execution.bulkinsert.RDDPartitionSortPartitioner.
    """

    is_sorted = True

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.sort_within([PARTITION_PATH, RECORD_KEY])


class PartitionPathRepartitionPartitioner(BulkInsertPartitioner):
    """Brings all rows of a partition path to one task: the fewest files.

    Hudi: org.apache.hudi.execution.bulkinsert.PartitionPathRepartitionPartitioner.
    """

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.repartition_by([PARTITION_PATH], output_partitions or records.num_partitions)


class PartitionPathRepartitionAndSortPartitioner(PartitionPathRepartitionPartitioner):
    """Brings all rows of a partition path to one task, which writes one partition path after the other.

    Hudi: org.apache.hudi.execution.bulkinsert.PartitionPathRepartitionAndSortPartitioner.
    """

    is_sorted = True

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return super().repartition_records(records, output_partitions).sort_within([PARTITION_PATH])


class CustomColumnsSortPartitioner(BulkInsertPartitioner):
    """Sorts everything by partition path and then by columns, so that queries that filter by them skip files.

    Without ``columns``, they are those of ``hoodie.bulkinsert.user.defined.partitioner.sort.columns``.

    Args:
        config: The writer's configuration.
        columns: Names of the columns to sort by.

    Hudi: org.apache.hudi.execution.bulkinsert.RDDCustomColumnsSortPartitioner.
    """

    is_sorted = True

    def __init__(self, config: HoodieWriteConfig | None = None, columns: Sequence[str] = ()) -> None:
        super().__init__(config)
        self.columns = tuple(columns or (config.write.bulk_insert_sort_columns if config is not None else ()))
        if not self.columns:
            raise HoodieConfigException(
                "CustomColumnsSortPartitioner sorts by hoodie.bulkinsert.user.defined.partitioner.sort.columns: "
                "name at least one column there"
            )

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        missing = [name for name in self.columns if name not in records.schema.names]
        if missing:
            raise HoodieKeyException(
                f"cannot sort by {', '.join(missing)} (hoodie.bulkinsert.user.defined.partitioner.sort.columns): the "
                "records have no such column"
            )
        return records.sort_by([PARTITION_PATH, *self.columns], output_partitions or records.num_partitions)


_SORT_MODES: dict[BulkInsertSortMode, type[BulkInsertPartitioner]] = {
    BulkInsertSortMode.NONE: NonSortPartitioner,
    BulkInsertSortMode.GLOBAL_SORT: GlobalSortPartitioner,
    BulkInsertSortMode.PARTITION_SORT: PartitionSortPartitioner,
    BulkInsertSortMode.PARTITION_PATH_REPARTITION: PartitionPathRepartitionPartitioner,
    BulkInsertSortMode.PARTITION_PATH_REPARTITION_AND_SORT: PartitionPathRepartitionAndSortPartitioner,
}
_PACKAGE_OF_HUDI = "org.apache.hudi.execution.bulkinsert."
_OF_HUDI: dict[str, type[BulkInsertPartitioner]] = {
    "RDDCustomColumnsSortPartitioner": CustomColumnsSortPartitioner,
    "RowCustomColumnsSortPartitioner": CustomColumnsSortPartitioner,
    "JavaCustomColumnsSortPartitioner": CustomColumnsSortPartitioner,
    "GlobalSortPartitioner": GlobalSortPartitioner,
    "JavaGlobalSortPartitioner": GlobalSortPartitioner,
    "NonSortPartitioner": NonSortPartitioner,
    "JavaNonSortPartitioner": NonSortPartitioner,
    "RDDPartitionSortPartitioner": PartitionSortPartitioner,
    "PartitionPathRepartitionPartitioner": PartitionPathRepartitionPartitioner,
    "PartitionPathRepartitionAndSortPartitioner": PartitionPathRepartitionAndSortPartitioner,
}
"""Hudi's own classes, by their names in Hudi configurations."""


def create_bulk_insert_partitioner(config: HoodieWriteConfig) -> BulkInsertPartitioner:
    """The partitioner that the configuration names: a class of the user, or else the one of the sort mode.

    Raises:
        HoodieConfigException: There is no such class, or it is not a `BulkInsertPartitioner`.
    """
    name = config.write.bulk_insert_partitioner_class
    if name is None:
        return _SORT_MODES[config.write.bulk_insert_sort_mode](config)
    known = _OF_HUDI.get(name.removeprefix(_PACKAGE_OF_HUDI)) if name.startswith(_PACKAGE_OF_HUDI) else None
    if known is not None:
        return known(config)
    return create_object(name, "hoodie.bulkinsert.user.defined.partitioner.class", BulkInsertPartitioner, config)


def check_partitioner(partitioner: Any) -> BulkInsertPartitioner | None:
    """Return the caller's partitioner, or None; refuse any other object."""
    if partitioner is not None and not isinstance(partitioner, BulkInsertPartitioner):
        raise HoodieConfigException(
            f"{type(partitioner).__name__} is not a partitioner of bulk inserts: derive it from "
            "hoodie.execution.bulkinsert.bulk_insert_partitioner.BulkInsertPartitioner"
        )
    checked: BulkInsertPartitioner | None = partitioner
    return checked
