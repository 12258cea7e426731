"""Makes ``tests/data/reader_agreement.json``: what each reader finds in merge-on-read tables that hoodie writes.

    python -m tests.interop.make_reader_agreement tests/data/reader_agreement.json [name of a table ...]

It needs what the interop tests need. The file has for each table of `tests.support.reader_cases` its cases, each with
the row that is left: one text where all readers agree, else one for each reader. With names of tables, only these are
made again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.reader_cases import (
    HOODIE,
    HUDI_RS,
    READERS,
    TABLES,
    CaseTable,
    Found,
    by_hoodie,
    by_hudi_rs,
    left_of,
    make_table,
)


def by_hudi(hudi: HudiProcess, base_path: Path, table: CaseTable) -> Found:
    """What a release of real Hudi finds."""
    (found,) = hudi.read_each(base_path, [{}])
    return left_of(None if isinstance(found, HudiError) else found, table)


def found_by_all(hudis: Mapping[str, HudiProcess], base_path: Path, table: CaseTable) -> dict[str, Found]:
    """What each reader finds in a table."""
    found = {HOODIE: by_hoodie(base_path, table), HUDI_RS: by_hudi_rs(base_path, table)}
    return found | {release: by_hudi(hudis[release], base_path, table) for release in READERS[table.version]}


def shortened(found: Mapping[str, Found]) -> dict[str, Any]:
    """By cases, and one text where all agree."""
    cases = next(iter(found.values()))
    by_case = {case: {reader: left[case] for reader, left in found.items()} for case in cases}
    return {case: left[HOODIE] if len(set(left.values())) == 1 else left for case, left in by_case.items()}


def main(target: Path, names: Sequence[str]) -> None:
    stored = json.loads(target.read_text()) if names else {}
    with tempfile.TemporaryDirectory() as folder:
        releases = {release for of_version in READERS.values() for release in of_version}
        hudis = {release: HudiProcess(release, Path(folder) / release) for release in sorted(releases)}
        try:
            for release in releases:
                (Path(folder) / release).mkdir()
            for number, (name, table) in enumerate(TABLES.items()):
                if not names or name in names:
                    make_table(Path(folder) / str(number), table)
                    stored[name] = shortened(found_by_all(hudis, Path(folder) / str(number), table))
        finally:
            for hudi in hudis.values():
                hudi.stop()
    target.write_text(json.dumps({name: stored[name] for name in TABLES}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
