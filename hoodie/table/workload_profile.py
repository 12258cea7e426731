"""Count the records of a write by partition and file group, before the first file is written.

Hudi: org.apache.hudi.table.{WorkloadProfile, WorkloadStat}.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pyarrow as pa

from hoodie.common.model.commit_metadata import FileGroupWorkload, HoodieCommitMetadata, build_workload_profile
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import CURRENT_FILE_ID, CURRENT_INSTANT_TIME, PARTITION_PATH
from hoodie.common.model.write_operation_type import WriteOperationType


@attrs.frozen
class WorkloadStat:
    """Records of one partition.

    Attributes:
        num_inserts: Records whose key is not in the table; those whose file group does not exist yet.
        updates: Location to the number of records whose key lives there, or belongs there.
        placed: Id of a file group that does not exist yet to the inserts that the index wants there.
    """

    num_inserts: int = 0
    updates: Mapping[HoodieRecordLocation, int] = attrs.field(factory=dict)
    placed: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def num_free(self) -> int:
        """Inserts for which any file group will do."""
        return self.num_inserts - sum(self.placed.values())


@attrs.frozen
class WorkloadProfile:
    """Inserts per partition and updates per file group.

    Attributes:
        operation: The operation.
        stats: Partition path to its `WorkloadStat`, sorted by partition path.
    """

    operation: WriteOperationType
    stats: Mapping[str, WorkloadStat]

    @classmethod
    def from_counts(cls, operation: WriteOperationType, counts: pa.Table) -> WorkloadProfile:
        """Make a profile of counted rows.

        Args:
            operation: The operation.
            counts: Columns partition path, current file id, current instant time (both null for inserts, the latter
                alone where the index names a new file group) and ``count``. Without the two location columns every row
                is an insert.
        """
        names = counts.column_names
        located = CURRENT_FILE_ID in names
        nothing = [None] * counts.num_rows
        inserts: dict[str, int] = {}
        updates: dict[str, dict[HoodieRecordLocation, int]] = {}
        placed: dict[str, dict[str, int]] = {}
        for partition_path, file_id, instant_time, count in zip(
            counts[PARTITION_PATH].to_pylist(),
            counts[CURRENT_FILE_ID].to_pylist() if located else nothing,
            counts[CURRENT_INSTANT_TIME].to_pylist() if located else nothing,
            counts["count"].to_pylist(),
            strict=True,
        ):
            if file_id is None or instant_time is None:
                inserts[partition_path] = inserts.get(partition_path, 0) + count
                if file_id is not None:
                    placed.setdefault(partition_path, {})[file_id] = count
            else:
                updates.setdefault(partition_path, {})[HoodieRecordLocation(instant_time, file_id)] = count
        stats = {
            partition_path: WorkloadStat(
                inserts.get(partition_path, 0), updates.get(partition_path, {}), placed.get(partition_path, {})
            )
            for partition_path in sorted(inserts.keys() | updates.keys())
        }
        return cls(operation, stats)

    def to_commit_metadata(
        self, inserts_into: Mapping[str, Mapping[HoodieRecordLocation, int]]
    ) -> HoodieCommitMetadata:
        """The profile as Hudi saves it in the inflight file: other writers see which file groups are being written.

        Args:
            inserts_into: Partition path to the inserts that fill existing file groups.
        """
        new_groups, touched = {}, {}
        for partition_path, stat in self.stats.items():
            filling = inserts_into.get(partition_path, {})
            new_groups[partition_path] = stat.num_inserts - sum(filling.values())
            touched[partition_path] = [
                FileGroupWorkload(
                    location.file_id, location.instant_time, stat.updates.get(location, 0), filling.get(location, 0)
                )
                for location in {**stat.updates, **filling}
            ]
        return build_workload_profile(self.operation, new_groups, touched)
