"""What configurations, clients, views and metrics print: short, and no secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.config.property import properties_of
from hoodie.config.write_config import GROUPS
from hoodie.metrics.metrics import HoodieMetrics

ROWS = pa.table({"id": ["a", "b"], "region": ["x", "y"]})


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    hoodie.write_table(ROWS, path, record_key_fields="id", partition_fields="region")
    return path


def test_a_configuration_prints_what_differs_from_the_defaults() -> None:
    given = {
        "hoodie.parquet.max.file.size": 1 << 20,
        "hoodie.keep.min.commits": 20,
        "hoodie.index.type": "bucket",
        "hoodie.table.recordkey.fields": "a,b",
        "hoodie.clean.automatic": False,
        "path": "/elsewhere",
    }
    config = HoodieWriteConfig.from_properties("/data/trips", given)
    assert repr(config) == (
        "HoodieWriteConfig('/data/trips', {'hoodie.clean.automatic': False, "
        "'hoodie.datasource.write.recordkey.field': 'a,b', 'hoodie.index.type': 'BUCKET', "
        "'hoodie.parquet.max.file.size': 1048576})"
    )
    assert repr(HoodieWriteConfig(base_path="/data/trips")) == "HoodieWriteConfig('/data/trips', {})"
    evolved = attrs.evolve(config, storage=attrs.evolve(config.storage, parquet_page_size=5))
    assert "'hoodie.parquet.page.size': 5" in repr(evolved)


@pytest.mark.parametrize("group", GROUPS.values())
def test_a_group_of_properties_prints_the_fields_that_differ(group: type[Any]) -> None:
    assert repr(group()) == f"{group.__name__}()"
    for name, prop in properties_of(group).items():
        if isinstance(prop.default, bool):
            assert repr(group(**{name: not prop.default})) == f"{group.__name__}({name}={not prop.default})"


def test_no_secret_is_printed() -> None:
    secret = "s3cr3t-value"
    given = {
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.http.url": f"https://hooks.example/{secret}",
        "hoodie.write.commit.callback.http.custom.headers": f"X-Key:{secret}",
        "hoodie.index.database.url": f"postgresql://me:{secret}@db/x",
        "fs.azure.account.key.acc.dfs.core.windows.net": secret,
        "fs.s3a.secret.key": secret,
    }
    config = HoodieWriteConfig.from_properties(f"memory://user:{secret}@bucket/t", given, {"secret_access_key": secret})
    for shown in (repr(config), repr(config.callback), repr(config.index), repr(HoodieLocalWriteClient(config))):
        assert secret not in shown
        assert "***" in shown


def test_a_client_prints_its_table_and_what_it_left_open(base_path: str) -> None:
    client = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, {"hoodie.auto.commit": False}))
    assert repr(client) == f"<HoodieLocalWriteClient of '{base_path}', index SIMPLE>"
    instant_time = client.start_commit()
    assert repr(client) == f"<HoodieLocalWriteClient of '{base_path}', index SIMPLE, {instant_time} not completed>"
    client.rollback(instant_time)
    client.close()
    assert repr(client) == f"<HoodieLocalWriteClient of '{base_path}', index SIMPLE, closed>"
    metrics = HoodieMetrics()
    assert repr(metrics) == "<HoodieMetrics steps=0 seconds=0.00>"
    with metrics.operation("upsert"):
        assert re.fullmatch(r"<HoodieMetrics steps=0 seconds=\d+\.\d\d in=upsert>", repr(metrics))


def test_views_timelines_and_the_table_print_short(base_path: str, table_version: int) -> None:
    meta_client = HoodieTableMetaClient.load(base_path)
    [instant] = meta_client.active_timeline
    time = instant.requested_time
    view = meta_client.view()
    assert repr(view) == (
        f"<HoodieTableFileSystemView of '{base_path}' as of {time}: 0 file groups of 0 listed partitions>"
    )
    view.load_partitions(view.list_partitions()[:1])
    assert repr(view).endswith(": 2 partitions, 1 file group of 1 listed partition>")
    assert repr(meta_client.active_timeline) == f"<HoodieActiveTimeline of 1 instant, 0 pending, {time} to {time}>"
    archived = "HoodieLsmTimeline" if table_version >= 8 else "HoodieArchivedTimeline"
    assert repr(meta_client.archived_timeline) == f"<{archived} of 0 instants, 0 pending>"
    shown = repr(meta_client.table_config)
    assert shown.startswith("<HoodieTableConfig {'hoodie.table.name': 't', 'hoodie.table.type': 'COPY_ON_WRITE', ")
    assert shown.endswith(" more>")
    assert len(shown) < 450
