"""INMEMORY: a client that lives on knows at each write what real Hudi has written, deleted and undone since."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess
from tests.interop.test_operations import DEFAULT_PAYLOAD, Rows, init, rows, rows_of, write_with_hudi

pytestmark = pytest.mark.interop


def test_a_client_that_lives_on_follows_what_real_hudi_does(hudi: HudiProcess, tmp_path: Path) -> None:
    init(tmp_path, DEFAULT_PAYLOAD)
    model: dict[tuple[str, str], tuple[str, str, int, float]] = {}

    def by_hudi(entries: Rows, operation: str = "upsert") -> None:
        write_with_hudi(hudi, tmp_path, (operation, {}, entries), DEFAULT_PAYLOAD)
        for row in entries:
            if operation == "delete":
                del model[row[:2]]
            else:
                model[row[:2]] = row

    properties = {"hoodie.index.type": "INMEMORY", "hoodie.parquet.small.file.limit": "0"}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(tmp_path), properties)) as client:

        def by_hoodie(entries: Rows) -> tuple[int, int]:
            """New keys, and known ones; a new one always begins a file, where merging would not find it."""
            model.update({row[:2]: row for row in entries})
            result = client.upsert(rows(*entries))
            assert rows_of(hudi.read(tmp_path)) == sorted((*row, row[1]) for row in model.values())
            return result.inserted_count, result.updated_count

        assert by_hoodie([(f"k{number}", "north", 1, 1.0) for number in range(4)]) == (4, 0)
        by_hudi([("k0", "north", 2, 2.0), ("new", "north", 2, 2.0), ("k0", "south", 2, 2.0)])
        assert by_hoodie([("k0", "north", 3, 3.0), ("new", "north", 3, 3.0), ("k0", "south", 3, 3.0)]) == (0, 3)
        by_hudi([("k1", "north", 4, 4.0)], "delete")
        assert by_hoodie([("k1", "north", 5, 5.0), ("k2", "north", 5, 5.0)]) == (1, 1)

        # What real Hudi replaced is gone; what it undoes was never there.
        by_hudi([("z", "south", 6, 6.0)], "insert_overwrite")
        del model["k0", "south"]
        before = dict(model)
        by_hudi([("k0", "south", 7, 7.0)])
        newest = HoodieTableMetaClient.load(str(tmp_path)).active_timeline.commits_timeline().last_instant
        assert newest is not None
        assert hudi.rollback(tmp_path, newest.requested_time)
        model.clear()
        model.update(before)
        assert by_hoodie([("k0", "south", 8, 8.0), ("z", "south", 8, 8.0)]) == (1, 1)
        undone = client.upsert(rows(("k0", "south", 9, 9.0), ("k9", "south", 9, 9.0))).instant_time
        assert hudi.rollback(tmp_path, undone)
        assert by_hoodie([("k0", "south", 10, 10.0), ("k9", "south", 10, 10.0)]) == (1, 1)
