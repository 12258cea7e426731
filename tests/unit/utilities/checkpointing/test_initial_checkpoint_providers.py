from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from hoodie.exception import HoodieConfigException, HoodieStreamerException, TableNotFoundException
from hoodie.utilities.checkpointing.initial_checkpoint_provider import make_initial_checkpoint_provider
from hoodie.utilities.config.streamer_properties import StreamerProperties
from tests.support.table_builder import init_table, local_client, rows

PACKAGE = "org.apache.hudi.utilities.checkpointing."
CONNECT = f"{PACKAGE}KafkaConnectHdfsProvider"
ANOTHER = "InitialCheckpointFromAnotherHoodieTimelineProvider"


def checkpoint_of(name: str, path: Path) -> str:
    properties = StreamerProperties({"hoodie.deltastreamer.checkpoint.provider.path": str(path)})
    return make_initial_checkpoint_provider(name, properties).load_checkpoint()


def write(folder: Path, names: Iterable[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_the_names_of_files_tell_the_newest_offset_of_each_partition(tmp_path: Path) -> None:
    names = [
        "year=2016/month=05/day=01/topic1+0+100+200.parquet",
        "year=2016/month=05/day=01/topic1+1+100+200.parquet",
        "year=2016/month=05/day=02/topic1+0+201+300.parquet",
        "year=2016/month=05/day=02/topic1+2+100+1000",
        "year=2016/month=05/day=03/topic1+0+50+60.parquet",
        "topic1+10+5+7.avro",
        *(f"topic1+{partition}+0+9.avro" for partition in range(3, 10)),
        "_SUCCESS",
        "other/topic1+0+900+999.parquet",
        "topic1+0+900.parquet",
    ]

    found = checkpoint_of(CONNECT, write(tmp_path, names))

    assert found == "topic1,0:300,1:200,2:1000,3:9,4:9,5:9,6:9,7:9,8:9,9:9,10:7"


def test_a_topic_may_have_dots_in_its_name(tmp_path: Path) -> None:
    assert checkpoint_of("KafkaConnectHdfsProvider", write(tmp_path, ["a.b-c+0+0+5.snappy"])) == "a.b-c,0:5"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no file of Kafka Connect"),
        (["a+0+0+5.avro", "b+0+0+5.avro"], "files of the topics a, b"),
        (["a+0+0+5.avro", "a+3+0+5.avro"], "no file of the partitions 1, 2, and has one of 3"),
    ],
)
def test_files_that_tell_no_position_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(HoodieStreamerException, match=message):
        checkpoint_of(CONNECT, write(tmp_path, names))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"deltastreamer.checkpoint.key": "topic,0:12"}, "topic,0:12"),
        ({"streamer.checkpoint.key.v2": "topic,0:13"}, "topic,0:13"),
        ({"streamer.checkpoint.key.v2": "1764000000000"}, "1764000000000"),
        (
            {"streamer.checkpoint.key.v2": "20261129203608693"},
            "resumeFromInstantCompletionTime:20261129203608693",
        ),
        ({"deltastreamer.checkpoint.key": "20261129203608693"}, "20261129203608693"),
    ],
)
def test_the_newest_position_of_another_table_is_taken(tmp_path: Path, metadata: dict[str, str], expected: str) -> None:
    init_table(tmp_path / "t")
    with local_client(tmp_path / "t", {"hoodie.auto.commit": "false"}) as client:
        for extra in ({"deltastreamer.checkpoint.key": "old"}, metadata, {}):
            time = client.start_commit()
            client.commit(time, client.upsert(rows(("a", "x", 1)), time), extra_metadata=extra)

    assert checkpoint_of(ANOTHER, tmp_path / "t") == expected


def test_a_table_without_a_position_is_refused(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with local_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1)))

    with pytest.raises(HoodieStreamerException, match="no commit of this table, archived ones included"):
        checkpoint_of(ANOTHER, tmp_path / "t")
    with pytest.raises(TableNotFoundException):
        checkpoint_of(ANOTHER, tmp_path / "none")


def test_the_path_and_the_class_must_be_there() -> None:
    with pytest.raises(HoodieConfigException, match="needs hoodie.streamer.checkpoint.provider.path"):
        make_initial_checkpoint_provider(CONNECT, StreamerProperties())
    with pytest.raises(HoodieConfigException, match="nearest: KafkaConnectHdfsProvider"):
        make_initial_checkpoint_provider("KafkaConnectProvider", StreamerProperties())
