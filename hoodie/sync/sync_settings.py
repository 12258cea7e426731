"""The options of a sync, resolved: what is not given comes from the table, the Spark session and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.parsers import expat

import attrs

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.util.class_loading import load_class
from hoodie.common.util.uris import without_user
from hoodie.config.sync_config import HiveSyncConfig, HiveSyncMode, HoodieSyncTableStrategy, parse_key_values
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_path import is_same_path
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.partition_value_extractor import (
    EXTRACTOR_KEY,
    create_partition_value_extractor,
    infer_partition_value_extractor,
)

HMS = "hms"
GLUE = "glue"
MANIFEST = "manifest"
CATALOGS = (HMS, GLUE, MANIFEST)
"""The catalogs that a sync can tell of a table, beside classes of users."""
TOOL_KEY = "hoodie.meta.sync.client.tool.class"
"""The property that names a class of a user, or Hudi's class of one of them."""
_IMPLEMENT = "implement hoodie.HoodieCatalogClient and name your class, package.module.Class; see docs/catalogs.md"
REFUSED_CATALOGS: Mapping[str, str] = {
    "unity": "Unity Catalog takes no tables of Hudi: it reads them by the Delta metadata that Apache XTable writes "
    "beside them",
    "polaris": f"there is no client of Polaris: {_IMPLEMENT}",
    "datahub": f"there is no client of DataHub: {_IMPLEMENT}",
}
"""Catalogs that are asked for by name -> why there is no such client."""
_MODE_KEY = "hoodie.datasource.hive_sync.mode"
_URIS_KEY = "hoodie.datasource.hive_sync.metastore.uris"
_FIELDS_KEY = "hoodie.datasource.hive_sync.partition_fields"
_HIVE_TOOL = "HiveSyncTool"
_TOOLS: Mapping[str, str] = {"AwsGlueCatalogSyncTool": GLUE, "ManifestFileWriter": MANIFEST}
_MISSING_TOOLS: Mapping[str, str] = {
    "BigQuerySyncTool": "give ManifestFileWriter, which writes the list of files that a table of BigQuery reads",
    "DataHubSyncTool": REFUSED_CATALOGS["datahub"],
}
_URIS_OF_HIVE = "hive.metastore.uris"
_SECURITY: Mapping[str, str] = {"hive.metastore.sasl.enabled": "Kerberos", "hive.metastore.use.SSL": "TLS"}
METASTORE_OPTIONS = (_URIS_OF_HIVE, *_SECURITY)
"""Hive's options of a metastore that a sync looks at."""
_SITE_FILE = "hive-site.xml"
_MOST_BYTES = 16 * 1024 * 1024
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


@attrs.frozen(kw_only=True)
class SyncSettings:
    """The resolved options of a sync of one table with one catalog.

    Attributes:
        catalog: The catalog: one of `CATALOGS`, or a user's `HoodieCatalogClient`, as package.module.Class.
        uris: The addresses of a Hive metastore, separated by commas, the first to be tried first; empty text for other
            catalogs.
        database: The database.
        table: The name of the entry; a merge-on-read table has several, made of it.
        partition_fields: The partition columns.
        extractor: The name of the extractor of partition values; see `create_partition_value_extractor`.
        strategy: The views of a merge-on-read table.
        skip_ro_suffix: Whether the read optimized view has the bare name.
        snapshot_with_table_name: Whether a merge-on-read table has a third entry, of the bare name.
        omit_metadata_fields: Whether Hudi's meta columns are left out.
        support_timestamp: Whether timestamps are ``timestamp`` or ``bigint``; None if that is not given.
        sync_as_datasource: Whether Spark is told that it is a table of Hudi.
        sync_comment: Whether comments of columns follow those of the table.
        schema_string_length_threshold: The most characters of a piece of Spark's schema.
        spark_version: ``spark.sql.create.version``; empty text for none.
        table_properties: Further parameters.
        serde_properties: Further parameters of the serde.
        create_managed_table: Whether new entries are managed tables.
        auto_create_database: Whether a missing database is made.
        batch_num: The most partitions of one request to a Hive metastore.
        incremental: Whether only the partitions are compared that commits touched.
        no_partition_metadata: Whether no partitions are registered.
        touch_partitions: Whether partitions that got rows are written anew.
        conditional: Whether the time of the newest commit is stored only when something else changes.
        force_recreate: Whether entries are made anew each time.
        recreate_on_error: Whether an entry that cannot be changed is made anew.
        ignore_exceptions: Whether errors are only told of; None if that is not given.
        moves_entries: Whether an entry of a table in another folder is made anew.
        with_table_definition: Whether entries have the parameters of ``CREATE TABLE ... USING hudi``.
        derived_partition_columns: Whether partition columns of derived values have the type ``string``.
    """

    catalog: str
    uris: str = ""
    database: str
    table: str
    partition_fields: tuple[str, ...] = ()
    extractor: str
    strategy: HoodieSyncTableStrategy = HoodieSyncTableStrategy.ALL
    skip_ro_suffix: bool = False
    snapshot_with_table_name: bool = True
    omit_metadata_fields: bool = False
    support_timestamp: bool | None = None
    sync_as_datasource: bool = True
    sync_comment: bool = False
    schema_string_length_threshold: int = 4000
    spark_version: str = ""
    table_properties: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    serde_properties: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    create_managed_table: bool = False
    auto_create_database: bool = True
    batch_num: int = 1000
    incremental: bool = True
    no_partition_metadata: bool = False
    touch_partitions: bool = False
    conditional: bool = False
    force_recreate: bool = False
    recreate_on_error: bool = False
    ignore_exceptions: bool | None = None
    moves_entries: bool = True
    with_table_definition: bool = True
    derived_partition_columns: bool = True


def sync_settings(
    config: HoodieWriteConfig,
    table_config: HoodieTableConfig,
    *,
    catalog: str | None = None,
    environment: Mapping[str, str] = os.environ,
    session: Mapping[str, str] | None = None,
) -> tuple[SyncSettings, ...]:
    """Resolve the options of a sync.

    Args:
        config: The options, and the table's folder.
        table_config: The table's properties, which give what the options do not.
        catalog: See `SyncSettings`; None for what the options say.
        environment: The environment variables.
        session: The options of `METASTORE_OPTIONS` that the Spark session has; None if there is none.

    Returns:
        One for each catalog, in the order in which the options name them.

    Raises:
        HoodieConfigException: Options are missing, not supported or contradict each other; one message names all.

    Source: HoodieSparkSqlWriter.metaSync and the inference of defaults of HoodieSyncConfig. Differs: no catalog and no
    address is taken by guess; ``hoodie.datasource.hive_sync.recreate_table_on_error`` holds for Glue as well.
    """
    problems: list[str] = []
    catalogs = _catalogs(config, catalog, problems)
    uris = _uris(config.hive_sync, environment, session or {}, problems) if HMS in catalogs else ""
    hive, sync, glue = config.hive_sync, config.sync, config.glue_sync
    fields = table_config.partition_fields if hive.partition_fields is None else hive.partition_fields
    if sync.base_path is not None and not is_same_path(sync.base_path, config.base_path):
        problems.append(
            f"hoodie.datasource.meta.sync.base.path = {sync.base_path!r} is not the table's folder, "
            f"{config.base_path!r}: leave it out"
        )
    if (hive.base_file_format or "PARQUET").upper() != "PARQUET":
        problems.append(
            f"hoodie.datasource.hive_sync.base_file_format = {hive.base_file_format}: base files are Parquet: leave it "
            "out"
        )
    extractor = _extractor(hive.partition_extractor_class, fields, table_config, problems)
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise HoodieConfigException(f"The table at {config.base_path!r} is not told to a catalog:{lines}")
    return tuple(
        SyncSettings(
            catalog=name,
            uris=uris if name == HMS else "",
            database=(name == GLUE and glue.database_name) or hive.database or table_config.database_name or "default",
            table=(name == GLUE and glue.table_name) or hive.table or table_config.table_name,
            partition_fields=fields,
            extractor=extractor,
            strategy=hive.table_strategy,
            skip_ro_suffix=hive.skip_ro_suffix,
            snapshot_with_table_name=sync.snapshot_with_table_name,
            omit_metadata_fields=hive.omit_metadata_fields,
            support_timestamp=hive.support_timestamp,
            sync_as_datasource=hive.sync_as_datasource,
            sync_comment=hive.sync_comment,
            schema_string_length_threshold=hive.schema_string_length_threshold,
            spark_version=sync.spark_version or "",
            table_properties=parse_key_values(hive.table_properties or ""),
            serde_properties=parse_key_values(hive.serde_properties or ""),
            create_managed_table=hive.create_managed_table,
            auto_create_database=hive.auto_create_database,
            batch_num=hive.batch_num,
            incremental=sync.incremental,
            no_partition_metadata=sync.no_partition_metadata,
            touch_partitions=sync.touch_partitions,
            conditional=sync.conditional,
            force_recreate=sync.force_recreate,
            recreate_on_error=hive.recreate_table_on_error or (name == GLUE and glue.recreate_table_on_error),
            ignore_exceptions=hive.ignore_exceptions,
            moves_entries=sync.moves_entries,
            with_table_definition=sync.with_table_definition,
            derived_partition_columns=sync.derived_partition_columns,
        )
        for name in catalogs
    )


def _catalogs(config: HoodieWriteConfig, catalog: str | None, problems: list[str]) -> tuple[str, ...]:
    """The catalogs, each once."""
    if catalog is not None:
        if catalog not in CATALOGS and not _is_of_user(catalog, "catalog", problems):
            advice = REFUSED_CATALOGS.get(catalog.lower(), f"give one of {', '.join(CATALOGS)}, or a class of yours")
            problems.append(f"catalog = {catalog!r}: {advice}")
        return (catalog,)
    found = []
    for given in config.sync.client_tool_class or (_HIVE_TOOL,):
        tool = given.rpartition(".")[2]
        if tool == _HIVE_TOOL:
            name = _catalog_of_mode(config.hive_sync, problems)
        elif tool in _TOOLS:
            name = _TOOLS[tool]
        elif tool not in _MISSING_TOOLS and _is_of_user(given, TOOL_KEY, problems):
            name = given
        else:
            name = None
            known = ", ".join((_HIVE_TOOL, *_TOOLS))
            advice = _MISSING_TOOLS.get(tool, f"give {known}, a class of yours (package.module.Class), or leave it out")
            problems.append(f"{TOOL_KEY} = {given}: there is no such catalog here: {advice}")
        if name is not None:
            found.append(name)
    return tuple(dict.fromkeys(found))


def _is_of_user(name: str, key: str, problems: list[str]) -> bool:
    """Whether a name is that of a user's class; one that cannot be loaded is a problem."""
    if "." not in name or "/" in name or name.startswith("org.apache.hudi."):
        return False
    try:
        load_class(name, key, HoodieCatalogClient)
    except HoodieConfigException as error:
        problems.append(str(error))
    return True


def _catalog_of_mode(hive: HiveSyncConfig, problems: list[str]) -> str | None:
    match hive.mode:
        case HiveSyncMode.HMS | HiveSyncMode.GLUE:
            return hive.mode.value
        case None if hive.use_jdbc is False:
            return HMS
    ways = f"set {_MODE_KEY} = {HMS} for a Hive metastore, or {_MODE_KEY} = {GLUE} for AWS Glue"
    if hive.mode is None:
        problems.append(f"no catalog is named (without a mode Hudi speaks to a HiveServer2, hoodie cannot): {ways}")
    else:
        problems.append(f"{_MODE_KEY} = {hive.mode}: it needs a HiveServer2, which hoodie does not speak to: {ways}")
    return None


def _uris(hive: HiveSyncConfig, environment: Mapping[str, str], session: Mapping[str, str], problems: list[str]) -> str:
    """The addresses of the metastore; empty text after a problem."""
    folder = environment.get("HIVE_CONF_DIR")
    site: Mapping[str, str] = {}
    if folder and not session.get(_URIS_OF_HIVE):
        try:
            site = _read_site(Path(folder) / _SITE_FILE)
        except (OSError, ValueError) as error:
            if not hive.metastore_uris:
                problems.append(
                    f"HIVE_CONF_DIR = {folder!r}: its {_SITE_FILE} cannot be read ({error}): set {_URIS_KEY}"
                )
                return ""
    uris = hive.metastore_uris or session.get(_URIS_OF_HIVE) or site.get(_URIS_OF_HIVE) or ""
    uris = without_user(uris.strip())
    for title, options in (("the Spark session", session), (f"the {_SITE_FILE} in HIVE_CONF_DIR", site)):
        found = [f"{key} = true" for key in _SECURITY if options.get(key, "").strip().lower() == "true"]
        others = _addresses(options.get(_URIS_OF_HIVE, ""))
        if found and uris and (not others or others & _addresses(uris)):
            problems.append(
                f"{title} says {' and '.join(found)}: the metastore wants {_wanted(found)}, which hoodie does not "
                f"speak. Sync with Hudi's HiveSyncTool, or set {_URIS_KEY} to a metastore without it"
            )
            return ""
    if not uris:
        in_site = (
            f", and the {_SITE_FILE} in HIVE_CONF_DIR = {folder!r} does not name {_URIS_OF_HIVE}" if folder else ""
        )
        glue = ""
        if _has_aws_credentials(environment):
            glue = f"; or, as there are AWS credentials and the catalog may be Glue: set {_MODE_KEY} = {GLUE}"
        problems.append(
            f"the address of the Hive metastore is not known{in_site}: set {_URIS_KEY} = thrift://<host>:9083, or "
            f"HIVE_CONF_DIR to the folder of a {_SITE_FILE}{glue}"
        )
    return uris


def _wanted(options: Iterable[str]) -> str:
    return " and ".join(_SECURITY[option.partition(" ")[0]] for option in options)


def _addresses(uris: str) -> set[str]:
    return {part.strip().rstrip("/").lower() for part in without_user(uris).split(",") if part.strip()}


def _read_site(path: Path) -> dict[str, str]:
    """The options of `METASTORE_OPTIONS` that a configuration of Hive has; none if there is no such file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not such a file, or the addresses hold variables.
    """
    if not path.exists():
        return {}
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES} bytes")
    properties = _properties_of_site(content)
    found = {name: properties[name].strip() for name in METASTORE_OPTIONS if name in properties}
    uris = found.get(_URIS_OF_HIVE, "")
    if re.search(r"\$\{", uris):
        raise ValueError(f"{_URIS_OF_HIVE} = {uris} holds a variable")
    return found


def _properties_of_site(content: bytes) -> dict[str, str]:
    """The properties of a configuration file of Hadoop; of two with one name the last one counts."""
    found: dict[str, str] = {}
    texts: dict[str, str] = {}
    path: list[str] = []

    def start(name: str, _: object) -> None:
        path.append(name)
        if path == ["configuration", "property"]:
            texts.clear()

    def end(_: str) -> None:
        if path == ["configuration", "property"]:
            found[texts.get("name", "").strip()] = texts.get("value", "")
        path.pop()

    def characters(text: str) -> None:
        texts[path[-1]] = texts.get(path[-1], "") + text

    def refuse(*_: object) -> None:
        raise ValueError("it declares entities, which are not followed")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ValueError(f"it is not XML: {error}") from error
    return found


def _has_aws_credentials(environment: Mapping[str, str]) -> bool:
    if any(environment.get(name) for name in _CREDENTIALS):
        return True
    home = environment.get("HOME")
    given = environment.get("AWS_SHARED_CREDENTIALS_FILE") or (home and f"{home}/.aws/credentials")
    return bool(given) and Path(str(given)).exists()


def _extractor(given: str | None, fields: tuple[str, ...], table_config: HoodieTableConfig, problems: list[str]) -> str:
    """The name of the extractor."""
    if given is None:
        return infer_partition_value_extractor(
            fields, table_config.partition_fields, hive_style=table_config.hive_style_partitioning
        )
    try:
        count = create_partition_value_extractor(given).value_count
    except HoodieConfigException as error:
        problems.append(str(error))
        return given
    if fields and count is not None and count != len(fields):
        values = "no value" if count == 0 else "one value"
        problems.append(
            f"{EXTRACTOR_KEY} = {given} gives {values}, and the entry has the partition columns {', '.join(fields)}: "
            f"leave it out, or give {_FIELDS_KEY} with as many columns"
        )
    return given
