"""AWS Glue as a catalog, by boto3."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs

from hoodie.common.util.aws_client import aws_client
from hoodie.config.aws_config import HoodieAWSConfig
from hoodie.config.glue_sync_config import GlueCatalogSyncClientConfig
from hoodie.exception import CatalogEntryChangedException, CatalogEntryExistsException, HoodieSyncException
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.catalog_entry import CatalogPartition, CatalogTable
from hoodie.sync.glue_entries import (
    glue_columns,
    holds,
    must_follow,
    partition_of,
    s3a_to_s3,
    storage_descriptor,
    table_of,
)
from hoodie.sync.glue_errors import NOT_THERE, THERE, advice, error_code, error_message, glue_failure
from hoodie.threads import ThreadPool

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:  # an extra: hoodie[glue]
    boto3 = None

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R")
_Answer = dict[str, Any]

_READ_AT_ONCE = 1000
_CHANGED_AT_ONCE = 100
_DROPPED_AT_ONCE = 25
_INDEXES = 3
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0)
"""Before keys are asked for again of which Glue answered none."""
_LISTS_BY_METADATA_TABLE = "hudi.metadata-listing-enabled"
_FILTERS_BY_INDEX = "partition_filtering.enabled"
_INDEX_NAME = "hudi_managed_"
_TIMES = frozenset({"LastAccessTime", "LastAnalyzedTime"})
_OF_PARTITION = ("LastAccessTime", "LastAnalyzedTime", "Parameters")


class GlueCatalogClient(HoodieCatalogClient):
    """The Glue catalog of an account.

    Requests are those of Hudi's client, with these differences: an entry is only replaced as it was read
    (``VersionId``); one request replaces all of it; partitions keep their parameters; the columns of partitions follow
    before the table's, so that a sync that dies between is made up for; of partition indexes only those of Hudi and
    hoodie are ever removed; tags come with the database instead of after it.

    Args:
        options: The options of the sync with Glue.
        account: The account that asks, and the place of Glue.

    Raises:
        HoodieSyncException: boto3 is not installed, the region is missing, or no credentials are there.

    Hudi: org.apache.hudi.aws.sync.AWSGlueCatalogSyncClient.
    """

    def __init__(self, options: GlueCatalogSyncClientConfig, account: HoodieAWSConfig) -> None:
        if boto3 is None:
            raise HoodieSyncException("AWS Glue needs boto3, which is not installed: pip install 'hoodie[glue]'")
        self._options = options
        self._catalog = {"CatalogId": options.catalog_id} if options.catalog_id else {}
        self._place = account.glue_endpoint or account.glue_region or ""
        threads = max(
            options.all_partitions_read_parallelism,
            options.changed_partitions_read_parallelism,
            options.partition_change_parallelism,
        )
        settings = {
            "connect_timeout": 10,
            "retries": {"mode": "standard", "max_attempts": 5},
            "max_pool_connections": max(threads, 10),
        }
        try:
            self._client: Any = aws_client(
                "glue",
                region=account.glue_region,
                endpoint=account.glue_endpoint,
                settings=settings,
                **account.credentials,
            )
        except (BotoCoreError, ValueError) as error:
            raise glue_failure(f"{self.title}: the client could not be made", error) from error
        self._place = account.glue_endpoint or self._client.meta.region_name

    @property
    def title(self) -> str:
        """See `HoodieCatalogClient.title`."""
        catalog = f"(catalog {self._options.catalog_id})" if self._options.catalog_id else ""
        return " ".join(part for part in ("AWS Glue", self._place, catalog) if part)

    def databases(self) -> list[str]:
        """See `HoodieCatalogClient.databases`."""
        pages = self._pages("the databases could not be listed", "get_databases")
        return sorted(database["Name"] for page in pages for database in page["DatabaseList"])

    def has_database(self, database: str) -> bool:
        """See `HoodieCatalogClient.has_database`."""
        what = f"the database {database} could not be read"
        return self._found(what, "get_database", Name=database.lower()) is not None

    def create_database(self, database: str) -> None:
        """See `HoodieCatalogClient.create_database`. It has the tags of the option."""
        tags = {key.strip(): value.strip() for key, _, value in (t.partition(":") for t in self._options.resource_tags)}
        described = {"Name": database.lower(), "Description": "automatically created by hoodie"}
        try:
            self._call(
                f"the database {database} could not be created",
                "create_database",
                DatabaseInput=described,
                **({"Tags": tags} if tags else {}),
            )
        except CatalogEntryExistsException:
            logger.info("%s: another process created the database %s", self.title, database)

    def tables(self, database: str) -> list[str]:
        """See `HoodieCatalogClient.tables`."""
        what = f"the tables of the database {database} could not be listed"
        pages = self._pages(what, "get_tables", DatabaseName=database.lower())
        return sorted(table["Name"] for page in pages for table in page["TableList"])

    def table(self, database: str, name: str) -> CatalogTable | None:
        """See `HoodieCatalogClient.table`."""
        what = f"the table {database}.{name} could not be read"
        answer = self._found(what, "get_table", DatabaseName=database.lower(), Name=name.lower())
        return None if answer is None else table_of(answer["Table"])

    def create_table(self, table: CatalogTable) -> None:
        """See `HoodieCatalogClient.create_table`. As in Hudi, it has no owner, and is external in any case."""
        self._create(table)
        self._manage_indexes(table)

    def replace_table(self, table: CatalogTable, *, cascades: bool = False) -> None:
        """See `HoodieCatalogClient.replace_table`.

        Partitions of Glue have columns of their own, which Athena and Redshift Spectrum compare with the table's. They
        are changed only where `needs_cascade` says so, and before the entry.
        """
        stored = table.stored
        given = {**self._as_input("TableInput", "Table", stored), **self._input(table)}
        old_columns, columns = stored["StorageDescriptor"].get("Columns", ()), given["StorageDescriptor"]["Columns"]
        if cascades and table.partition_keys and must_follow(old_columns, columns):
            self._cascade(table, columns)
        what = f"the table {table.full_name} could not be changed"
        try:
            self._call(
                what,
                "update_table",
                DatabaseName=table.database.lower(),
                TableInput=given,
                SkipArchive=self._options.skip_table_archive,
                **({"VersionId": stored["VersionId"]} if "VersionId" in stored else {}),
            )
        except CatalogEntryChangedException:
            # As in `create_table`.
            if not self._is_written(table, given):
                raise
        self._manage_indexes(table)

    def recreate_table(self, table: CatalogTable) -> None:
        """See `HoodieCatalogClient.recreate_table`.

        Glue cannot rename. So the entry is first made, and removed, under a temporary name: then Glue accepts it.
        """
        table = attrs.evolve(table, stored=None)
        trial = attrs.evolve(table, name=f"{table.name}_temp{int(time.time() * 1000)}")
        self._create(trial)
        self.drop_table(trial.database, trial.name)
        self.drop_table(table.database, table.name)
        try:
            self.create_table(table)
        except CatalogEntryExistsException:
            raise
        except HoodieSyncException as error:
            raise HoodieSyncException(
                f"{error} The old entry of {table.full_name} is gone: the next sync makes the new one."
            ) from error

    def drop_table(self, database: str, name: str) -> None:
        """See `HoodieCatalogClient.drop_table`."""
        what = f"the table {database}.{name} could not be removed"
        self._found(what, "delete_table", DatabaseName=database.lower(), Name=name.lower())

    def partition_values(self, table: CatalogTable) -> list[tuple[str, ...]]:
        """See `HoodieCatalogClient.partition_values`."""
        return [partition.values for partition in self.partitions(table)]

    def partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """See `HoodieCatalogClient.partitions`. Their ``stored`` has no columns."""
        if values is None:
            return [partition_of(stored) for stored in self._all_partitions(table, ExcludeColumnSchema=True)]
        batches = _batches(values, _READ_AT_ONCE)
        found = self._at_once(
            lambda batch: self._given_partitions(table, batch),
            batches,
            self._options.changed_partitions_read_parallelism,
        )
        return [partition_of(stored) for part in found for stored in part]

    def add_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.add_partitions`."""
        descriptor = storage_descriptor(table)

        def add(batch: Sequence[CatalogPartition]) -> list[_Answer]:
            given = [
                {"Values": list(p.values), "StorageDescriptor": {**descriptor, "Location": s3a_to_s3(p.location)}}
                for p in batch
            ]
            what = f"partitions of {table.full_name} could not be added"
            return self._errors(what, "batch_create_partition", table, PartitionInputList=given)

        self._change(table, "added", "BatchCreatePartition", add, partitions, _CHANGED_AT_ONCE, THERE)

    def set_locations(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.set_locations`. As in Hudi, they get the table's columns and formats."""
        descriptor = storage_descriptor(table)
        self._update_partitions(table, ((p, {**descriptor, "Location": s3a_to_s3(p.location)}) for p in partitions))

    def touch_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.touch_partitions`. As in Hudi, they get the table's columns and formats."""
        self.set_locations(table, partitions)

    def drop_partitions(self, table: CatalogTable, values: Iterable[tuple[str, ...]]) -> None:
        """See `HoodieCatalogClient.drop_partitions`."""

        def drop(batch: Sequence[tuple[str, ...]]) -> list[_Answer]:
            given = [{"Values": list(one)} for one in batch]
            what = f"partitions of {table.full_name} could not be removed"
            return self._errors(what, "batch_delete_partition", table, PartitionsToDelete=given)

        self._change(table, "removed", "BatchDeletePartition", drop, values, _DROPPED_AT_ONCE, NOT_THERE)

    def close(self) -> None:
        """See `HoodieCatalogClient.close`."""
        self._client.close()

    def _create(self, table: CatalogTable) -> None:
        given = {"Name": table.name.lower(), "TableType": "EXTERNAL_TABLE", **self._input(table)}
        if table.kind == "EXTERNAL_TABLE":
            given["Parameters"].setdefault("EXTERNAL", "TRUE")
        given["StorageDescriptor"]["SerdeInfo"]["Parameters"].setdefault("serialization.format", "1")
        what = f"the table {table.full_name} could not be created"
        try:
            self._call(what, "create_table", DatabaseName=table.database.lower(), TableInput=given)
        except CatalogEntryExistsException:
            # boto3 repeats calls without a response: then the entry is the one that the first call made.
            if not self._is_written(table, given):
                raise

    def _input(self, table: CatalogTable) -> dict[str, Any]:
        now = datetime.now(UTC)
        return {
            "Parameters": self._parameters(table),
            "PartitionKeys": glue_columns(table.partition_keys, (table.stored or {}).get("PartitionKeys", ())),
            "StorageDescriptor": storage_descriptor(table),
            "LastAccessTime": now,
            "LastAnalyzedTime": now,
        }

    def _parameters(self, table: CatalogTable) -> dict[str, str]:
        """The parameters of an entry with those that are Glue's only."""
        parameters = dict(table.parameters)
        listing = self._options.metadata_file_listing
        if listing is None:
            parameters.setdefault(_LISTS_BY_METADATA_TABLE, "FALSE")
        else:
            parameters[_LISTS_BY_METADATA_TABLE] = "TRUE" if listing else "FALSE"
        has_indexes = self._options.partition_index_fields_enable
        if has_indexes and table.partition_keys:
            parameters[_FILTERS_BY_INDEX] = "true"
        elif has_indexes is False and _FILTERS_BY_INDEX in parameters:
            parameters[_FILTERS_BY_INDEX] = "false"
        return parameters

    def _is_written(self, table: CatalogTable, given: Mapping[str, Any]) -> bool:
        """Whether the entry is the one that was given, whoever wrote it."""
        found = self.table(table.database, table.name)
        return found is not None and holds(
            found.stored, {key: value for key, value in given.items() if key not in _TIMES}
        )

    def _as_input(self, kind: str, stored_kind: str, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an answer of Glue that may be sent back."""
        shape = self._client.meta.service_model.shape_for
        known = shape(stored_kind).members
        return {
            name: stored[name]
            for name, member in shape(kind).members.items()
            if name in stored and known[name].name == member.name
        }

    def _all_partitions(
        self, table: CatalogTable, keep: Callable[[_Answer], _Answer] | None = None, **asked: Any
    ) -> list[_Answer]:
        """All partitions, or what ``keep`` makes of each."""
        count = self._options.all_partitions_read_parallelism

        def segment(number: int) -> list[_Answer]:
            pages = self._pages(
                f"the partitions of {table.full_name} could not be listed",
                "get_partitions",
                DatabaseName=table.database.lower(),
                TableName=table.name.lower(),
                Segment={"SegmentNumber": number, "TotalSegments": count},
                **asked,
            )
            return [keep(stored) if keep else stored for page in pages for stored in page["Partitions"]]

        found = self._at_once(segment, range(count), count)
        return list({tuple(stored["Values"]): stored for part in found for stored in part}.values())

    def _given_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> list[_Answer]:
        what = f"partitions of {table.full_name} could not be read"
        found: list[_Answer] = []
        asked, pauses_s = [{"Values": list(one)} for one in values], iter(_PAUSES_S)
        while asked:
            answer = self._call_on(what, "batch_get_partition", table, PartitionsToGet=asked)
            found += answer.get("Partitions", [])
            rest = answer.get("UnprocessedKeys", [])
            if rest and len(rest) == len(asked):
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise HoodieSyncException(
                        f"{self.title}: {what}: Glue left {len(asked)} of them unanswered. Sync again later."
                    )
                time.sleep(pause_s)
            asked = rest
        return found

    def _update_partitions(
        self, table: CatalogTable, partitions: Iterable[tuple[CatalogPartition, Mapping[str, Any]]]
    ) -> None:
        def update(batch: Sequence[tuple[CatalogPartition, Mapping[str, Any]]]) -> list[_Answer]:
            entries = [
                {
                    "PartitionValueList": list(partition.values),
                    "PartitionInput": {
                        **{key: partition.stored[key] for key in _OF_PARTITION if key in (partition.stored or {})},
                        "Values": list(partition.values),
                        "StorageDescriptor": descriptor,
                    },
                }
                for partition, descriptor in batch
            ]
            what = f"partitions of {table.full_name} could not be changed"
            return self._errors(what, "batch_update_partition", table, Entries=entries)

        self._change(table, "changed", "BatchUpdatePartition", update, partitions, _CHANGED_AT_ONCE, "")

    def _cascade(self, table: CatalogTable, columns: Sequence[Mapping[str, Any]]) -> None:
        def without_columns(stored: _Answer) -> _Answer:
            old = stored["StorageDescriptor"].pop("Columns", ())
            return {**stored, "IsBehind": must_follow(old, columns)}

        stored = self._all_partitions(table, without_columns)
        behind = [one for one in stored if one["IsBehind"]]
        logger.info(
            "%s: the columns of %d of %d partitions of %s follow those of the table",
            self.title, len(behind), len(stored), table.full_name,
        )  # fmt: skip
        self._update_partitions(
            table, ((partition_of(one), {**one["StorageDescriptor"], "Columns": columns}) for one in behind)
        )

    def _change(
        self,
        table: CatalogTable,
        done: str,
        operation: str,
        change: Callable[[Sequence[_T]], list[_Answer]],
        items: Iterable[_T],
        at_once: int,
        harmless: str,
    ) -> None:
        """Send changes in batches, and raise the errors of single partitions together."""
        batches = _batches(items, at_once)
        answers = self._at_once(change, batches, self._options.partition_change_parallelism)
        errors = [
            # The two names are those of different calls.
            (error.get("PartitionValues") or error.get("PartitionValueList"), error["ErrorDetail"])
            for answer in answers
            for error in answer
        ]
        failed = [(values, detail) for values, detail in errors if detail.get("ErrorCode") != harmless]
        if len(failed) < len(errors):
            count = len(errors) - len(failed)
            logger.info("%s: %d partitions of %s need not be %s", self.title, count, table.full_name, done)
        if not failed:
            return
        listed = "; ".join(f"{values}: {error_code(detail)}: {error_message(detail)}" for values, detail in failed)
        codes = {error_code(detail) for _, detail in failed}
        raise HoodieSyncException(
            f"{self.title}: {len(failed)} of {sum(map(len, batches))} partitions of {table.full_name} could not be "
            f"{done}: {listed}. {advice(codes, operation)}"
        )

    def _errors(self, what: str, method: str, table: CatalogTable, **arguments: Any) -> list[_Answer]:
        errors: list[_Answer] = self._call_on(what, method, table, **arguments).get("Errors", [])
        return errors

    def _at_once(self, call: Callable[[_T], _R], items: Sequence[_T], threads: int) -> list[_R]:
        if min(threads, len(items)) <= 1:
            return [call(item) for item in items]
        with ThreadPool(min(threads, len(items)), "hoodie-glue") as pool:
            return list(pool.map(call, items))

    def _manage_indexes(self, table: CatalogTable) -> None:
        """Make and remove partition indexes by the options. As in Hudi, what Glue refuses is a warning."""
        if self._options.partition_index_fields_enable is None or not table.partition_keys:
            return
        wanted: list[list[str]] = []
        if self._options.partition_index_fields_enable:
            given = [index.split(";") for index in self._options.partition_index_fields]
            wanted = given or [[key.name] for key in table.partition_keys]
            if len(wanted) > _INDEXES:
                logger.warning("%s: a table has at most %d indexes: the first ones are made", self.title, _INDEXES)
            wanted = [[field.strip().lower() for field in fields] for fields in wanted[:_INDEXES]]
        try:
            self._make_indexes(table, wanted)
        except HoodieSyncException as error:
            logger.warning("%s The table is there without them; the next sync of a commit tries again.", error)

    def _make_indexes(self, table: CatalogTable, wanted: Sequence[Sequence[str]]) -> None:
        what = f"the partition indexes of {table.full_name} could not be"
        answer = self._call_on(f"{what} read", "get_partition_indexes", table)
        there = [
            (index["IndexName"], [key["Name"] for key in index["Keys"]])
            for index in answer.get("PartitionIndexDescriptorList", ())
        ]
        for name, keys in there:
            if keys not in wanted and name.startswith(_INDEX_NAME):
                self._call_on(f"{what} removed", "delete_partition_index", table, IndexName=name)
        for fields in wanted:
            if fields not in [keys for _, keys in there]:
                new = {"Keys": list(fields), "IndexName": f"{_INDEX_NAME}[{', '.join(fields)}]"}
                self._call_on(f"{what} created", "create_partition_index", table, PartitionIndex=new)

    def _pages(self, what: str, method: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._call(what, method, **arguments, **token)
            yield page
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _call_on(self, what: str, method: str, table: CatalogTable, **arguments: Any) -> Any:
        return self._call(what, method, DatabaseName=table.database.lower(), TableName=table.name.lower(), **arguments)

    def _found(self, what: str, method: str, **arguments: Any) -> dict[str, Any] | None:
        """The answer of a call; None if there is nothing of that name."""
        try:
            return self._call(what, method, **arguments)
        except CatalogEntryChangedException as error:
            if isinstance(error.__cause__, ClientError) and error_code(error.__cause__.response["Error"]) == NOT_THERE:
                return None
            raise

    def _call(self, what: str, method: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, method)(**self._catalog, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise glue_failure(f"{self.title}: {what}", error) from error
        return answer


def _batches(items: Iterable[_T], at_once: int) -> list[list[_T]]:
    all_of_them = list(items)
    return [all_of_them[start : start + at_once] for start in range(0, len(all_of_them), at_once)]
