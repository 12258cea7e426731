"""A Hive Metastore as a catalog, by Thrift.

Hudi: org.apache.hudi.hive.HoodieHiveSyncClient and org.apache.hudi.hive.ddl.HMSDDLExecutor.
"""

from __future__ import annotations

import contextlib
import copy
import getpass
import logging
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hoodie.exception import (
    CatalogChangeRefusedException,
    CatalogEntryChangedException,
    CatalogEntryExistsException,
    HoodieConfigException,
    HoodieSyncException,
)
from hoodie.sync.catalog_client import HoodieCatalogClient
from hoodie.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable

try:
    import thriftpy2
    from thriftpy2.protocol import TBinaryProtocolFactory
    from thriftpy2.thrift import TApplicationException, TClient
    from thriftpy2.transport import TBufferedTransportFactory, TSocket
except ImportError:  # an extra: hoodie[hive]
    thriftpy2 = None

logger = logging.getLogger(__name__)

T = TypeVar("T")

INTERFACE = Path(__file__).with_name("hive_metastore.thrift")
"""The interface file."""
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for an empty value of a partition."""
_DATABASE_DESCRIPTION = "automatically created by hoodie"
_LAST_CHANGE = "transient_lastDdlTime"
_CONNECT_ATTEMPTS = 3
_ALL = -1
_MOST_SHOWN = 1000
_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{[\\]^]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_GONE = re.compile("doesn't exist|does not exist|table not found|NoSuchObjectException")
"""In the reasons of errors whose class tells less; Hive 2.3 has a wording for each call."""
_ASK_ITS_LOG = "See the metastore's log"
_READS = {
    "get_all_databases", "get_database", "get_all_tables", "get_table_req", "get_partition_names",
    "get_partitions_by_names",
}  # fmt: skip
_REPEATABLE = {*_READS, "create_database", "drop_table", "add_partitions_req", "drop_partition"}
"""The calls that change nothing, or nothing more when they are done a second time."""


def hive_metastore_interface() -> Any:
    """The module with the structs, exceptions and the service of `INTERFACE`.

    Raises:
        HoodieSyncException: thriftpy2 is missing.
    """
    if thriftpy2 is None:
        raise HoodieSyncException("The Hive metastore needs thriftpy2: pip install 'hoodie[hive]'")
    return thriftpy2.load(str(INTERFACE), module_name="hive_metastore_thrift")


def escape_partition_value(value: str) -> str:
    """A value as it stands in the name of a partition: ``a:b`` is ``a%3Ab``; an empty one has a name of its own.

    Hive: org.apache.hadoop.hive.common.FileUtils.escapePathName.
    """
    if not value:
        return DEFAULT_PARTITION
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def unescape_partition_value(text: str) -> str:
    """The value that `escape_partition_value` was given.

    Hive: org.apache.hadoop.hive.common.FileUtils.unescapePathName.
    """
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


class HiveMetastoreClient(HoodieCatalogClient):
    """A connection to a Hive Metastore; it is opened by the first call.

    A lost connection is opened anew, and a call is repeated if that cannot do harm: reading, adding and dropping are
    repeated, creating and changing an entry are not. No call is repeated after it took `answer_timeout_s`.

    Args:
        uris: ``thrift://a:9083,thrift://b:9083``; the first that answers is taken.
        batch_num: The number of partitions in one request.
        connect_timeout_s: Seconds until another URI is tried, and until refused connections are given up.
        answer_timeout_s: Seconds to wait for an answer, 600 as Hive's own client; a cascade takes its time.
        retry_delay_s: Seconds between attempts to connect.

    Raises:
        HoodieConfigException: A URI cannot be read.
        HoodieSyncException: thriftpy2 is missing.

    Hudi: org.apache.hudi.hive.ddl.HMSDDLExecutor. Differs: it reads entries by a call that Hive 4 has, too, sends an
        entry's unknown parameters back, and tells the metastore's reasons.
    """

    def __init__(
        self,
        uris: str,
        *,
        batch_num: int = 1000,
        connect_timeout_s: float = 20,
        answer_timeout_s: float = 600,
        retry_delay_s: float = 1,
    ) -> None:
        self._interface = hive_metastore_interface()
        self._addresses = _parse_uris(uris)
        self._batch_num = batch_num
        self._connect_timeout_s = connect_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._retry_delay_s = retry_delay_s
        self._client: Any = None

    @property
    def title(self) -> str:
        """See `HoodieCatalogClient.title`."""
        return f"the Hive metastore {','.join(_uri(host, port) for host, port in self._addresses)}"

    # --- databases ------------------------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """See `HoodieCatalogClient.databases`."""
        return sorted(self._call("the databases could not be listed", "get_all_databases"))

    def has_database(self, database: str) -> bool:
        """See `HoodieCatalogClient.has_database`."""
        try:
            self._call(f"the database {database!r} could not be read", "get_database", database)
        except _GoneError:
            return False
        return True

    def create_database(self, database: str) -> None:
        """See `HoodieCatalogClient.create_database`."""
        entry = self._interface.Database(
            name=database, description=_DATABASE_DESCRIPTION, parameters={}, ownerName=_user(), ownerType=1
        )
        with contextlib.suppress(CatalogEntryExistsException):
            self._call(f"the database {database!r} could not be created", "create_database", entry)

    # --- tables ---------------------------------------------------------------------------------------------------

    def tables(self, database: str) -> list[str]:
        """See `HoodieCatalogClient.tables`."""
        return sorted(self._call(f"the tables of {database!r} could not be listed", "get_all_tables", database))

    def table(self, database: str, name: str) -> CatalogTable | None:
        """See `HoodieCatalogClient.table`."""
        request = self._interface.GetTableRequest(dbName=database, tblName=name)
        try:
            stored = self._call(f"{database}.{name} could not be read", "get_table_req", request).table
        except _GoneError:
            return None
        return _table_of(stored)

    def create_table(self, table: CatalogTable) -> None:
        """See `HoodieCatalogClient.create_table`."""
        self._call(f"{table.full_name} could not be created", "create_table", self._new_table(table))

    def replace_table(self, table: CatalogTable, *, cascades: bool = False) -> None:
        """See `HoodieCatalogClient.replace_table`."""
        changed = copy.deepcopy(table.stored)
        # Entries of other programs may lack parts.
        new = self._descriptor(table)
        changed.sd = changed.sd or new
        changed.sd.serdeInfo = changed.sd.serdeInfo or new.serdeInfo
        changed.sd.cols = self._fields(table.columns, changed.sd.cols)
        changed.sd.location = table.location
        changed.sd.inputFormat = table.input_format
        changed.sd.outputFormat = table.output_format
        changed.sd.serdeInfo.serializationLib = table.serde
        changed.sd.serdeInfo.parameters = dict(table.serde_parameters)
        changed.partitionKeys = self._fields(table.partition_keys, changed.partitionKeys)
        changed.parameters = dict(table.parameters)
        changed.tableType = table.kind
        self._alter_table(f"{table.full_name} could not be changed", table, changed, cascades=cascades)

    def recreate_table(self, table: CatalogTable) -> None:
        """See `HoodieCatalogClient.recreate_table`."""
        doing = f"{table.full_name} could not be made anew"
        if table.kind != "EXTERNAL_TABLE":  # a renamed managed table takes its data with it
            self.drop_table(table.database, table.name)
            self._call(doing, "create_table", self._new_table(table))
            return
        new = self._new_table(table)
        new.tableName = f"{table.name}_temp{time.time_ns() // 1_000_000}"
        temporary = CatalogTable(
            database=table.database, name=new.tableName, columns=(), partition_keys=(), location="", input_format="",
            output_format="", serde="", serde_parameters={}, parameters={},
        )  # fmt: skip
        self._call(doing, "create_table", new)
        try:
            self.drop_table(table.database, table.name)
            renamed = copy.deepcopy(new)
            renamed.tableName = table.name
            self._alter_table(doing, temporary, renamed, cascades=False)
        except HoodieSyncException:
            with contextlib.suppress(HoodieSyncException):
                self.drop_table(temporary.database, temporary.name)
            raise

    def drop_table(self, database: str, name: str) -> None:
        """See `HoodieCatalogClient.drop_table`."""
        with contextlib.suppress(_GoneError):
            self._call(f"{database}.{name} could not be dropped", "drop_table", database, name, False)

    # --- partitions -----------------------------------------------------------------------------------------------

    def partition_values(self, table: CatalogTable) -> list[tuple[str, ...]]:
        """See `HoodieCatalogClient.partition_values`."""
        doing = f"the partitions of {table.full_name} could not be listed"
        names = self._call(doing, "get_partition_names", table.database, table.name, _ALL)
        return [_values_in(name) for name in names]

    def partitions(
        self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """See `HoodieCatalogClient.partitions`."""
        wanted = self.partition_values(table) if values is None else values
        doing = f"the partitions of {table.full_name} could not be read"
        found = []
        for batch in self._batches(wanted):
            names = [_name_of(table, one) for one in batch]
            answer = self._call(doing, "get_partitions_by_names", table.database, table.name, names)
            for one in answer:
                location = one.sd.location if one.sd is not None else None
                found.append(CatalogPartition(tuple(one.values), location or "", one))
        return found

    def add_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.add_partitions`."""
        descriptor = self._descriptor(table) if table.stored is None else table.stored.sd
        for batch in self._batches(partitions):
            parts = []
            for partition in batch:
                own = copy.copy(descriptor)
                own.location = partition.location
                parts.append(
                    self._interface.Partition(
                        values=list(partition.values),
                        dbName=table.database,
                        tableName=table.name,
                        createTime=0,
                        lastAccessTime=0,
                        sd=own,
                    )
                )
            request = self._interface.AddPartitionsRequest(
                dbName=table.database, tblName=table.name, parts=parts, ifNotExists=True, needResult=False
            )
            self._call(f"partitions of {table.full_name} could not be added", "add_partitions_req", request)

    def set_locations(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.set_locations`."""
        self._alter_partitions(table, partitions)

    def touch_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        """See `HoodieCatalogClient.touch_partitions`."""
        self._alter_partitions(table, partitions)

    def drop_partitions(self, table: CatalogTable, values: Iterable[tuple[str, ...]]) -> None:
        """See `HoodieCatalogClient.drop_partitions`."""
        doing = f"partitions of {table.full_name} could not be dropped"
        for one in values:
            with contextlib.suppress(_GoneError):
                self._call(doing, "drop_partition", table.database, table.name, list(one), False)

    def close(self) -> None:
        """See `HoodieCatalogClient.close`."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # --- requests -------------------------------------------------------------------------------------------------

    def _new_table(self, table: CatalogTable) -> Any:
        return self._interface.Table(
            tableName=table.name, dbName=table.database, owner=_user(), createTime=int(time.time()), lastAccessTime=0,
            retention=0, sd=self._descriptor(table), partitionKeys=self._fields(table.partition_keys),
            parameters=dict(table.parameters), tableType=table.kind,
        )  # fmt: skip

    def _descriptor(self, table: CatalogTable) -> Any:
        serde = self._interface.SerDeInfo(serializationLib=table.serde, parameters=dict(table.serde_parameters))
        return self._interface.StorageDescriptor(
            cols=self._fields(table.columns), location=table.location, inputFormat=table.input_format,
            outputFormat=table.output_format, compressed=False, numBuckets=0, serdeInfo=serde, bucketCols=[],
            sortCols=[], parameters={},
        )  # fmt: skip

    def _fields(self, columns: Iterable[CatalogColumn], stored: Iterable[Any] | None = None) -> list[Any]:
        """Columns as structs; one that did not change is sent back as it was read."""
        known = {_column_of(field): field for field in stored or ()}
        return [
            known.get(one) or self._interface.FieldSchema(name=one.name, type=one.type, comment=one.comment)
            for one in columns
        ]

    def _alter_table(self, doing: str, table: CatalogTable, changed: Any, *, cascades: bool) -> None:
        context = self._interface.EnvironmentContext(properties={"CASCADE": "true"} if cascades else {})
        self._call(doing, "alter_table_with_environment_context", table.database, table.name, changed, context)

    def _alter_partitions(self, table: CatalogTable, partitions: Iterable[CatalogPartition]) -> None:
        doing = f"partitions of {table.full_name} could not be changed"
        for batch in self._batches(partitions):
            parts = []
            for partition in batch:
                changed = copy.copy(partition.stored)
                changed.sd = copy.copy(partition.stored.sd) or self._descriptor(table)
                changed.sd.location = partition.location
                # The metastore writes a new time only where there is none.
                changed.parameters = {k: v for k, v in (changed.parameters or {}).items() if k != _LAST_CHANGE}
                parts.append(changed)
            self._call(doing, "alter_partitions", table.database, table.name, parts)

    def _batches(self, items: Iterable[T]) -> Iterator[list[T]]:
        rest = iter(items)
        while batch := list(islice(rest, self._batch_num)):
            yield batch

    # --- the connection -------------------------------------------------------------------------------------------

    def _call(self, doing: str, method: str, *arguments: Any) -> Any:
        """The answer to a request.

        Args:
            doing: The words of the message if it fails.
            method: The name in `INTERFACE`.
            arguments: As the interface has them.

        Raises:
            HoodieSyncException: It failed; a `_GoneError` if the metastore says that there is no such thing.
        """
        if self._client is None:
            self._connect(doing)
        try:
            return self._send(doing, method, *arguments)
        except _ConnectionLostError as error:
            if method not in _REPEATABLE:
                raise
            logger.info("%s: %s is repeated: %s", self.title, method, error.__cause__)
        self._connect(doing)
        return self._send(doing, method, *arguments)

    def _send(self, doing: str, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._client, method)(*arguments)
        except Exception as error:  # the library has no common class for what a foreign server's answer leads to
            raise self._error_of(doing, method, error) from error

    def _error_of(self, doing: str, method: str, error: Exception) -> HoodieSyncException:
        """The error to raise instead of one of the metastore, the network or the library.

        The connection is closed unless the metastore gave an answer that was read to its end.
        """
        interface, text = self._interface, _reason(error)
        if isinstance(error, interface.AlreadyExistsException):
            return CatalogEntryExistsException(self._message(doing, text, "Another process was first: sync again"))
        is_refused = isinstance(error, interface.InvalidOperationException | interface.InvalidObjectException)
        if isinstance(error, interface.NoSuchObjectException) or (is_refused and _GONE.search(text)):
            return _GoneError(self._message(doing, text, "It may have been dropped meanwhile: sync again"))
        if isinstance(error, interface.InvalidOperationException) and "incompatible" in text:
            advice = (
                "Set hoodie.datasource.hive_sync.recreate_table_on_error = true, or "
                "hive.metastore.disallow.incompatible.col.type.changes = false at the metastore"
            )
            return CatalogChangeRefusedException(self._message(doing, text, advice))
        if is_refused and "not a valid object name" in text:
            advice = (
                "A metastore takes letters, digits and underscores: set hoodie.datasource.hive_sync.table and "
                "hoodie.datasource.hive_sync.database"
            )
            return HoodieSyncException(self._message(doing, text, advice))
        if is_refused and method == "alter_table_with_environment_context":
            return CatalogChangeRefusedException(self._message(doing, text, _ASK_ITS_LOG))
        if is_refused or isinstance(error, interface.MetaException):
            return HoodieSyncException(self._message(doing, text, _ASK_ITS_LOG))
        if isinstance(error, TApplicationException):
            advice = _ASK_ITS_LOG
            if error.type == TApplicationException.UNKNOWN_METHOD:
                advice = f"hoodie needs the call {method}, which Hive 2.3 to 4 have"
            return HoodieSyncException(self._message(doing, text, advice))
        self.close()
        if isinstance(error, TimeoutError):
            advice = f"No answer came within {self._answer_timeout_s:g} s, and it may still be at work. {_ASK_ITS_LOG}"
            return _TimedOutError(self._message(doing, text, advice))
        advice = "The connection was lost, and the call may have been carried out: sync again"
        return _ConnectionLostError(self._message(doing, text, advice))

    def _connect(self, doing: str) -> None:
        started = time.monotonic()
        failures: dict[str, str] = {}
        for attempt in range(_CONNECT_ATTEMPTS):
            if attempt:
                time.sleep(self._retry_delay_s)
            for host, port in self._addresses:
                try:
                    self._open(host, port)
                except (OSError, _ConnectionLostError, _TimedOutError) as error:
                    failures[_uri(host, port)] = _reason(error if isinstance(error, OSError) else error.__cause__)
                    continue
                return
            if time.monotonic() - started > self._connect_timeout_s:
                break
        reason = "; ".join(f"{uri} gives no answer ({text})" for uri, text in failures.items())
        advice = (
            "Start it, or correct hoodie.datasource.hive_sync.metastore.uris. If it wants Kerberos or TLS: hoodie "
            "speaks neither"
        )
        raise HoodieSyncException(self._message(doing, reason, advice))

    def _open(self, host: str, port: int) -> None:
        opened = socket.create_connection((host, port), timeout=self._connect_timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport = TBufferedTransportFactory().get_transport(TSocket(sock=opened))
        protocol = TBinaryProtocolFactory().get_protocol(transport)
        self._client = TClient(self._interface.ThriftHiveMetastore, protocol)
        try:
            # As Hive's own client: folders that the metastore makes then belong to the user, not to the metastore.
            self._send("the user could not be told", "set_ugi", _user(), [])
        except (_ConnectionLostError, _TimedOutError):
            raise
        except HoodieSyncException as error:
            logger.debug("%s: goes on without a user: %s", self.title, error)
        opened.settimeout(self._answer_timeout_s)

    def _message(self, doing: str, reason: str, advice: str) -> str:
        return f"{self.title}: {doing}: {reason.rstrip('. ')}. {advice}"


class _GoneError(CatalogEntryChangedException):
    """The metastore says that there is no such thing."""


class _ConnectionLostError(HoodieSyncException):
    """The connection ended before the answer came."""


class _TimedOutError(HoodieSyncException):
    """The answer did not come in time."""


def _parse_uris(uris: str) -> list[tuple[str, int]]:
    found = []
    for uri in filter(None, (part.strip() for part in uris.split(","))):
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.scheme != "thrift":
            shown = uri if "@" not in uri else "a URI with a user"
            raise HoodieConfigException(
                f"hoodie.datasource.hive_sync.metastore.uris: {shown!r} is no URI of a Hive metastore: "
                "give thrift://host:9083, several with commas between them"
            )
        found.append((host, port))
    if not found:
        raise HoodieConfigException(
            "hoodie.datasource.hive_sync.metastore.uris is empty: give thrift://host:9083"
        )  # fmt: skip
    return found


def _uri(host: str, port: int) -> str:
    return f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"


def _user() -> str:
    """The user as Hadoop has it where there is no Kerberos."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _reason(error: BaseException | None) -> str:
    text = " ".join(str(getattr(error, "message", None) or error or type(error).__name__).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _table_of(stored: Any) -> CatalogTable:
    descriptor = stored.sd
    serde = None if descriptor is None else descriptor.serdeInfo
    parameters: Mapping[str, str] = stored.parameters or {}
    return CatalogTable(
        database=stored.dbName,
        name=stored.tableName,
        columns=tuple(map(_column_of, descriptor.cols or ())) if descriptor is not None else (),
        partition_keys=tuple(map(_column_of, stored.partitionKeys or ())),
        location=(descriptor.location if descriptor is not None else None) or "",
        input_format=(descriptor.inputFormat if descriptor is not None else None) or "",
        output_format=(descriptor.outputFormat if descriptor is not None else None) or "",
        serde=(serde.serializationLib if serde is not None else None) or "",
        serde_parameters=dict((serde.parameters if serde is not None else None) or {}),
        parameters=dict(parameters),
        kind=stored.tableType or "",
        stored=stored,
    )


def _column_of(field: Any) -> CatalogColumn:
    return CatalogColumn(field.name, field.type, field.comment or "")


def _name_of(table: CatalogTable, values: Sequence[str]) -> str:
    return "/".join(
        f"{escape_partition_value(key.name.lower())}={escape_partition_value(value)}"
        for key, value in zip(table.partition_keys, values, strict=True)
    )


def _values_in(name: str) -> tuple[str, ...]:
    return tuple(unescape_partition_value(part.partition("=")[2]) for part in name.split("/"))
