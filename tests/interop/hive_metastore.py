"""The other side of `hive_metastore_server.py`: starts it, and knows its URI."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Self

from tests.interop.hudi_process import HudiError, find_python

__all__ = ["HiveMetastore"]

SERVER = Path(__file__).with_name("hive_metastore_server.py")
TIMEOUT = 300.0
"""Seconds until it is there: Derby makes its tables first."""
SHOWN_LOG = 2000


class HiveMetastore:
    """One JVM with the Hive Metastore 2.3 of PySpark 3.5; a context manager.

    Args:
        work_folder: For its database, its warehouse and its log.

    Attributes:
        uri: What clients connect to.
    """

    def __init__(self, work_folder: Path) -> None:
        self.uri = ""
        self._folder = work_folder
        self._python = find_python()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        foreign = ("PYTHON", "SPARK_", "PYSPARK_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        environment["LC_ALL"] = "C.UTF-8"  # Java takes the encoding of file names from it
        log_file = self._folder / "metastore.log"
        with log_file.open("w") as log:
            self._process = subprocess.Popen(
                [str(self._python), str(SERVER), str(self._folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=self._folder,
            )  # fmt: skip
        assert self._process.stdout is not None
        deadline = threading.Timer(TIMEOUT, self._process.kill)
        deadline.start()
        try:
            line = self._process.stdout.readline()
        finally:
            deadline.cancel()
        if not line:
            self.stop()
            raise HudiError(f"The Hive metastore did not start:\n{log_file.read_text(errors='replace')[-SHOWN_LOG:]}")
        self.uri = f"thrift://127.0.0.1:{json.loads(line)['port']}"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
