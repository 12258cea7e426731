from __future__ import annotations

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.utilities.streamer.arguments import for_the_streamer, help_text, parse_arguments
from hoodie.utilities.streamer.streamer_config import FLAGS, StreamerConfig

WALK_THROUGH = [
    "packaging/hudi-utilities-bundle/target/hudi-utilities-bundle_2.11-0.5.2-incubating.jar",
    "--props", "file:///data/kafka-source.properties",
    "--schemaprovider-class", "org.apache.hudi.utilities.schema.SchemaRegistryProvider",
    "--source-class", "org.apache.hudi.utilities.sources.AvroKafkaSource",
    "--source-ordering-field", "impresssiontime",
    "--target-base-path", "file:///data/hudi-deltastreamer-op",
    "--target-table", "uber.impressions",
    "--table-type", "COPY_ON_WRITE",
    "--op", "BULK_INSERT",
]  # fmt: skip


def problems_of(*words: str) -> str:
    with pytest.raises(HoodieConfigException) as caught:
        parse_arguments(["--target-base-path", "/t", *words])
    return str(caught.value)


def test_the_command_line_of_hudis_walk_through_is_taken_and_its_jar_is_ignored_with_a_line() -> None:
    said: list[str] = []
    config = parse_arguments(WALK_THROUGH, said.append)
    assert said == [f"{WALK_THROUGH[0]} is not needed: hoodie has no jar"]
    assert config == StreamerConfig(
        target_base_path="file:///data/hudi-deltastreamer-op",
        target_table="uber.impressions",
        table_type="COPY_ON_WRITE",
        props="file:///data/kafka-source.properties",
        schema_provider_class="org.apache.hudi.utilities.schema.SchemaRegistryProvider",
        source_class="org.apache.hudi.utilities.sources.AvroKafkaSource",
        source_ordering_fields="impresssiontime",
        op="BULK_INSERT",
    )


def test_a_whole_spark_submit_is_taken_from_its_class_on() -> None:
    said: list[str] = []
    words = [
        "spark-submit", "--master", "yarn", "--class", "org.apache.hudi.utilities.deltastreamer.HoodieDeltaStreamer",
        *WALK_THROUGH,
    ]  # fmt: skip
    assert parse_arguments(words, said.append) == parse_arguments(WALK_THROUGH)
    assert said[0] == "options of spark-submit are not used: --master yarn"


def test_the_defaults_are_those_of_hudi() -> None:
    config = parse_arguments(["--target-base-path", "/data/trips"])
    assert (config.table_name, config.op, config.source_class) == ("trips", "UPSERT", "JsonDFSSource")
    assert (config.max_pending_compactions, config.max_pending_clustering, config.max_retry_count) == (5, 5, 3)
    assert (config.retry_interval_seconds, config.min_sync_interval_seconds) == (30, 0)
    assert config.source_limit is None


def test_options_of_spark_submit_stand_in_any_order() -> None:
    said: list[str] = []
    words, is_multi = for_the_streamer(
        [
            "spark-submit", "--class", "org.apache.hudi.utilities.streamer.HoodieMultiTableStreamer", "--verbose",
            "--packages", "a:b:1,c:d:2", "--conf", "spark.x=y", "x.jar", "--props", "p", "--base-path-prefix", "/d",
        ],
        said.append,
    )  # fmt: skip
    assert (words, is_multi) == (["--props", "p", "--base-path-prefix", "/d"], True)
    assert "--conf spark.x=y" in said[0]
    words, is_multi = for_the_streamer(["--class", "a.HoodieStreamer", "x.jar", "--op", "INSERT"], said.append)
    assert (words, is_multi) == (["--op", "INSERT"], False)


def test_a_flag_that_is_given_twice_is_told() -> None:
    assert "--from is given twice" in problems_of("--from", "a.json", "--from", "b.json")
    assert "--source-limit is given twice" in problems_of("--source-limit", "1", "--source-limit", "2")
    assert parse_arguments(["/t", "--op", "INSERT", "--op", "insert"]).op == "INSERT"


def test_a_glob_that_the_shell_expanded_is_told() -> None:
    assert "put it into quotes" in problems_of("--from", "in/1.json", "in/2.json")


def test_every_flag_of_hudi_is_known_under_all_of_its_spellings() -> None:
    known = {name for flag in FLAGS for name in flag.names}
    assert known >= {
        "--target-base-path", "--target-table", "--table-type", "--base-file-format", "--props", "--hoodie-conf",
        "--source-class", "--source-ordering-fields", "--source-ordering-field", "--payload-class", "--merge-mode",
        "--record-merge-mode", "--merge-strategy-id", "--record-merge-strategy-id", "--merge-impl-classes",
        "--record-merge-custom-implementation-classes", "--schemaprovider-class", "--transformer-class",
        "--source-limit", "--op", "--filter-dupes", "--enable-hive-sync", "--enable-sync", "--force-empty-sync",
        "--sync-tool-classes", "--max-pending-compactions", "--max-pending-clustering", "--continuous",
        "--min-sync-interval-seconds", "--spark-master", "--enable-hive-support", "--commit-on-errors",
        "--delta-sync-scheduling-weight", "--compact-scheduling-weight", "--delta-sync-scheduling-minshare",
        "--compact-scheduling-minshare", "--disable-compaction", "--checkpoint", "--initial-checkpoint-provider",
        "--run-bootstrap", "--bootstrap-overwrite", "--bootstrap-index-class", "--retry-on-source-failures",
        "--retry-interval-seconds", "--max-retry-count", "--allow-commit-on-no-checkpoint-change",
        "--retry-last-pending-inline-clustering", "-rc", "--retry-last-pending-inline-compaction",
        "--cluster-scheduling-weight", "--cluster-scheduling-minshare", "--post-write-termination-strategy-class",
        "--ingestion-metrics-class", "--config-hot-update-strategy-class", "--ignore-checkpoint", "--spark-app-name",
    }  # fmt: skip


def test_all_that_is_wrong_is_told_at_once() -> None:
    told = problems_of(
        "--continous", "--op", "MERGE", "--run-bootstrap", "--source-limit", "many", "--hoodie-conf", "x"
    )
    assert "5 problems" in told
    assert "--continous: there is no such flag; nearest: --continuous" in told
    assert "--op MERGE: must be UPSERT or INSERT" in told
    assert "--run-bootstrap: hoodie does not bootstrap tables" in told
    assert "--source-limit many: must be a whole number" in told
    assert "--hoodie-conf: give KEY=VALUE" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--filter-dupes"], "--filter-dupes with --op UPSERT"),
        (["--engine", "local", "--spark-master", "local[2]"], "--engine local with --spark-master"),
        (["--max-pending-compactions", "0"], "--max-pending-compactions must be at least 1"),
        (["--min-sync-interval-seconds", "-1"], "--min-sync-interval-seconds must not be negative"),
        (["--ordering", "a", "--source-ordering-fields", "b"], "--ordering and --source-ordering-fields"),
        (["--record-key", "a", "--hoodie-conf", "hoodie.datasource.write.recordkey.field=b"], "give one of them"),
        (["--from", "kafka://host:9092"], "give kafka://HOST:PORT/TOPIC"),
        (["--from", "kafka://me:secret@host:9092/trips"], "user and password are properties"),
        (["--from", "/data/in"], "its end tells no format"),
        (["--op"], "--op lacks its value"),
        (["second"], "second: not a flag"),
    ],
)
def test_contradictions_are_told_before_anything_is_read(words: list[str], told: str) -> None:
    assert told in problems_of(*words)


def test_a_secret_in_a_wrong_call_or_in_a_configuration_is_not_shown() -> None:
    assert "pass-word" not in problems_of("--hoodie-conf", "pass-word")
    config = parse_arguments(
        ["/t", "--hoodie-conf", "sasl.password=pass-word", "--storage", "secret_access_key=pass-word"]
    )
    assert config.hoodie_conf == {"sasl.password": "pass-word"}
    assert "pass-word" not in repr(config)


def test_the_short_form_of_a_topic() -> None:
    words = ["--record-key", "uuid", "--partition", "city", "--ordering", "ts", "--schema", "trips.avsc"]
    config = parse_arguments(["/data/trips", "--from", "kafka://a:9092,b:9092/trips", *words])
    assert (config.target_base_path, config.source_class) == ("/data/trips", "JsonKafkaSource")
    assert (config.source_ordering_fields, config.schema_provider_class) == ("ts", "FilebasedSchemaProvider")
    assert config.hoodie_conf == {
        "bootstrap.servers": "a:9092,b:9092",
        "hoodie.streamer.source.kafka.topic": "trips",
        "auto.offset.reset": "earliest",
        "hoodie.datasource.write.recordkey.field": "uuid",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.streamer.schemaprovider.source.schema.file": "trips.avsc",
    }


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("s3://bucket/in/*.json", "JsonDFSSource"),
        ("/data/in/*.jsonl.gz", "JsonDFSSource"),
        ("/data/in/*.PARQUET", "ParquetDFSSource"),
        ("/data/in/*.csv", "CsvDFSSource"),
        ("/data/in/*.avro", "AvroDFSSource"),
    ],
)
def test_the_short_form_of_files(source: str, name: str) -> None:
    config = parse_arguments(["/t", "--from", source])
    assert config.source_class == name
    assert config.hoodie_conf["hoodie.streamer.source.dfs.root"] == source


def test_a_flag_that_means_nothing_here_costs_a_line_and_takes_its_value_with_it() -> None:
    said: list[str] = []
    config = parse_arguments(
        ["--compact-scheduling-weight", "3", "--enable-hive-support", "--target-base-path", "/t"], said.append
    )
    assert config.target_base_path == "/t"
    assert [line.partition(" ")[0] for line in said] == ["--compact-scheduling-weight", "--enable-hive-support"]


def test_values_with_equals_signs_commas_and_dashes_are_not_split() -> None:
    config = parse_arguments(
        ["--target-base-path=/t", "--hoodie-conf", "a=b=c,d", "--hoodie-conf=e= f", "--checkpoint", "trips,0:-1"]
    )
    assert config.hoodie_conf == {"a": "b=c,d", "e": "f"}
    assert config.checkpoint == "trips,0:-1"


def test_transformers_of_several_flags_and_of_one_list_make_one_chain() -> None:
    config = parse_arguments(["/t", "--transformer-class", "a:A,b:B", "--transformer-class", "c:C"])
    assert config.transformer_classes == ("a:A", "b:B", "c:C")


def test_hudis_largest_limit_and_its_default_file_of_properties_stand_for_none() -> None:
    props = "file:///anywhere/src/test/resources/streamer-config/dfs-source.properties"
    config = parse_arguments(["/t", "--source-limit", "9223372036854775807", "--props", props])
    assert (config.source_limit, config.props) == (None, None)


def test_the_help_has_every_flag_that_can_be_used() -> None:
    shown = help_text()
    for flag in FLAGS:
        assert (flag.names[0] in shown) == (flag.kind not in ("ignored", "refused"))
