"""The versions of tables that hoodie reads and writes.

Hudi: org.apache.hudi.common.table.HoodieTableVersion.
"""

from __future__ import annotations

from collections.abc import Mapping

TABLE_VERSIONS: Mapping[int, str] = {6: "SIX", 8: "EIGHT", 9: "NINE"}
"""``hoodie.table.version`` -> Hudi's name of the version."""
