"""Programs that run beside a test, in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start_program(program: str, *arguments: str, stderr: int | None = None) -> subprocess.Popen[str]:
    """Start a Python program with pipes to its standard input and output; it can import `hoodie` and `tests`.

    A shell starts what runs in its background with SIGINT ignored, and programs inherit that. This one always takes it.
    """
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
