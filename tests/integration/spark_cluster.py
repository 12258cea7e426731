"""A real Spark cluster of this machine: a standalone master and two workers on two hosts.

`local[n]` loses no executor and never speculates: a second attempt of a task wants another host. Here the hosts are
127.0.0.2 and 127.0.0.3, one core each.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

__all__ = ["StandaloneCluster", "standalone_cluster"]

REPOSITORY = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.2", "127.0.0.3")
START_SECONDS = 240
MASTER_URL = re.compile(r"spark://127\.0\.0\.1:\d+")
OPENED_PACKAGES = (
    *("java.base/" + name for name in ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util")),
    *("java.base/" + name for name in ("java.util.concurrent", "sun.nio.ch", "sun.security.action")),
)
CONFIGURATION = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.locality.wait": "0",
    # A second attempt for what runs much longer than the tests' tasks do, as soon as half of the others have ended.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "6s",
    # Attempts that lost live on for a while, as they do where a machine does not answer.
    "spark.python.task.killTimeout": "60s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.shuffle.io.connectionTimeout": "15s",
    "spark.sql.shuffle.partitions": "4",
    # What many rows do anywhere: a task that moves more rows than these writes them to disk first.
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    "spark.shuffle.spill.numElementsForceSpillThreshold": "5000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


class StandaloneCluster:
    """A master, its workers, and a session of theirs.

    Args:
        session: The session.
        workers: Host to the worker's process.
        local_folders: Where executors keep shuffle files.
    """

    def __init__(
        self, session: SparkSession, workers: dict[str, subprocess.Popen[bytes]], local_folders: tuple[str, ...]
    ) -> None:
        self.session = session
        self.local_folders = local_folders
        self._workers = workers

    def kill_executor(self, host: str) -> None:
        """Kill the executor of a host with everything it holds; its worker starts another."""
        killed = self.executors(host)
        assert killed, f"no executor on {host}"
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS
        while not set(self.executors(host)) - set(killed):
            assert time.monotonic() < deadline, f"no new executor on {host}"
            time.sleep(0.05)

    def executors(self, host: str) -> list[int]:
        """Process ids of a host's executors."""
        parent = self._workers[host].pid
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _parent_of(entry) == parent and b"CoarseGrained" in _command_line(entry)
        ]

    def python_workers(self, host: str) -> list[int]:
        """Process ids of the Python workers of a host: children of the daemon that its executor started."""
        executors = set(self.executors(host))
        daemons = {pid for pid in _python_processes() if _parent_of(Path(f"/proc/{pid}")) in executors}
        return [pid for pid in _python_processes() if _parent_of(Path(f"/proc/{pid}")) in daemons]

    def wait_for_executors(self) -> None:
        """Until both executors have registered with the driver."""
        tracker = self.session.sparkContext._jsc.sc().statusTracker()
        deadline = time.monotonic() + START_SECONDS
        while len(tracker.getExecutorInfos()) < 1 + len(HOSTS):
            assert time.monotonic() < deadline, "the executors did not start"
            time.sleep(0.05)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """Start a cluster and a session of it; all of it is stopped in the end. There must be no other session.

    Args:
        folder: For logs and the workers' files.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        processes.append(_start("master.Master", log, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        url = _wait_for(MASTER_URL, log)
        workers = {}
        for host in HOSTS:
            arguments = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work = ["--work-dir", str(folder / host)]
            workers[host] = _start("worker.Worker", folder / f"{host}.log", *arguments, *work, url)
            processes.append(workers[host])
        for host in HOSTS:
            _wait_for(re.compile("Successfully registered with master"), folder / f"{host}.log")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(url).appName("hoodie cluster tests")
        for key, value in CONFIGURATION.items():
            builder = builder.config(key, value)
        builder = builder.config("spark.executorEnv.PYTHONPATH", str(REPOSITORY))
        session = builder.getOrCreate()
        try:
            session.sparkContext.setLogLevel("OFF")
            cluster = StandaloneCluster(session, workers, tuple(str(folder / f"{host}.local") for host in HOSTS))
            cluster.wait_for_executors()
            yield cluster
        finally:
            session.stop()
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _start(main_class: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    java_home = os.environ.get("JAVA_HOME")
    java = f"{java_home}/bin/java" if java_home else "java"
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    core = next((SPARK_HOME / "jars").glob("spark-core_*.jar")).name
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": core.removeprefix("spark-core_").partition("-")[0],
        "SPARK_LOCAL_DIRS": str(log).removesuffix(".log") + ".local",
    }
    class_path = f"{SPARK_HOME}/jars/*"
    with log.open("wb") as output:
        return subprocess.Popen(
            [java, "-Xmx256m", *opened, "-cp", class_path, f"org.apache.spark.deploy.{main_class}", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )


def _wait_for(pattern: re.Pattern[str], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (found := pattern.search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, f"{pattern.pattern} is not in {log}:\n{log.read_text()[-2000:]}"
        time.sleep(0.05)
    return found.group()


def _parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _python_processes() -> list[int]:
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in entries if b"pyspark.daemon" in _command_line(entry)]


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
