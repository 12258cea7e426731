"""Keys in a database: what real Hudi writes between hoodie's commits is noticed and caught up with."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess
from tests.interop.test_operations import DEFAULT_PAYLOAD, Rows, init, rows, rows_of, write_with_hudi

pytestmark = pytest.mark.interop

INDEX = {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}


@pytest.mark.parametrize("one_client", [True, False], ids=["one_client", "a_client_per_write"])
def test_keys_that_real_hudi_wrote_moved_and_deleted_are_known_at_the_next_write(
    hudi: HudiProcess, tmp_path: Path, one_client: bool
) -> None:
    init(tmp_path, DEFAULT_PAYLOAD)
    config = HoodieWriteConfig.from_properties(str(tmp_path), INDEX)
    kept = HoodieLocalWriteClient(config) if one_client else None
    model: dict[str, tuple[str, str, int, float]] = {}

    def by_hoodie(entries: Rows) -> tuple[int, int, int]:
        """New keys; keys that stayed; keys that moved."""
        model.update({row[0]: row for row in entries})
        client = kept or HoodieLocalWriteClient(config)
        result = client.upsert(rows(*entries))
        if client is not kept:
            client.close()
        return result.inserted_count - result.deleted_count, result.updated_count, result.deleted_count

    def by_hudi(entries: Rows, operation: str = "upsert") -> None:
        write_with_hudi(hudi, tmp_path, (operation, GLOBAL, entries), DEFAULT_PAYLOAD)
        model.update({row[0]: row for row in entries})

    def check() -> None:
        assert rows_of(hudi.read(tmp_path)) == sorted((*row, row[1]) for row in model.values())

    assert by_hoodie([(f"k{number}", "north", 1, 1.0) for number in range(6)]) == (6, 0, 0)
    # A key of ours moves, one changes, a new one comes, into a new partition.
    by_hudi([("k0", "south", 2, 2.0), ("k1", "north", 2, 2.0), ("new", "east", 2, 2.0)])
    assert by_hoodie([("k0", "south", 3, 3.0), ("new", "east", 3, 3.0), ("k1", "east", 3, 3.0)]) == (0, 2, 1)
    check()

    # Keys that are gone are new again, in whichever file.
    by_hudi([("k2", "north", 4, 4.0)], "delete")
    by_hudi([("z", "south", 4, 4.0)], "insert_overwrite")
    del model["k2"], model["k0"]
    assert by_hoodie([("k2", "north", 5, 5.0), ("k0", "north", 5, 5.0), ("z", "south", 5, 5.0)]) == (2, 1, 0)
    check()

    # What real Hudi rolls back was never there.
    newest = HoodieTableMetaClient.load(str(tmp_path)).active_timeline.commits_timeline().last_instant
    assert newest is not None
    assert hudi.rollback(tmp_path, newest.requested_time)
    del model["k2"], model["k0"]
    assert by_hoodie([("k2", "east", 6, 6.0), ("k0", "south", 6, 6.0), ("z", "south", 6, 6.0)]) == (2, 1, 0)
    check()
    if kept is not None:
        kept.close()
