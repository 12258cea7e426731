"""Clients in a notebook."""

from __future__ import annotations

from pathlib import Path

from hoodie import HoodieLocalWriteClient, HoodieReadClient, HoodieWriteConfig
from tests.support.table_builder import init_table, rows


def test_a_write_client_shows_its_table_options_and_pending_instants_and_no_secrets(tmp_path: Path) -> None:
    path = init_table(tmp_path / "a<b")
    options = {
        "hoodie.index.type": "SIMPLE",
        "hoodie.auto.commit": False,
        "hoodie.metrics.pushgateway.host": "https://me:hidden@host",
    }
    client = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, options))
    instant_time = client.start_commit()
    result = client.upsert(rows(("a", "x", 1, 1.0)), instant_time)
    html = client._repr_html_()
    for shown in (
        "HoodieLocalWriteClient",
        "a&lt;b",
        "SIMPLE",
        "hoodie.auto.commit",
        f"{instant_time} is not completed",
    ):
        assert shown in html
    assert "hidden" not in html and "closed" not in html
    client.commit(instant_time, result)
    assert "not completed" not in client._repr_html_()
    client.close()
    assert "closed" in client._repr_html_()


def test_a_read_client_shows_its_table_and_index(tmp_path: Path) -> None:
    client = HoodieReadClient(base_path=tmp_path / "t", storage_options={"secret_access_key": "hidden"})
    html = client._repr_html_()
    assert str(tmp_path / "t") in html and "BLOOM" in html
    assert "hidden" not in html and "closed" not in html
    client.close()
    assert "closed" in client._repr_html_()
