"""The writer's configuration: typed groups, and all problems in one message."""

from __future__ import annotations

import logging
import pickle

import attrs
import pytest

from hoodie.common.config.storage_config import ParquetCompression
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.config.index_config import IndexType
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import FailedWritesPolicy, MarkerType, WriteConcurrencyMode
from hoodie.exception import HoodieConfigException

# What people copy from Hudi's documentation for a Spark job.
PASTED = {
    "path": "s3://bucket/trips",
    "mergeSchema": "true",
    "hoodie.table.name": "trips",
    "hoodie.database.name": "default",
    "hoodie.datasource.write.table.name": "trips",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "partitionpath",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.row.writer.enable": "true",
    "hoodie.datasource.write.reconcile.schema": "false",
    "hoodie.upsert.shuffle.parallelism": 200,
    "hoodie.insert.shuffle.parallelism": "200",
    "hoodie.bulkinsert.shuffle.parallelism": "200",
    "hoodie.datasource.hive_sync.enable": "true",
    "hoodie.datasource.hive_sync.mode": "hms",
    "hoodie.datasource.hive_sync.database": "default",
    "hoodie.datasource.hive_sync.table": "trips",
    "hoodie.datasource.hive_sync.partition_fields": "partitionpath",
    "hoodie.datasource.hive_sync.partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "hoodie.datasource.hive_sync.password": "s3cr3t",
    "hoodie.datasource.meta.sync.enable": "true",
    "hoodie.metrics.on": "true",
    "hoodie.metrics.reporter.type": "PROMETHEUS_PUSHGATEWAY",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.embed.timeline.server": "true",
    "hoodie.write.markers.type": "timeline_server_based",
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
    "hoodie.cleaner.commits.retained": "10",
    "hoodie.cleaner.policy.failed.writes": "EAGER",
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "30",
    "hoodie.clustering.inline": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.max.file.size": "125829120",
    "hoodie.parquet.small.file.limit": "104857600",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.streamer.ingestion.db.table.configFile": "x",
}


def from_properties(**properties: object) -> HoodieWriteConfig:
    return HoodieWriteConfig.from_properties(
        "/tables/trips", {key.replace("__", "."): value for key, value in properties.items()}
    )


def problems_of(properties: dict[str, object]) -> list[str]:
    with pytest.raises(HoodieConfigException) as caught:
        HoodieWriteConfig.from_properties("/tables/trips", properties)
    return str(caught.value).split("\n  - ")[1:]


def test_without_properties_everything_has_its_default() -> None:
    config = HoodieWriteConfig.from_properties("/tables/trips")
    assert config.storage.parquet_max_file_size == 125829120
    assert config.storage.parquet_compression_codec is ParquetCompression.SNAPPY
    assert config.compaction.parquet_small_file_limit == 104857600
    assert config.index.index_type is IndexType.SIMPLE
    assert config.write.auto_commit
    assert config.write.combine_before_upsert
    assert not config.write.combine_before_insert
    assert config.metadata.enable is None
    assert config.table.record_key_fields is None


def test_a_pasted_hudi_configuration_works() -> None:
    config = HoodieWriteConfig.from_properties("/tables/trips", PASTED)
    assert config.write.operation is WriteOperationType.UPSERT
    assert config.write.upsert_shuffle_parallelism == 200
    assert config.write.markers_type is MarkerType.DIRECT
    assert config.metadata.enable is True
    assert config.table.record_key_fields == ("uuid",)
    assert config.table.table_name == "trips"
    assert config.table.hive_style_partitioning is True
    assert config.properties["path"] == "s3://bucket/trips"
    assert config.properties["hoodie.upsert.shuffle.parallelism"] == "200"


def test_one_line_of_the_log_names_what_is_ignored_without_values(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hoodie"):
        HoodieWriteConfig.from_properties("/tables/trips", PASTED)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert line.startswith("These properties change nothing in hoodie and are ignored: hoodie.")
    assert "hoodie.write.markers.type" in line
    assert "hoodie.datasource.hive_sync.password" in line
    assert "hoodie.parquet.max.file.size" not in line
    assert "s3cr3t" not in line


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"hoodie.write.lock.provider": "FileSystemBasedLockProvider"},
            "hoodie.write.lock.provider without hoodie.write.concurrency.mode = OPTIMISTIC_CONCURRENCY_CONTROL",
        ),
        (
            {"hoodie.write.lock.provider": "x.y.Lock", "hoodie.write.concurrency.unique.keys": "true"},
            "hoodie.write.lock.provider and hoodie.write.concurrency.unique.keys without",
        ),
        (
            {"hoodie.precommit.validators.equality.sql.queries": "select 1"},
            "hoodie.precommit.validators does not name SqlQueryEqualityPreCommitValidator",
        ),
        ({"hoodie.write.commit.callback.http.url": "http://h/x"}, "without hoodie.write.commit.callback.on = true"),
        ({"hoodie.metrics.reporter.type": "CONSOLE"}, "reporter.type has no effect without hoodie.metrics.on = true"),
        ({"hoodie.metrics.reporter.type": "CONSOLE", "hoodie.metrics.on": "false"}, None),
        ({"hoodie.write.lock.provider": "x.y.L", "hoodie.write.concurrency.mode": "SINGLE_WRITER"}, None),
        ({"hoodie.write.concurrency.unique.keys": "false"}, None),
        (
            {"hoodie.datasource.hive_sync.use_spark_catalog": "true", "hoodie.datasource.hive_sync.password": "hive"},
            "hoodie.datasource.hive_sync.use_spark_catalog = 'true': a sync speaks to the metastore itself",
        ),
        ({"hoodie.datasource.hive_sync.use_spark_catalog": False}, None),
        ({"hoodie.datasource.meta.sync.enable": True}, None),
        (
            {"hoodie.clustering.preserve.commit.metadata": "false"},
            "hoodie.clustering.preserve.commit.metadata = 'false': rows always keep their commit times",
        ),
        ({"hoodie.compaction.preserve.commit.metadata": "false"}, "rows always keep their commit times"),
        ({f"hoodie.{name}.preserve.commit.metadata": "true" for name in ("clustering", "compaction")}, None),
        ({"hoodie.datasource.hive_sync.table": "trips"}, None),
        (
            {"hoodie.datasource.overwrite.mode": "dynamic"},
            "hoodie.datasource.overwrite.mode = 'dynamic': it belongs to INSERT OVERWRITE of Hudi's SQL: set",
        ),
        ({"hoodie.metadata.enable": "true"}, None),
        ({"hoodie.metadata.enable": "false"}, None),
        ({"hoodie.metadata.index.column.stats.enable": "true"}, None),
        ({"parquet.max.file.size": 1}, "parquet.max.file.size has no effect, as its name lacks the prefix: use "),
        ({"parquet.max.file.sise": 1}, "its name lacks the prefix: use hoodie.parquet.max.file.size"),
        ({"recordkey.field": "id"}, "lacks the prefix: use hoodie.datasource.write.recordkey.field"),
        ({"table.name": "t"}, "table.name has no effect, as its name lacks the prefix: use hoodie.table.name"),
        ({"mergeSchema": "true"}, "mergeSchema is an option of other writers and has no effect here: new columns"),
        ({"MERGESCHEMA": "false"}, "has no effect here: new columns are always added"),
        ({"compression": "zstd"}, "hoodie.parquet.compression.codec sets the codec of the table's files"),
        ({"partitionOverwriteMode": "static"}, None),
        ({"path": "/x", "header": "true", "spark.sql.shuffle.partitions": 4, "fs.s3a.access.key": "k"}, None),
        ({"auto.offset.reset": "earliest", "bootstrap.servers": "a:1", "checkpointLocation": "/x"}, None),
        (
            {
                "hoodie.precommit.validators.equality.sql.queries": "select 1",
                "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator",
            },
            None,
        ),
    ],
)
def test_what_is_asked_for_and_not_switched_on_is_told(
    properties: dict[str, str], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    HoodieWriteConfig.from_properties("/t", properties)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == (0 if told is None else 1)
    assert told is None or told in lines[0]


@pytest.mark.parametrize("name", ["hoodie.cleaner.policy.failed.writes", "hoodie.clean.failed.writes.policy"])
def test_a_policy_that_several_writers_cannot_have_is_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    for properties in (several, {name: "EAGER"}, {**several, name: "LAZY"}):
        HoodieWriteConfig.from_properties("/t", properties)
    assert not caplog.records
    config = HoodieWriteConfig.from_properties("/t", {**several, name: "EAGER"})
    assert config.write.failed_writes is FailedWritesPolicy.LAZY
    (line,) = [record.getMessage() for record in caplog.records]
    assert "failed.writes = EAGER is for a single writer" in line


def test_nothing_is_logged_when_nothing_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        from_properties(hoodie__auto__commit=False)
    assert caplog.records == []


def test_python_values_mean_what_hudis_strings_mean() -> None:
    typed = from_properties(hoodie__auto__commit=False, hoodie__parquet__max__file__size=2**30)
    texts = from_properties(hoodie__auto__commit="false", hoodie__parquet__max__file__size="1073741824")
    assert typed == texts
    fields = HoodieWriteConfig.from_properties("/t", {"hoodie.datasource.write.recordkey.field": ["a", "b"]})
    assert fields.table.record_key_fields == ("a", "b")


def test_a_config_crosses_to_other_processes() -> None:
    config = HoodieWriteConfig.from_properties("/tables/trips", PASTED, {"key": "k"})
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config
    assert copy.storage_options == {"key": "k"}


def test_a_config_cannot_be_changed() -> None:
    config = HoodieWriteConfig.from_properties("/tables/trips")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.write = config.write  # type: ignore[misc]


def test_secrets_are_not_printed() -> None:
    config = HoodieWriteConfig.from_properties("/tables/trips", PASTED, {"secret": "very-s3cr3t"})
    assert "s3cr3t" not in repr(config)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(HoodieConfigException) as caught:
        HoodieWriteConfig.from_properties(
            "/tables/trips",
            {
                "hoodie.auto.commit": "yes",
                "hoodie.index.type": "FLINK_STATE",
                "hoodie.index.bloom.fpp": "2",
                "hoodie.parquet.max.file.sise": "1",
                "hoodie.table.base.file.format": "orc",
                "hoodie.parquet.small.file.limit": 200_000_000,
                "hoodie.clean.parallelism": None,
            },
        )
    indexes = list(IndexType)
    assert str(caught.value) == (
        "Configuration of the table at '/tables/trips', 7 problems:\n"
        "  - hoodie.clean.parallelism = None: must be text, a number, a boolean or a list of texts, not NoneType\n"
        "  - hoodie.auto.commit = 'yes': must be true or false\n"
        "  - hoodie.index.type = 'FLINK_STATE': Hudi has it, hoodie does not support it yet; "
        f"supported: {', '.join(indexes[:-1])} or {indexes[-1]}\n"
        "  - hoodie.index.bloom.fpp = '2': must be a number above 0, below 1\n"
        "  - hoodie.parquet.max.file.sise = '1': Hudi has no such property; nearest: hoodie.parquet.max.file.size\n"
        "  - hoodie.table.base.file.format = 'orc': not supported yet; a table's base files are Parquet: leave it out\n"
        "  - hoodie.parquet.small.file.limit = 200000000 is larger than hoodie.parquet.max.file.size = 125829120: "
        "files of full size would count as small; lower the first or raise the second"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hoodie.upsert.shuffle.paralelism", "hoodie.upsert.shuffle.parallelism"),
        ("hoodie.Auto.Commit", "hoodie.auto.commit"),
        ("hodie.auto.commit", "hoodie.auto.commit"),
        ("hudi.metadata.enable", "hoodie.metadata.enable"),
        ("hoodie.datasource.write.recordkey.fields", "hoodie.datasource.write.recordkey.field"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(written: str, meant: str) -> None:
    (problem,) = problems_of({written: "1"})
    assert problem == f"{written} = '1': Hudi has no such property; nearest: {meant}"


@pytest.mark.parametrize(
    ("key", "value"), [("replaceWhere", "day = '2026-11-21'"), ("partitionOverwriteMode", "dynamic")]
)
def test_options_that_say_which_rows_are_replaced_are_refused(key: str, value: str) -> None:
    (problem,) = problems_of({key: value})
    assert problem.startswith(f"{key} = ")
    assert "hoodie.datasource.write.operation = insert_overwrite" in problem


def test_one_warning_names_all_options_that_are_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        **PASTED,
        "hoodie.metrics.on": "true",
        "hoodie.metrics.reporter.type": "CLOUDWATCH",
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.class": "HoodieWriteCommitKafkaCallback",
    }
    HoodieWriteConfig.from_properties("/t", given)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    head, *options = line.split("\n  - ")
    assert head == "hoodie does not do what 3 options ask for, and writes without it:"
    assert sorted(option.partition(" ")[0] for option in options) == [
        "hoodie.metrics.on",
        "hoodie.write.commit.callback.class",
        "mergeSchema",
    ]


def test_names_of_others_are_kept_and_not_looked_at() -> None:
    given = {"path": "/x", "auto.offset.reset": "earliest", "fs.s3a.access.key": "k", "parquet.block.size": "1"}
    assert HoodieWriteConfig.from_properties("/t", given).properties == given


@pytest.mark.parametrize(
    ("key", "harmless", "asking"),
    [
        ("hoodie.parquet.bloom.filter.enabled", True, False),
        ("hoodie.errortable.enable", "false", "true"),
        ("hoodie.rollback.instant.backup.enabled", "false", "true"),
        ("hoodie.write.track.event.time.watermark", "false", "true"),
        ("hoodie.fileid.prefix.provider.class", "org.apache.hudi.table.RandomFileIdPrefixProvider", "com.example.Ids"),
        ("hoodie.io.factory.class", "org.apache.hudi.io.hadoop.HoodieHadoopIOFactory", "com.example.Factory"),
        ("hoodie.io.factory.class", "org.apache.hudi.io.storage.hadoop.HoodieHadoopIOFactory", "com.example.Factory"),
        ("hoodie.storage.class", "org.apache.hudi.storage.hadoop.HoodieHadoopStorage", "com.example.Storage"),
        ("hoodie.writestatus.class", "org.apache.hudi.client.WriteStatus", "com.example.Status"),
        (
            "hoodie.record.size.estimator.class",
            "org.apache.hudi.estimator.AverageRecordSizeEstimator",
            "com.example.Sizes",
        ),
        ("hoodie.write.config.keys.to.serialize.to.commit.metadata", "", "hoodie.table.name"),
        ("hoodie.commit.metadata.engine.properties.embed.enable", "false", "true"),
    ],
)
def test_a_property_that_changes_no_row_never_refuses_a_write(
    key: str, harmless: object, asking: object, caplog: pytest.LogCaptureFixture
) -> None:
    HoodieWriteConfig.from_properties("/t", {key: harmless})
    assert [record for record in caplog.records if record.levelno == logging.WARNING] == []
    HoodieWriteConfig.from_properties("/t", {key: asking})
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.startswith(f"{key} = ")


@pytest.mark.parametrize(
    ("key", "harmless", "refused"),
    [
        ("hoodie.table.initial.version", 6, 7),
        ("hoodie.avro.write.support.class", "org.apache.hudi.avro.HoodieAvroWriteSupport", "com.example.Support"),
        (
            "hoodie.parquet.spark.row.write.support.class",
            "org.apache.hudi.io.storage.row.HoodieRowParquetWriteSupport",
            "com.example.Support",
        ),
        ("hoodie.parquet.write.utc-timezone.enabled", "true", "false"),
        ("hoodie.table.storage.layout", "default", "bucket"),
        ("hoodie.bulkinsert.overwrite.operation.type", "", "insert_overwrite_table"),
    ],
)
def test_a_refused_property_is_accepted_with_the_value_that_asks_for_nothing(
    key: str, harmless: object, refused: object
) -> None:
    HoodieWriteConfig.from_properties("/t", {key: harmless})
    (problem,) = problems_of({key: refused})
    assert problem.startswith(f"{key} = ")
    assert "not supported yet; " in problem


def test_a_small_maximum_alone_is_no_contradiction() -> None:
    assert from_properties(hoodie__parquet__max__file__size=1000).storage.parquet_max_file_size == 1000


def test_the_payload_class_of_deletes_is_answered_with_the_operation() -> None:
    payload = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.EmptyHoodieRecordPayload"}
    (problem,) = problems_of({**payload})
    assert "it makes an upsert a delete: give hoodie.datasource.write.operation = delete" in problem
    deleting = HoodieWriteConfig.from_properties("/t", {**payload, "hoodie.datasource.write.operation": "delete"})
    assert deleting.table.payload_class is None


def test_another_base_path_is_refused() -> None:
    HoodieWriteConfig.from_properties("/tables/trips", {"hoodie.base.path": "/tables/trips/"})
    (problem,) = problems_of({"hoodie.base.path": "/tables/other"})
    assert problem.startswith("hoodie.base.path = '/tables/other' is not the base path")


@pytest.mark.parametrize("base_path", ["", "  ", None, 3])
def test_a_base_path_is_needed(base_path: object) -> None:
    with pytest.raises(HoodieConfigException, match="must be the path or URL of the table's folder"):
        HoodieWriteConfig.from_properties(base_path)  # type: ignore[arg-type]


def test_a_filter_cannot_start_above_its_end() -> None:
    (problem,) = problems_of({"hoodie.index.bloom.num_entries": 200_000})
    assert problem.endswith("raise the second")
    assert (
        from_properties(
            hoodie__index__bloom__num_entries=200_000, hoodie__bloom__index__filter__type="SIMPLE"
        ).index.bloom_num_entries
        == 200_000
    )


def test_several_writers_make_the_policy_for_failed_writes_lazy() -> None:
    alone = HoodieWriteConfig.from_properties("/t").write
    assert not alone.has_several_writers
    assert alone.failed_writes is FailedWritesPolicy.EAGER
    options = HoodieWriteConfig.from_properties(
        "/t",
        {
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.clean.failed.writes.policy": "EAGER",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        },
    ).write
    assert options.concurrency_mode is WriteConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL
    assert options.has_several_writers
    assert options.failed_writes is FailedWritesPolicy.LAZY
    no_lock, no_buckets = problems_of({"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"})
    assert "needs hoodie.write.lock.provider" in no_lock
    assert "hoodie.index.type is SIMPLE" in no_buckets


def test_writes_that_are_repeated_are_committed_by_themselves() -> None:
    (problem,) = problems_of({"hoodie.write.lock.wait.retry": True, "hoodie.auto.commit": False})
    assert problem.endswith("leave one of them out")
    assert from_properties(hoodie__write__lock__wait__retry=True).lock.write_attempts == 10
    assert HoodieWriteConfig.from_properties("/t").lock.write_attempts == 1
    given = {"hoodie.write.num.retries.on.conflict.failures": 3}
    assert HoodieWriteConfig.from_properties("/t", given).lock.write_attempts == 4


def test_properties_with_the_prefix_go_to_the_commit() -> None:
    given = {"_source": "kafka", "_hoodie.time.generator.reuse.enable": "true", "note": "x"}
    expected = {"_source": "kafka", "_hoodie.time.generator.reuse.enable": "true"}
    assert HoodieWriteConfig.from_properties("/t", given).extra_metadata == expected
    prefixed = {"hoodie.datasource.write.commitmeta.key.prefix": "hoodie.note.", "hoodie.note.who": "me"}
    assert HoodieWriteConfig.from_properties("/t", prefixed).extra_metadata == {"hoodie.note.who": "me"}


def test_a_schema_must_be_the_json_of_a_record() -> None:
    schema = '{"type": "record", "name": "r", "fields": []}'
    assert from_properties(hoodie__avro__schema=schema).write.avro_schema == schema
    (problem,) = problems_of({"hoodie.avro.schema": "{"})
    assert "must be the JSON of an Avro record: Expecting" in problem
    (problem,) = problems_of({"hoodie.avro.schema": '"string"'})
    assert problem.endswith("must be the JSON of an Avro record")


METADATA_PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"


def test_hudis_own_options_with_the_prefix_go_to_the_commit_too(caplog: pytest.LogCaptureFixture) -> None:
    given = {METADATA_PREFIX: "hoodie.", "hoodie.table.name": "trips", "hoodie.clean.automatic": "true", "_a": "b"}
    with caplog.at_level(logging.INFO, logger="hoodie"):
        config = HoodieWriteConfig.from_properties("/t", given)
    assert config.extra_metadata == {key: value for key, value in given.items() if key != "_a"}
    assert "hoodie.clean.automatic" not in caplog.text


def test_a_prefix_of_all_names_does_not_hide_a_misspelt_one() -> None:
    (problem,) = problems_of({METADATA_PREFIX: "hoodie.", "hoodie.table.nane": "trips"})
    assert problem.endswith("Hudi has no such property; nearest: hoodie.table.name")


@pytest.mark.parametrize("key", ["schema", "latest_schema"])
def test_no_property_takes_the_place_of_the_tables_schema_in_a_commit(key: str) -> None:
    assert HoodieWriteConfig.from_properties("/t", {key: "s"}).extra_metadata == {}
    (problem,) = problems_of({METADATA_PREFIX: key[:3], key: "s"})
    assert f"{key} = 's' begins with {METADATA_PREFIX} = '{key[:3]}'" in problem
    assert f"'{key}' is reserved for the table: give {METADATA_PREFIX} a prefix that it does not begin with" in problem


def test_secrets_do_not_go_to_the_commit() -> None:
    (problem,) = problems_of({METADATA_PREFIX: "hoodie.", "hoodie.datasource.hive_sync.password": "s3cr3t"})
    assert "its name says it is a secret" in problem
    assert "s3cr3t" not in problem


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {
                "hoodie.datasource.write.insert.drop.duplicates": "true",
                "hoodie.datasource.insert.dup.policy": "fail",
            },
            "hoodie.datasource.insert.dup.policy = fail does not: leave one of them out",
        ),
        (
            {
                "hoodie.datasource.write.insert.drop.duplicates": "true",
                "hoodie.datasource.insert.dup.policy": "none",
            },
            "hoodie.datasource.insert.dup.policy = none does not: leave one of them out",
        ),
        (
            {"hoodie.datasource.write.insert.drop.duplicates": "true", "hoodie.combine.before.insert": "false"},
            "hoodie.combine.before.insert = false keeps all: leave one of them out, or give",
        ),
        (
            {"hoodie.datasource.insert.dup.policy": "drop", "hoodie.combine.before.insert": "false"},
            "hoodie.datasource.insert.dup.policy = drop keeps one record of each key",
        ),
        (
            {"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "a,b"},
            "give hoodie.bulkinsert.user.defined.partitioner.class = RDDCustomColumnsSortPartitioner too",
        ),
        (
            {"hoodie.write.partial.update": "true", "hoodie.write.set.null.for.missing.columns": "true"},
            "hoodie.write.set.null.for.missing.columns = true writes nulls there: leave one of them out",
        ),
        (
            {"hoodie.write.partial.update": "true", "hoodie.datasource.write.reconcile.schema": "true"},
            "hoodie.datasource.write.reconcile.schema = true writes nulls there: leave one of them out",
        ),
        ({"spark.hoodie.datasource.write.operation": "delete"}, "leave out the prefix 'spark.': hoodie.datasource."),
        (
            {"hoodie.datasource.write.operation": "upsert_prepped"},
            "it takes rows that carry their location: call a client's upsert_prepped_records with them",
        ),
        ({"hoodie.datasource.write.operation": "compact"}, "it does not write rows; supported: UPSERT, INSERT,"),
        ({"hoodie.datasource.write.operation": "bootstrap"}, "tables are not bootstrapped from other folders"),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_the_way_out(
    properties: dict[str, object], words: str
) -> None:
    (problem,) = problems_of(properties)
    assert words in problem


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.datasource.write.insert.drop.duplicates": "true", "hoodie.datasource.insert.dup.policy": "drop"},
        {"hoodie.datasource.write.insert.drop.duplicates": "false", "hoodie.datasource.insert.dup.policy": "fail"},
        {"hoodie.datasource.write.insert.drop.duplicates": "true", "hoodie.combine.before.insert": "true"},
        {"hoodie.datasource.insert.dup.policy": "fail", "hoodie.combine.before.insert": "false"},
        {
            "hoodie.bulkinsert.user.defined.partitioner.sort.columns": "a",
            "hoodie.bulkinsert.user.defined.partitioner.class": "RDDCustomColumnsSortPartitioner",
        },
        {"hoodie.write.partial.update": "true", "hoodie.write.set.null.for.missing.columns": "false"},
        {
            "hoodie.datasource.write.reconcile.schema": "false",
            "hoodie.write.set.null.for.missing.columns": "true",
        },
    ],
)
def test_options_that_agree_are_accepted(properties: dict[str, object]) -> None:
    assert HoodieWriteConfig.from_properties("/t", properties).properties == properties


def test_options_of_merging_log_files_are_read_from_queries_and_from_writers() -> None:
    options = {"Hoodie.Memory.Merge.Max.Size": "10", "hoodie.merge.use.record.positions": False, "path": "x"}
    expected = HoodieLogMergeConfig(merge_max_size=10, use_record_positions=False)
    assert HoodieLogMergeConfig.from_options(options) == expected
    assert HoodieLogMergeConfig.from_options(None) == HoodieLogMergeConfig()
    config = HoodieWriteConfig.from_properties("/t", {key.lower(): value for key, value in options.items()})
    assert config.log_merge == expected
    with pytest.raises(HoodieConfigException, match=r"max\.size = 'x': must be .*; hoodie\.merge\.use.* must be"):
        HoodieLogMergeConfig.from_options(dict.fromkeys(options, "x"))
