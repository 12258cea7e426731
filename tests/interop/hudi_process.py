"""The other side of `hudi_server.py`: starts it, sends commands, and takes rows as Arrow tables."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["HudiError", "HudiNotFoundError", "HudiProcess", "find_bundle", "find_python"]

REPOSITORY = Path(__file__).parents[2]
SERVER = Path(__file__).with_name("hudi_server.py")
TIMEOUT = 600.0
"""Seconds after which a command is given up."""
SHOWN_ERROR = 4000
SHOWN_LOG = 2000
COMMON_OPTIONS: Mapping[str, str] = {
    "hoodie.index.type": "SIMPLE",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}


class HudiNotFoundError(Exception):
    """There is no environment to run real Hudi in."""


class HudiError(Exception):
    """Real Hudi failed."""


def find_python() -> Path:
    """The interpreter of an environment with PySpark 3.5."""
    given = os.environ.get("HOODIE_HUDI_PYTHON")
    path = Path(given) if given else REPOSITORY / ".venv35" / "bin" / "python"
    if not path.exists():
        raise HudiNotFoundError(f"no interpreter with PySpark 3.5 at {path}: make interop, or set HOODIE_HUDI_PYTHON")
    return path


def find_bundle(version: str) -> Path:
    """The bundle jar of a Hudi version."""
    name = f"HOODIE_HUDI_BUNDLE_{'_'.join(version.split('.')[:2])}"
    artifact = "hudi-spark3.5-bundle_2.12"
    default = Path.home() / ".m2/repository/org/apache/hudi" / artifact / version / f"{artifact}-{version}.jar"
    path = Path(os.environ.get(name) or default)
    if not path.exists():
        raise HudiNotFoundError(f"no bundle of Hudi {version} at {path}: make interop, or set {name}")
    return path


class HudiProcess:
    """One JVM with one version of Hudi; starts with the first command.

    Args:
        version: ``0.15.0``, ``1.0.2`` or ``1.2.0``.
        work_folder: For the log and for files of rows.

    Attributes:
        table_version: The version of tables that it stays at.
        table_type: Of the tables that it makes.
    """

    def __init__(self, version: str, work_folder: Path) -> None:
        self.version = version
        self.table_version = 6
        self.table_type = "COPY_ON_WRITE"
        self._python = find_python()
        self._bundle = find_bundle(version)
        self._folder = work_folder
        self._log = work_folder / "hudi.log"
        self._process: subprocess.Popen[str] | None = None

    def for_tables_of(self, table_version: int, table_type: str = "COPY_ON_WRITE") -> HudiProcess:
        """This process, which stays at a version and a type of tables from now on."""
        self.table_version = table_version
        self.table_type = table_type
        return self

    def standing_options(self) -> dict[str, str]:
        """What keeps tables at their version and type, without a metadata table."""
        options = {"hoodie.metadata.enable": "false", "hoodie.datasource.write.table.type": self.table_type}
        if self.version != "0.15.0":
            options |= {
                "hoodie.write.table.version": str(self.table_version),
                "hoodie.write.auto.upgrade": "false",
            }
        return options

    def write(
        self,
        base_path: Path | str,
        rows: pa.Table,
        options: Mapping[str, str] | None = None,
        *,
        operation: str = "upsert",
        mode: str = "append",
        standing_options: bool = True,
    ) -> None:
        """Write rows; ``standing_options=False`` leaves out `standing_options`."""
        path = self._folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(rows, path, coerce_timestamps="us")
        given = {
            **COMMON_OPTIONS,
            **(self.standing_options() if standing_options else {}),
            "hoodie.datasource.write.operation": operation,
            **(options or {}),
        }
        self._call(command="write", base_path=str(base_path), rows=str(path), options=given, mode=mode)

    def stream(self, base_path: Path | str, source: Path, checkpoint: Path, options: Mapping[str, str]) -> None:
        """Write the Parquet files of a folder as a stream, one file a batch; a checkpoint folder is continued."""
        given = {**COMMON_OPTIONS, **self.standing_options(), **options}
        self._call(
            command="stream", base_path=str(base_path), source=str(source), checkpoint=str(checkpoint), options=given
        )

    def read(
        self, base_path: Path | str, options: Mapping[str, str] | None = None, condition: str | None = None
    ) -> pa.Table:
        """The rows of the table, meta columns included: all, or those that meet a condition of SQL."""
        folder = self._folder / uuid.uuid4().hex
        given = dict(options or {})
        self._call(command="read", base_path=str(base_path), rows=str(folder), options=given, condition=condition)
        return _rows_in(folder)

    def read_each(self, base_path: Path | str, queries: Sequence[Mapping[str, str]]) -> list[pa.Table | HudiError]:
        """The result of each query: all rows that it finds, meta columns included, or Hudi's error."""
        folder = self._folder / uuid.uuid4().hex
        given = [dict(options) for options in queries]
        errors = self._call(command="read_each", base_path=str(base_path), rows=str(folder), queries=given)
        return [
            _rows_in(folder / str(number)) if error is None else HudiError(_without_frames(error))
            for number, error in enumerate(errors)
        ]

    def read_stream(self, base_path: Path | str, checkpoint: Path) -> pa.Table:
        """Go on with a stream of the table's changes: the rows that came since the checkpoint folder was last used."""
        rows = checkpoint.with_name(f"{checkpoint.name}_rows")
        before = set(rows.glob("*.parquet"))
        self._call(
            command="read_stream", base_path=str(base_path), checkpoint=str(checkpoint), rows=str(rows), options={}
        )
        return pa.concat_tables([pq.ParquetFile(file).read() for file in sorted({*rows.glob("*.parquet")} - before)])

    def set_table_properties(self, base_path: Path | str, properties: Mapping[str, str]) -> None:
        """Store table properties with Hudi's own code."""
        self._call(command="set_table_properties", base_path=str(base_path), properties=dict(properties))

    def set_hadoop_property(self, name: str, value: str | None) -> None:
        """Change a setting of the JVM's Hadoop configuration, for all later writes."""
        self._call(command="set_hadoop_property", name=name, value=value)

    def hive_sync(self, base_path: Path | str, uri: str, properties: Mapping[str, str]) -> None:
        """Run ``HiveSyncTool`` by hand on a table, in mode ``hms``.

        Args:
            base_path: The table.
            uri: Of the metastore.
            properties: Options beside those that say where table and metastore are.
        """
        given = {
            "hoodie.datasource.meta.sync.base.path": str(base_path),
            "hoodie.datasource.hive_sync.mode": "hms",
            "hoodie.datasource.hive_sync.use_jdbc": "false",
            "hoodie.datasource.hive_sync.metastore.uris": uri,
            **properties,
        }
        self._call(command="hive_sync", base_path=str(base_path), uri=uri, properties=given)

    def rollback(self, base_path: Path | str, instant_time: str) -> bool:
        """Roll back a completed instant; whether that was done."""
        options = {**COMMON_OPTIONS, **self.standing_options()}
        done: bool = self._call(
            command="rollback", base_path=str(base_path), instant_time=instant_time, options=options
        )
        return done

    def index(self, base_path: Path | str, instant_time: str, options: Mapping[str, str]) -> bool:
        """Carry out a plan of indexing; whether something was built."""
        given = {**COMMON_OPTIONS, **self.standing_options(), **options}
        done: bool = self._call(command="index", base_path=str(base_path), instant_time=instant_time, options=given)
        return done

    def schedule_log_compaction(self, base_path: Path | str, options: Mapping[str, str]) -> str | None:
        """Plan a log compaction; its instant, if there is one."""
        given = {**COMMON_OPTIONS, **self.standing_options(), **options}
        planned: str | None = self._call(command="schedule_log_compaction", base_path=str(base_path), options=given)
        return planned

    def write_manifest(self, base_path: Path | str, *, absolute_paths: bool, by_metadata_table: bool) -> None:
        """Write the manifest of latest base files with Hudi's own code."""
        self._call(
            command="write_manifest",
            base_path=str(base_path),
            absolute_paths=absolute_paths,
            by_metadata_table=by_metadata_table,
        )

    def sql(self, text: str) -> Sequence[Sequence[str]]:
        """Run a statement; the values of its rows as strings."""
        result: Sequence[Sequence[str]] = self._call(command="sql", text=text)
        return result

    def archived_commits(self, base_path: Path | str) -> list[tuple[str, str]]:
        """Time and operation of the commits in the archived timeline, as Hudi reads it."""
        found = self._call(command="archived_commits", base_path=str(base_path))
        return [(time, operation) for time, operation in found]

    def instants(self, base_path: Path | str) -> dict[str, list[tuple[str, str]]]:
        """Time and action of completed instants, of the timelines ``active`` and ``archived``, as Hudi reads them."""
        found = self._call(command="instants", base_path=str(base_path))
        return {name: [(time, action) for time, action in instants] for name, instants in found.items()}

    def decode_avro(self, path: Path, class_name: str) -> dict[str, Any]:
        """A file of the timeline, read as an object of this class of Hudi."""
        decoded: dict[str, Any] = self._call(command="decode_avro", path=str(path), class_name=class_name)
        return decoded

    def read_hfile(self, path: Path, keys: Sequence[str], reader: str) -> dict[str, Any]:
        """An HFile as ``hbase``'s reader or ``hudi``'s own sees it.

        The result has ``entries`` (key, value in Base64), for each of the ascending ``keys`` whether it is ``found``,
        the ``schema`` and the ``bloom_filter``.
        """
        result: dict[str, Any] = self._call(command="read_hfile", path=str(path), keys=list(keys), reader=reader)
        return result

    def write_hfile(
        self, path: Path, entries: Sequence[tuple[str, bytes]], schema: str, writer: str, codec: str, block_bytes: int
    ) -> None:
        """Write an HFile by ``hbase``'s writer or ``hudi``'s own."""
        encoded = [(key, base64.b64encode(value).decode()) for key, value in entries]
        self._call(
            command="write_hfile", path=str(path), entries=encoded, schema=schema, writer=writer, codec=codec,
            block_bytes=block_bytes,
        )  # fmt: skip

    def bucket_hashes(self, keys: Sequence[tuple[str, str]]) -> list[int]:
        """Hash of each (hash fields, record key), as the simple bucket index makes it."""
        hashes: list[int] = self._call(command="bucket_hashes", keys=[list(key) for key in keys])
        return hashes

    def partition_values(self, extractor: str, paths: Sequence[str]) -> list[list[str] | None]:
        """The values of each path by one of Hudi's extractors; None where it raises an error."""
        found: list[list[str] | None] = self._call(command="partition_values", extractor=extractor, paths=list(paths))
        return found

    def curve_numbers(self, rows: pa.Table, columns: Sequence[str]) -> list[dict[str, tuple[str, int]]]:
        """For each row and column the 8 bytes of the Z-order, in hex, and the number of the Hilbert curve."""
        path = self._folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(rows, path)
        found: list[dict[str, tuple[str, int]]] = self._call(
            command="curve_numbers", rows=str(path), columns=list(columns)
        )
        return found

    def sorted_along_curve(self, rows: pa.Table, columns: Sequence[str], strategy: str) -> list[int]:
        """The values of the column ``number`` in the order in which a clustering puts the rows."""
        path = self._folder / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(rows, path)
        found: list[int] = self._call(
            command="sorted_along_curve", rows=str(path), columns=list(columns), strategy=strategy
        )
        return found

    def stop(self) -> None:
        """End the JVM."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._send({"command": "stop"})
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process = None

    def kill(self) -> None:
        """End the JVM at once, in the middle of what it does; the next command starts another one."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        process.kill()
        process.wait()

    def _call(self, **command: Any) -> Any:
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None:
            self._start()
        self._send(command)
        return self._receive(f"{command['command']} {command.get('base_path', '')}")

    def _start(self) -> None:
        foreign = ("PYTHON", "SPARK_", "PYSPARK_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        environment["LC_ALL"] = "C.UTF-8"  # Java takes the encoding of file names from it
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [str(self._python), str(SERVER), str(self._bundle), str(self._folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=self._folder,
            )  # fmt: skip
        self._receive("start")

    def _send(self, command: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _receive(self, doing: str) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = threading.Timer(TIMEOUT, self._process.kill)
        deadline.start()
        try:
            line = self._process.stdout.readline()
        finally:
            deadline.cancel()
        answer = json.loads(line) if line else {"ok": False, "error": "the process ended"}
        if not answer["ok"]:
            log = self._log.read_text(errors="replace")[-SHOWN_LOG:]
            error = _without_frames(answer["error"])
            raise HudiError(f"Hudi {self.version}: {doing}: {error}\n--- end of its log ---\n{log}")
        return answer["result"]


def _rows_in(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file).read() for file in sorted(folder.glob("*.parquet"))])


def _without_frames(error: str) -> str:
    """A Java error without its stack frames and the schemas that it prints: what is left says what went wrong."""
    lines = [line for line in error.splitlines() if not line.startswith(("\tat ", "\t...", "  ", "}"))]
    return "\n".join(lines)[-SHOWN_ERROR:]
