"""The options of a sync, resolved: catalog, address, names, partition columns, extractor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.config.sync_config import HoodieSyncTableStrategy
from hoodie.exception import HoodieConfigException
from hoodie.sync.sync_settings import SyncSettings, sync_settings
from tests.unit.sync.test_partition_value_extractor import YearAndMonth

HIVE = "hoodie.datasource.hive_sync."
TOOL = "hoodie.meta.sync.client.tool.class"
URIS = "thrift://one:9083,thrift://two:9083"
HMS = {f"{HIVE}mode": "hms", f"{HIVE}metastore.uris": URIS}
GLUE = {f"{HIVE}mode": "glue"}
SITE = """<?xml version="1.0"?>
<!-- Hive -->
<configuration>
  <property><name>hive.metastore.warehouse.dir</name><value>/w</value></property>
  <property>
    <name> hive.metastore.uris </name>
    <value>thrift://<!-- the first -->site:9083</value>
    <final>true</final>
  </property>
  <other><name>hive.metastore.uris</name><value>thrift://other:9083</value></other>
</configuration>
"""


def table_of(path: Path, **options: Any) -> HoodieTableConfig:
    """A table ``trips`` with the key ``id`` and the partition field ``day``."""
    given = {"table_name": "trips", "record_key_fields": "id", "partition_fields": "day", **options}
    return HoodieTableMetaClient.init_table(path / "t", **given).table_config


def settings_of(
    table: HoodieTableConfig, properties: Mapping[str, Any], base_path: str = "/tables/t", **options: Any
) -> tuple[SyncSettings, ...]:
    config = HoodieWriteConfig.from_properties(base_path, properties)
    return sync_settings(config, table, **{"environment": {}, **options})


def problems_of(table: HoodieTableConfig, properties: Mapping[str, Any], **options: Any) -> list[str]:
    with pytest.raises(HoodieConfigException) as caught:
        settings_of(table, properties, **options)
    head, *problems = str(caught.value).split("\n  - ")
    assert head == "The table at '/tables/t' is not told to a catalog:"
    return problems


@pytest.mark.parametrize(
    ("properties", "catalogs"),
    [
        (HMS, ["hms"]),
        (GLUE, ["glue"]),
        ({f"{HIVE}use_jdbc": "false", f"{HIVE}metastore.uris": URIS}, ["hms"]),
        ({f"{HIVE}use_jdbc": "false", **GLUE}, ["glue"]),
        ({TOOL: "org.apache.hudi.hive.HiveSyncTool", **HMS}, ["hms"]),
        ({TOOL: "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"}, ["glue"]),
        ({TOOL: "AwsGlueCatalogSyncTool", **HMS}, ["glue"]),
        ({TOOL: "AwsGlueCatalogSyncTool, HiveSyncTool", **HMS}, ["glue", "hms"]),
        ({TOOL: "AwsGlueCatalogSyncTool,HiveSyncTool", **GLUE}, ["glue"]),
        ({TOOL: "org.apache.hudi.sync.common.util.ManifestFileWriter"}, ["manifest"]),
    ],
)
def test_options_name_the_catalogs(tmp_path: Path, properties: Mapping[str, str], catalogs: list[str]) -> None:
    found = settings_of(table_of(tmp_path), properties)
    assert [settings.catalog for settings in found] == catalogs
    assert [settings.uris for settings in found] == [URIS if name == "hms" else "" for name in catalogs]


@pytest.mark.parametrize(("catalog", "uris"), [("hms", URIS), ("glue", ""), ("manifest", "")])
def test_the_argument_counts_more_than_the_options(tmp_path: Path, catalog: str, uris: str) -> None:
    (found,) = settings_of(table_of(tmp_path), {**HMS, **GLUE, f"{HIVE}use_jdbc": "true"}, catalog=catalog)
    assert (found.catalog, found.uris) == (catalog, uris)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "no catalog is named (without a mode Hudi speaks to a HiveServer2, hoodie cannot): set "),
        ({f"{HIVE}use_jdbc": "true"}, "no catalog is named"),
        ({f"{HIVE}mode": "jdbc"}, f"{HIVE}mode = jdbc: it needs a HiveServer2, which hoodie does not speak to: set "),
        ({f"{HIVE}mode": "HiveQL"}, f"{HIVE}mode = hiveql: it needs a HiveServer2"),
        ({TOOL: "HiveSyncTool"}, "no catalog is named"),
    ],
)
def test_a_mode_that_is_not_there_is_refused(tmp_path: Path, properties: Mapping[str, str], words: str) -> None:
    (problem,) = problems_of(table_of(tmp_path), properties)
    assert problem.startswith(words)
    assert problem.endswith(f"set {HIVE}mode = hms for a Hive metastore, or {HIVE}mode = glue for AWS Glue")


def test_catalogs_that_are_not_there_are_refused(tmp_path: Path) -> None:
    tools = "org.apache.hudi.gcp.bigquery.BigQuerySyncTool,org.apache.hudi.sync.datahub.DataHubSyncTool"
    big_query, datahub = problems_of(table_of(tmp_path), {TOOL: tools})
    assert big_query.startswith(
        f"{TOOL} = org.apache.hudi.gcp.bigquery.BigQuerySyncTool: there is no such catalog here"
    )
    assert "give ManifestFileWriter, which writes the list of files" in big_query
    assert "there is no client of DataHub: implement hoodie.HoodieCatalogClient" in datahub
    table = table_of(tmp_path / "2")
    (unity,) = problems_of(table, {}, catalog="unity")
    assert unity.startswith("catalog = 'unity': Unity Catalog takes no tables of Hudi")
    assert "XTable" in unity
    (polaris,) = problems_of(table, {}, catalog="Polaris")
    assert "implement hoodie.HoodieCatalogClient" in polaris
    (unknown,) = problems_of(table, {}, catalog="hive")
    assert unknown == "catalog = 'hive': give one of hms, glue, manifest, or a class of yours"
    (unknown,) = problems_of(table, {TOOL: "OtherTool"})
    assert unknown.endswith(
        "give HiveSyncTool, AwsGlueCatalogSyncTool, ManifestFileWriter, a class of yours (package.module.Class), or "
        "leave it out"
    )


def test_a_class_of_the_user_is_a_catalog(tmp_path: Path) -> None:
    name = "tests.support.memory_catalog.MemoryCatalog"
    table = table_of(tmp_path)
    found = settings_of(table, {TOOL: f"{name},HiveSyncTool", **HMS})
    assert [settings.catalog for settings in found] == [name, "hms"]
    (found_by_argument,) = settings_of(table, {}, catalog=name)
    assert found_by_argument.catalog == name
    for wrong, words in (
        ("tests.support.nothing.Client", "cannot be imported"),
        ("tests.support.memory_catalog.Callable", "is not a subclass of hoodie.HoodieCatalogClient"),
        ("hoodie.sync.catalog_client.HoodieCatalogClient", "does not define add_partitions, create_database"),
    ):
        for problems in (problems_of(table, {TOOL: wrong}), problems_of(table, {}, catalog=wrong)):
            assert any(words in problem for problem in problems), problems


def test_the_address_comes_from_the_session_then_from_hives_file(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    (tmp_path / "hive-site.xml").write_text(SITE)
    environment = {"HIVE_CONF_DIR": str(tmp_path)}
    without = {f"{HIVE}mode": "hms"}
    (found,) = settings_of(
        table, HMS, environment=environment, session={"hive.metastore.uris": "thrift://session:9083"}
    )
    assert found.uris == URIS
    (found,) = settings_of(
        table, without, environment=environment, session={"hive.metastore.uris": "thrift://session:9083"}
    )
    assert found.uris == "thrift://session:9083"
    (found,) = settings_of(table, without, environment=environment, session={"hive.metastore.uris": ""})
    assert found.uris == "thrift://site:9083"


def site(**options: str) -> str:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in options.items()
    )
    return f"<configuration>{properties}</configuration>"


@pytest.mark.parametrize("place", ["site", "session"])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"hive.metastore.sasl.enabled": "true"}, "Kerberos"),
        ({"hive.metastore.use.SSL": " TRUE "}, "TLS"),
        ({"hive.metastore.sasl.enabled": "true", "hive.metastore.use.SSL": "true"}, "Kerberos and TLS"),
        ({"hive.metastore.sasl.enabled": "false", "hive.metastore.use.SSL": ""}, None),
    ],
)
def test_a_metastore_that_wants_kerberos_or_tls_is_refused(
    tmp_path: Path, place: str, options: dict[str, str], wanted: str | None
) -> None:
    table = table_of(tmp_path)
    own = {"hive.metastore.uris": "thrift://secure:9083", **options}

    def look(properties: Mapping[str, Any], told: dict[str, str]) -> list[str]:
        given: dict[str, Any] = {"session": told}
        if place == "site":
            (tmp_path / "hive-site.xml").write_text(site(**told))
            given = {"environment": {"HIVE_CONF_DIR": str(tmp_path)}}
        if wanted is not None:
            return problems_of(table, properties, **given)
        settings_of(table, properties, **given)
        return []

    without = {f"{HIVE}mode": "hms"}
    same = {**without, f"{HIVE}metastore.uris": "thrift://first:9083,thrift://Secure:9083"}
    for properties, told in ((without, own), (same, own), (HMS, options)):
        problems = look(properties, told)
        assert len(problems) == (wanted is not None)
        assert all(f": the metastore wants {wanted}, which hoodie does not speak" in problem for problem in problems)
    # The options are those of another metastore.
    given: dict[str, Any] = {"session": own}
    if place == "site":
        (tmp_path / "hive-site.xml").write_text(site(**own))
        given = {"environment": {"HIVE_CONF_DIR": str(tmp_path)}}
    (found,) = settings_of(table, HMS, **given)
    assert found.uris == URIS


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (
            None,
            f"and the hive-site.xml in HIVE_CONF_DIR = '{{folder}}' does not name hive.metastore.uris: set {HIVE}meta",
        ),
        ("<configuration/>", "does not name hive.metastore.uris"),
        (SITE.replace("property>", "part>"), "does not name hive.metastore.uris"),
        ("<configuration>", "its hive-site.xml cannot be read (it is not XML: no element found"),
        (SITE.replace("site:9083", "${host}:9083"), "(hive.metastore.uris = thrift://${host}:9083 holds a variable)"),
        (
            '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c SYSTEM "file:///etc/passwd">]><configuration>&c;</configuration>',
            "cannot be read (it declares entities, which are not followed): set",
        ),
    ],
)
def test_a_file_of_hive_without_the_address_is_told_of(tmp_path: Path, site: str | None, words: str) -> None:
    if site is not None:
        (tmp_path / "hive-site.xml").write_text(site)
    (problem,) = problems_of(table_of(tmp_path), {f"{HIVE}mode": "hms"}, environment={"HIVE_CONF_DIR": str(tmp_path)})
    assert words.format(folder=tmp_path) in problem if site is None else words in problem


def test_a_large_file_is_not_taken_for_hives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.sync.sync_settings._MOST_BYTES", 100)
    (tmp_path / "hive-site.xml").write_text(SITE)
    (problem,) = problems_of(table_of(tmp_path), {f"{HIVE}mode": "hms"}, environment={"HIVE_CONF_DIR": str(tmp_path)})
    assert "cannot be read (more than 100 bytes)" in problem


@pytest.mark.parametrize(
    "variable",
    [
        "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "HOME", "AWS_SHARED_CREDENTIALS_FILE", None,
    ],
)  # fmt: skip
def test_no_address_is_guessed(tmp_path: Path, variable: str | None) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\n")
    values = {"HOME": str(tmp_path), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / ".aws" / "credentials")}
    environment = {} if variable is None else {variable: values.get(variable, "x")}
    (problem,) = problems_of(table_of(tmp_path), {f"{HIVE}mode": "hms"}, environment=environment)
    assert problem.startswith(
        f"the address of the Hive metastore is not known: set {HIVE}metastore.uris = thrift://<host>:9083, or "
        "HIVE_CONF_DIR to the folder of a hive-site.xml"
    )
    assert ("there are AWS credentials" in problem) == (variable is not None)
    assert (f"set {HIVE}mode = glue" in problem) == (variable is not None)


def test_what_is_absent_is_taken_from_the_table(tmp_path: Path) -> None:
    (found,) = settings_of(table_of(tmp_path, properties={"hoodie.database.name": "rides"}), HMS)
    assert (found.database, found.table, found.partition_fields) == ("rides", "trips", ("day",))
    assert found == SyncSettings(
        catalog="hms", uris=URIS, database="rides", table="trips", partition_fields=("day",),
        extractor="SinglePartPartitionValueExtractor",
    )  # fmt: skip
    (found,) = settings_of(table_of(tmp_path / "2", partition_fields=()), HMS)
    assert (found.database, found.partition_fields, found.extractor) == ("default", (), "NonPartitionedExtractor")


def test_all_options_are_followed(tmp_path: Path) -> None:
    given = {
        f"{HIVE}database": "d", f"{HIVE}table": "n", f"{HIVE}partition_fields": "year,month",
        f"{HIVE}partition_extractor_class": f"{YearAndMonth.__module__}:YearAndMonth",
        f"{HIVE}table.strategy": "ro", f"{HIVE}skip_ro_suffix": True, f"{HIVE}omit_metadata_fields": True,
        f"{HIVE}support_timestamp": False, f"{HIVE}sync_as_datasource": False, f"{HIVE}sync_comment": True,
        f"{HIVE}schema_string_length_thresh": 100, f"{HIVE}table_properties": "a=1", f"{HIVE}serde_properties": "b=2",
        f"{HIVE}create_managed_table": True, f"{HIVE}auto_create_database": False, f"{HIVE}batch_num": 7,
        f"{HIVE}recreate_table_on_error": True, f"{HIVE}ignore_exceptions": False,
        "hoodie.meta.sync.sync_snapshot_with_table_name": False, "hoodie.meta_sync.spark.version": "3.5.9",
        "hoodie.meta.sync.incremental": False, "hoodie.meta.sync.no_partition_metadata": True,
        "hoodie.meta.sync.touch.partitions.enabled": True, "hoodie.datasource.meta_sync.condition.sync": True,
        "hoodie.meta.sync.force.recreate.table": True, "hoodie.meta.sync.table.definition.enabled": False,
        "hoodie.meta.sync.derived.partition.columns.enabled": False,
        "hoodie.datasource.meta.sync.base.path": "file:/tables/t/", f"{HIVE}base_file_format": "parquet",
    }  # fmt: skip
    (found,) = settings_of(table_of(tmp_path), {**HMS, **given})
    assert found == SyncSettings(
        catalog="hms", uris=URIS, database="d", table="n", partition_fields=("year", "month"),
        extractor=f"{YearAndMonth.__module__}:YearAndMonth", strategy=HoodieSyncTableStrategy.RO, skip_ro_suffix=True,
        snapshot_with_table_name=False, omit_metadata_fields=True, support_timestamp=False, sync_as_datasource=False,
        sync_comment=True, schema_string_length_threshold=100, spark_version="3.5.9", table_properties={"a": "1"},
        serde_properties={"b": "2"}, create_managed_table=True, auto_create_database=False, batch_num=7,
        incremental=False, no_partition_metadata=True, touch_partitions=True, conditional=True, force_recreate=True,
        recreate_on_error=True, ignore_exceptions=False, with_table_definition=False, derived_partition_columns=False,
    )  # fmt: skip


def test_names_in_glue_may_be_others(tmp_path: Path) -> None:
    names = {f"{HIVE}database": "d", f"{HIVE}table": "n"}
    both = {**HMS, **names, TOOL: "HiveSyncTool,AwsGlueCatalogSyncTool"}
    prefix = "hoodie.datasource.meta.sync.glue."
    own = {f"{prefix}database_name": "gd", f"{prefix}table_name": "gn", f"{prefix}recreate_table_on_error": True}
    hms, glue = settings_of(table_of(tmp_path), {**both, **own})
    assert (hms.database, hms.table, hms.recreate_on_error) == ("d", "n", False)
    assert (glue.database, glue.table, glue.recreate_on_error) == ("gd", "gn", True)
    hms, glue = settings_of(table_of(tmp_path / "2"), {**both, f"{HIVE}recreate_table_on_error": True})
    assert (glue.database, glue.table, glue.recreate_on_error) == (hms.database, hms.table, hms.recreate_on_error)
    assert (glue.database, glue.table, glue.recreate_on_error) == ("d", "n", True)


@pytest.mark.parametrize(
    ("options", "given", "extractor"),
    [
        ({}, None, "SinglePartPartitionValueExtractor"),
        ({"hive_style_partitioning": True}, None, "HiveStylePartitionValueExtractor"),
        ({"partition_fields": "region,day"}, None, "MultiPartKeysValueExtractor"),
        ({"partition_fields": "region,day", "hive_style_partitioning": True}, "day", "MultiPartKeysValueExtractor"),
        ({}, "year,month", "MultiPartKeysValueExtractor"),
        ({"hive_style_partitioning": True}, "", "NonPartitionedExtractor"),
    ],
)
def test_the_extractor_follows_from_table_and_options(
    tmp_path: Path, options: Mapping[str, Any], given: str | None, extractor: str
) -> None:
    properties = HMS if given is None else {**HMS, f"{HIVE}partition_fields": given}
    (found,) = settings_of(table_of(tmp_path, **options), properties)
    assert found.extractor == extractor


@pytest.mark.parametrize(
    ("extractor", "fields", "words"),
    [
        (
            "NonPartitionedExtractor",
            "day",
            "gives no value, and the entry has the partition columns day: leave it out, ",
        ),
        ("org.apache.hudi.hive.HiveStylePartitionValueExtractor", "a,b", "gives one value, and the entry has the"),
        ("SlashEncodedDayPartitionValueExtractor", "year,month,day", "gives one value"),
        ("NoSuchExtractor", "day", "there is no such extractor"),
        ("MultiPartKeysValueExtractor", "day", None),
        ("SlashEncodedDayPartitionValueExtractor", "day", None),
        ("SlashEncodedDayPartitionValueExtractor", "", None),
    ],
)
def test_an_extractor_that_cannot_fit_is_told_of(
    tmp_path: Path, extractor: str, fields: str, words: str | None
) -> None:
    properties = {**HMS, f"{HIVE}partition_extractor_class": extractor, f"{HIVE}partition_fields": fields}
    if words is None:
        assert settings_of(table_of(tmp_path), properties)[0].extractor == extractor
        return
    (problem,) = problems_of(table_of(tmp_path), properties)
    assert problem.startswith(f"{HIVE}partition_extractor_class = {extractor}")
    assert words in problem


def test_one_message_names_all_problems(tmp_path: Path) -> None:
    properties = {
        f"{HIVE}mode": "jdbc",
        TOOL: "HiveSyncTool,AwsGlueCatalogSyncTool,X",
        "hoodie.datasource.meta.sync.base.path": "/tables/other",
        f"{HIVE}base_file_format": "ORC",
        f"{HIVE}partition_extractor_class": "NonPartitionedExtractor",
    }
    problems = problems_of(table_of(tmp_path), properties)
    assert [problem.partition(" = ")[0] for problem in problems] == [
        f"{HIVE}mode", TOOL, "hoodie.datasource.meta.sync.base.path", f"{HIVE}base_file_format",
        f"{HIVE}partition_extractor_class",
    ]  # fmt: skip
    assert "'/tables/other' is not the table's folder, '/tables/t': leave it out" in problems[2]
    assert problems[3].endswith("base_file_format = ORC: base files are Parquet: leave it out")


def test_settings_do_not_show_parameters(tmp_path: Path) -> None:
    (found,) = settings_of(table_of(tmp_path), {**HMS, f"{HIVE}table_properties": "token=s3cr3t"})
    assert "s3cr3t" not in repr(found)
