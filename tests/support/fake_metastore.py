"""A Hive Metastore in memory, in a thread, on loopback: its rules as far as a sync meets them, and faults on demand.

with FakeMetastore() as metastore:
    metastore.on("alter_table_with_environment_context", dies="after")
    client = HiveMetastoreClient(metastore.uri)
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import attrs
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TApplicationException, TException, TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TSocket

from hoodie.sync.hms_client import escape_partition_value, hive_metastore_interface

hms = hive_metastore_interface()
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_TEXTS = ("string", "varchar", "char")
_LAST_CHANGE = "transient_lastDdlTime"


class _DiedError(Exception):
    """Ends the connection."""


@attrs.define
class _Fault:
    method: str
    on_call: int
    fails: Exception | None
    delay_s: float
    dies: str | None
    does: Callable[[], None] | None


class FakeMetastore:
    """A metastore with the database ``default``; a context manager.

    Args:
        port: The port to listen on; 0 takes a free one.
        makes_folders: Whether it makes the folders of tables and partitions, as the real one does.

    Attributes:
        databases: Structs by name.
        entries: Structs of tables by (database, name).
        parts: Structs of partitions by (database, name), then by values.
        calls: The names of all calls in their order, without ``set_ugi``.
        requests: The arguments of the calls of `calls`.
        users: Those that clients named.
        connection_count: The connections that were taken so far.
    """

    def __init__(self, port: int = 0, *, makes_folders: bool = True) -> None:
        self.databases: dict[str, Any] = {}
        self.entries: dict[tuple[str, str], Any] = {}
        self.parts: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {}
        self.calls: list[str] = []
        self.requests: list[tuple[Any, ...]] = []
        self.users: list[str] = []
        self.connection_count = 0
        self._makes_folders = makes_folders
        self._faults: list[_Fault] = []
        self._lock = threading.RLock()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_stopped = False
        self.port: int = self._listener.getsockname()[1]
        self.databases["default"] = hms.Database(name="default", description="", locationUri="file:/tmp", parameters={})

    @property
    def uri(self) -> str:
        """What clients connect to."""
        return f"thrift://127.0.0.1:{self.port}"

    def count(self, method: str) -> int:
        """The number of calls of a method."""
        return self.calls.count(method)

    def entry(self, name: str, database: str = "default") -> Any:
        """The struct of a table."""
        return self.entries[database, name]

    def on(
        self,
        method: str,
        on_call: int = 1,
        *,
        fails: Exception | str | None = None,
        delay_s: float = 0,
        dies: str | None = None,
        does: Callable[[], None] | None = None,
    ) -> None:
        """Do something else on a call, once.

        Args:
            method: The method, or ``*`` for any.
            on_call: On which of its calls from now on, 1 is the next.
            fails: The error to answer with; a text is that of a MetaException.
            delay_s: Seconds until the answer.
            dies: ``before`` or ``after`` the work: the connection ends without an answer.
            does: Is called before the work, as another process would come in between.
        """
        error = hms.MetaException(message=fails) if isinstance(fails, str) else fails
        self._faults.append(_Fault(method, on_call, error, delay_s, dies, does))

    def stop(self) -> None:
        """Take no more connections, and end all."""
        self._is_stopped = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- the server -----------------------------------------------------------------------------------------------

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_stopped:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connection_count += 1
            self._connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        transport = TBufferedTransportFactory().get_transport(TSocket(sock=connection))
        protocol = TBinaryProtocolFactory().get_protocol(transport)
        processor = TProcessor(hms.ThriftHiveMetastore, _Calls(self))
        # The connection ends where the client closes it, where a fault says so, and at stop().
        with contextlib.suppress(OSError, TException, _DiedError):
            while True:
                processor.process(protocol, protocol)
        self._connections.discard(connection)
        connection.close()

    def carry_out(self, method: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Do a call as the faults want it."""
        fault = None
        with self._lock:
            if method != "set_ugi":
                self.calls.append(method)
                self.requests.append(copy.deepcopy(arguments))
            for one in list(self._faults):
                if one.method in (method, "*"):
                    one.on_call -= 1
                    if one.on_call == 0 and fault is None:
                        fault = one
                        self._faults.remove(one)
        if fault is not None:
            if fault.does is not None:
                fault.does()
            until = time.monotonic() + fault.delay_s
            while time.monotonic() < until and not self._is_stopped:
                time.sleep(0.01)
            if fault.dies == "before":
                raise _DiedError
            if fault.fails is not None:
                raise fault.fails
        with self._lock:
            answer = copy.deepcopy(work(*copy.deepcopy(arguments)))
        if fault is not None and fault.dies == "after":
            raise _DiedError
        return answer

    # --- the rules ------------------------------------------------------------------------------------------------

    def found(self, database: str, name: str) -> tuple[str, str]:
        """The key of a table; a NoSuchObjectException if there is none."""
        key = (database.lower(), name.lower())
        if key not in self.entries:
            raise hms.NoSuchObjectException(message=f"{key[0]}.{key[1]} table not found")
        return key

    def placed(self, location: str | None, fallback: str) -> str:
        """A location as the metastore stores it; its folder is made."""
        if not location:
            location = fallback
        if location.startswith("/"):
            location = f"file:{location}"
        if self._makes_folders and location.startswith("file:"):
            os.makedirs(location.removeprefix("file:"), exist_ok=True)
        return location


class _Calls:
    """The methods of the service; all go through `FakeMetastore.carry_out`."""

    def __init__(self, metastore: FakeMetastore) -> None:
        self._metastore = metastore

    def __getattr__(self, method: str) -> Callable[..., Any]:
        work = getattr(_Work(self._metastore), method)
        return lambda *arguments: self._metastore.carry_out(method, work, arguments)


class _Work:
    def __init__(self, metastore: FakeMetastore) -> None:
        self._of = metastore

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        self._of.users.append(user_name)
        return [*group_names, user_name]

    def get_all_databases(self) -> list[str]:
        return list(self._of.databases)

    def get_database(self, name: str) -> Any:
        if name.lower() not in self._of.databases:
            raise hms.NoSuchObjectException(message=name.lower())
        return self._of.databases[name.lower()]

    def create_database(self, database: Any) -> None:
        name = database.name.lower()
        _check_name(name)
        if name in self._of.databases:
            raise hms.AlreadyExistsException(message=f"Database {name} already exists")
        database.name = name
        database.locationUri = self._of.placed(database.locationUri, f"warehouse:/{name}.db")
        self._of.databases[name] = database

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name for database, name in self._of.entries if database == db_name.lower()]

    def get_table_req(self, req: Any) -> Any:
        return hms.GetTableResult(table=self._of.entries[self._of.found(req.dbName, req.tblName)])

    def create_table(self, tbl: Any) -> None:
        key = (tbl.dbName.lower(), tbl.tableName.lower())
        _check_name(key[1])
        if key[0] not in self._of.databases:
            raise hms.InvalidObjectException(message=key[0])
        if key in self._of.entries:
            raise hms.AlreadyExistsException(message=f"Table {key[1]} already exists")
        tbl.dbName, tbl.tableName = key
        for field in (*tbl.sd.cols, *(tbl.partitionKeys or [])):
            field.name = field.name.lower()
        tbl.partitionKeys = tbl.partitionKeys or []
        tbl.sd.location = self._of.placed(tbl.sd.location, f"warehouse:/{key[1]}")
        tbl.createTime = int(time.time())
        tbl.parameters = {**(tbl.parameters or {}), _LAST_CHANGE: str(tbl.createTime)}
        if tbl.tableType == "EXTERNAL_TABLE" and tbl.parameters.get("EXTERNAL") != "TRUE":
            # The parameter decides: files of such a table are the metastore's.
            tbl.tableType = "MANAGED_TABLE"
        self._of.entries[key] = tbl
        self._of.parts[key] = {}

    def alter_table_with_environment_context(self, dbname: str, tbl_name: str, new_tbl: Any, context: Any) -> None:
        key = (dbname.lower(), tbl_name.lower())
        if key not in self._of.entries:
            raise hms.InvalidOperationException(message=f"{key[0]}.{key[1]} table not found")
        old = self._of.entries[key]
        new_key = (new_tbl.dbName.lower(), new_tbl.tableName.lower())
        _check_name(new_key[1], hms.InvalidOperationException)
        if new_key != key and new_key in self._of.entries:
            raise hms.InvalidOperationException(message=f"new table {'.'.join(new_key)} already exists")
        if [(f.name, f.type) for f in old.partitionKeys] != [(f.name, f.type) for f in new_tbl.partitionKeys or []]:
            raise hms.InvalidOperationException(message="partition keys can not be changed.")
        _check_types(old.sd.cols, new_tbl.sd.cols)
        new_tbl.dbName, new_tbl.tableName = new_key
        for field in new_tbl.sd.cols:
            field.name = field.name.lower()
        new_tbl.sd.location = self._of.placed(new_tbl.sd.location, old.sd.location)
        new_tbl.parameters = {_LAST_CHANGE: str(int(time.time())), **(new_tbl.parameters or {})}
        parts = self._of.parts.pop(key)
        del self._of.entries[key]
        self._of.entries[new_key] = new_tbl
        self._of.parts[new_key] = parts
        for part in parts.values():
            part.dbName, part.tableName = new_key
            if context is not None and (context.properties or {}).get("CASCADE") == "true":
                part.sd.cols = copy.deepcopy(new_tbl.sd.cols)

    def drop_table(self, dbname: str, name: str, deleteData: bool) -> None:  # noqa: N803
        assert deleteData is False, "a sync never deletes data"
        key = self._of.found(dbname, name)
        del self._of.entries[key]
        del self._of.parts[key]

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        key = (db_name.lower(), tbl_name.lower())
        if key not in self._of.entries:
            reason = "Internal error processing get_partition_names"
            raise TApplicationException(TApplicationException.INTERNAL_ERROR, reason)
        names = sorted(_name_of(self._of.entries[key], values) for values in self._of.parts[key])
        return names if max_parts < 0 else names[:max_parts]

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        key = self._of.found(db_name, tbl_name)
        parts = self._of.parts[key]
        return [parts[values] for values in sorted(parts) if _name_of(self._of.entries[key], values) in names]

    def add_partitions_req(self, request: Any) -> Any:
        key = (request.dbName.lower(), request.tblName.lower())
        if key not in self._of.entries:
            reason = f"Unable to add partitions because database or table {'.'.join(key)} does not exist"
            raise hms.InvalidObjectException(message=reason)
        table, parts = self._of.entries[key], self._of.parts[key]
        new: dict[tuple[str, ...], Any] = {}
        for part in request.parts:
            values = tuple(part.values)
            if len(values) != len(table.partitionKeys):
                keys = "".join(f"{field.name}, " for field in table.partitionKeys)
                shown = "".join(f"{value}, " for value in values)
                raise hms.MetaException(message=f"Invalid partition key & values; keys [{keys}], values [{shown}]")
            if values in parts:
                if not request.ifNotExists:
                    raise hms.AlreadyExistsException(message=f"Partition already exists: {part}")
                continue
            if values in new:
                raise hms.MetaException(message=f"Duplicate partitions in the list: {part}")
            new[values] = part
        for values, part in new.items():
            part.sd.location = self._of.placed(part.sd.location, f"{table.sd.location}/{_name_of(table, values)}")
            part.createTime = int(time.time())
            part.parameters = {**(part.parameters or {}), _LAST_CHANGE: str(part.createTime)}
            parts[values] = part
        return hms.AddPartitionsResult(partitions=list(new.values()) if request.needResult is not False else None)

    def alter_partitions(self, db_name: str, tbl_name: str, new_parts: list[Any]) -> None:
        key = (db_name.lower(), tbl_name.lower())
        if key not in self._of.entries:
            reason = "Unable to alter partitions because table or database does not exist."
            raise hms.InvalidOperationException(message=reason)
        parts = self._of.parts[key]
        for part in new_parts:
            if tuple(part.values) not in parts:
                reason = f"NoSuchObjectException(message:partition values={part.values})"
                raise hms.InvalidOperationException(message=f"Alter partition operation failed: {reason}")
        for part in new_parts:
            # The location stays as it was given, and its folder is not made.
            part.parameters = {_LAST_CHANGE: str(int(time.time())), **(part.parameters or {})}
            parts[tuple(part.values)] = part

    def drop_partition(self, db_name: str, tbl_name: str, part_vals: list[str], deleteData: bool) -> bool:  # noqa: N803
        assert deleteData is False, "a sync never deletes data"
        key = self._of.found(db_name, tbl_name)
        if tuple(part_vals) not in self._of.parts[key]:
            raise hms.NoSuchObjectException(message="Partition doesn't exist. " + str(part_vals))
        del self._of.parts[key][tuple(part_vals)]
        return True


def _check_name(name: str, error: Any = hms.InvalidObjectException) -> None:
    if not re.fullmatch(r"\w+", name, re.ASCII):
        raise error(message=f"{name} is not a valid object name")


def _check_types(old: list[Any], new: list[Any]) -> None:
    wrong = [b.name for a, b in zip(old, new, strict=False) if not _is_convertible(a.type, b.type)]
    if wrong:
        raise hms.InvalidOperationException(
            message="The following columns have types incompatible with the existing columns in their respective "
            f"positions :\n{','.join(wrong)}"
        )


def _is_convertible(old: str, new: str) -> bool:
    first, second = (re.match(r"\w+", text)[0] for text in (old, new))  # type: ignore[index]
    if old == new or (first == second and first in (*_TEXTS, "decimal")):
        return True
    if second in _TEXTS:
        return first in (*_NUMBERS, *_TEXTS, "date", "timestamp")
    if first in _TEXTS:
        return second == "double"
    return first in _NUMBERS and second in _NUMBERS and _NUMBERS.index(first) <= _NUMBERS.index(second)


def _name_of(table: Any, values: tuple[str, ...]) -> str:
    return "/".join(
        f"{escape_partition_value(field.name.lower())}={escape_partition_value(value)}"
        for field, value in zip(table.partitionKeys, values, strict=True)
    )
