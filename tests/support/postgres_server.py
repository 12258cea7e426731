"""A PostgreSQL of its own for tests, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PASSWORD", "find_postgres", "running_postgres"]

PASSWORD = "pa55-of-tests"
_SECONDS_TO_START = 60


def find_postgres() -> Path | None:
    """The folder of PostgreSQL's programs, None where it is not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@contextmanager
def running_postgres(programs: Path) -> Iterator[str]:
    """Start a server that listens at a socket only; gives its URL.

    Args:
        programs: The folder of initdb and postgres.
    """
    # The path of a socket must be short, so not below pytest's folder. The server refuses to be run by root.
    folder = Path(tempfile.mkdtemp(prefix="hoodie-pg-"))
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    (folder / "password").write_text(PASSWORD)
    os.chmod(folder / "password", 0o644)
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off", "max_connections": "50"}
    try:
        initdb = [programs / "initdb", "-D", data, "-U", "hoodie", "--auth=scram-sha-256", "-E", "UTF8"]
        initdb += [f"--pwfile={folder / 'password'}", "--no-sync"]
        done = subprocess.run(initdb, user=user, env=environment, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        command = [str(programs / "postgres"), "-D", str(data)]
        command += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, user=user, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            end = time.monotonic() + _SECONDS_TO_START
            ready = [programs / "pg_isready", "-h", folder, "-q"]
            while subprocess.run(ready, env=environment).returncode != 0:
                assert server.poll() is None and time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.05)
            yield f"postgresql://hoodie:{PASSWORD}@/postgres?host={folder}"
        finally:
            # Fast shutdown: the other one waits for clients that forgot to leave.
            server.send_signal(signal.SIGINT)
            server.wait(_SECONDS_TO_START)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
