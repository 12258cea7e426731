"""Hudi's own extractors give the values that hoodie's give."""

from __future__ import annotations

import pytest

from tests.interop.hudi_process import HudiProcess
from tests.support.partition_paths import EXTRACTORS, HIVE, MULTI, NONE, VALUES

pytestmark = pytest.mark.interop

NEWER = {"region=a=b", "region=", "region==", "y=2026=x/11/14"}
"""Paths with a further or a last ``=``, which Hudi refuses up to 1.2."""


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_partition_values_are_those_of_hudi(extractor: str, hudi_0_15: HudiProcess, hudi_1_2: HudiProcess) -> None:
    wanted = {path: [] if extractor == NONE else values.get(extractor) for path, values in VALUES.items()}
    for hudi in (hudi_0_15, hudi_1_2):
        found = dict(zip(VALUES, hudi.partition_values(extractor, list(VALUES)), strict=True))
        refused = {path for path in NEWER if found[path] is None and wanted[path] is not None}
        assert {path: found[path] for path in found.keys() - refused} == {
            path: wanted[path] for path in wanted.keys() - refused
        }
        assert bool(refused) == (extractor in (HIVE, MULTI))
