"""Keys and paths are those that real Hudi 0.15.0 made of the same values (`tests.interop.make_key_golden`)."""

from __future__ import annotations

import re

import pytest

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.keygen.key_generator import KeyGenerator, create_key_generator
from tests.support.key_golden import GoldenCase, load_golden_keys

REFUSED_CASES = {"time_unix_unknown_zone": "'\\+08:00' is not a known time zone"}
"""Java takes a zone that it does not know for GMT; hoodie refuses the table."""
CASES = [case for case in load_golden_keys() if case.name not in REFUSED_CASES]


def generator_of(case: GoldenCase) -> KeyGenerator:
    """From what Hudi stored and was told, in that order; Hudi 0.15.0 writes one complex key field without its name."""
    table = HoodieTableConfig(case.table_properties or properties_of(case))
    return create_key_generator(table, single_field_prefix=False, write_properties=case.options)


def properties_of(case: GoldenCase) -> dict[str, str]:
    """Of a table that Hudi did not make, because it refused all rows."""
    options = case.options
    return {
        "hoodie.table.recordkey.fields": options["hoodie.datasource.write.recordkey.field"],
        "hoodie.table.partition.fields": options["hoodie.datasource.write.partitionpath.field"],
        "hoodie.table.keygenerator.class": options["hoodie.datasource.write.keygenerator.class"],
    }


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_keys_and_paths_are_those_of_hudi(case: GoldenCase) -> None:
    generator = generator_of(case)
    try:
        generator.bind(case.rows.schema)
        record_keys, paths = (column.to_pylist() for column in generator.keys(case.rows))
    except HoodieException:
        with_value = [row for row in range(case.rows.num_rows) if case.rows.column("v")[row].is_valid]
        assert set(with_value) <= set(case.errors), "Hudi takes at least one of these rows"
        return
    found = list(zip(record_keys, paths, strict=True))
    expected = list(zip(case.record_keys, case.partition_paths, strict=True))
    for row, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if row in case.errors:
            assert mine == (None, None), f"row {row}: Hudi refuses it ({case.errors[row]})"
        elif mine == (None, None):
            is_nan = "v" in generator.record_key_fields and re.search(r"(^|,v:)NaN$", theirs[0] or "") is not None
            assert is_nan or refused_by_hoodie_alone(theirs[1]), f"row {row}: Hudi makes {theirs} of it"
        else:
            assert mine == theirs, f"row {row}"


@pytest.mark.parametrize("case", [case for case in load_golden_keys() if case.name in REFUSED_CASES])
def test_what_hudi_reads_otherwise_than_it_stands_is_refused(case: GoldenCase) -> None:
    with pytest.raises(HoodieConfigException, match=REFUSED_CASES[case.name]):
        generator_of(case)


REFUSED = re.compile(r"[\x00-\x1f\x7f:]|(^|/|=)/|/$|(^|[/=])\.")
"""In a path: it leads to another folder, or no other writer would find it."""


def refused_by_hoodie_alone(path: str | None) -> bool:
    """Whether hoodie refuses a path that Hudi writes to."""
    return path is not None and REFUSED.search(path) is not None
