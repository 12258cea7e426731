"""The outcome of a write that an executor gives to the client.

Hudi: org.apache.hudi.table.action.HoodieWriteMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WithoutEffect, WriteStatus


@attrs.frozen
class HoodieWriteMetadata:
    """The outcome of a write: statuses of files, replaced file groups, and records without effect.

    Attributes:
        operation: The operation.
        statuses: One for each written file.
        partition_to_replace_file_ids: File groups that the commit replaces.
        without_effect: Records that changed nothing and belong to no file; each status counts those of its own file.

    Hudi: org.apache.hudi.table.action.HoodieWriteMetadata.
    """

    operation: WriteOperationType
    statuses: Sequence[WriteStatus]
    partition_to_replace_file_ids: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    without_effect: WithoutEffect = attrs.field(factory=WithoutEffect)
