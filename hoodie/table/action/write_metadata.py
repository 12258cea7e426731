"""What an executor hands to the client.

Hudi: org.apache.hudi.table.action.HoodieWriteMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_status import WithoutEffect, WriteStatus


@attrs.frozen
class HoodieWriteMetadata:
    """What an executor hands to the client.

    Attributes:
        operation: What was done.
        statuses: One for each written file.
        partition_to_replace_file_ids: File groups that the commit replaces.
        without_effect: Records that changed nothing and came to no file; statuses count those of their files.

    Hudi: org.apache.hudi.table.action.HoodieWriteMetadata.
    """

    operation: WriteOperationType
    statuses: Sequence[WriteStatus]
    partition_to_replace_file_ids: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    without_effect: WithoutEffect = attrs.field(factory=WithoutEffect)
