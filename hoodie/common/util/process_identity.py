"""Descriptions of processes, and whether a described process has ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PID_NAMESPACE = "/proc/self/ns/pid"
_TIME_NAMESPACE = "/proc/self/ns/time"
"""Two time namespaces may count the starts of processes from different moments."""
_START_FIELD = 22
"""The field of ``/proc/<pid>/stat``, counted from 1: the start of the process in ticks since that of the machine."""


def describe_process() -> dict[str, str]:
    """A description of this process that another process can compare; see `is_gone`.

    Returns:
        ``process`` (its number) and ``host``; on Linux also ``bootId``, ``pidNamespace``,
        ``timeNamespace`` (empty in an old kernel) and ``processStart``.
    """
    description = {"host": socket.gethostname(), "process": str(os.getpid())}
    boot_id, namespace, start = _boot_id(), _namespace(_PID_NAMESPACE), _start_and_state(os.getpid())
    if boot_id and namespace and start is not None:
        description |= {"bootId": boot_id, "pidNamespace": namespace, "processStart": start[0]}
        description["timeNamespace"] = _namespace(_TIME_NAMESPACE)
    return description


def is_gone(description: Mapping[str, Any]) -> bool:
    """Whether a described process has certainly ended.

    Args:
        description: The result of `describe_process` in that process.

    Returns:
        True only if the process ran since the last start of this machine, in the PID and the time namespace of this
        process, and no process with its number and start is alive. False for processes of another machine, another
        container or another program, because nothing is known about them.
    """
    boot_id, namespace, start = (
        description.get("bootId"),
        description.get("pidNamespace"),
        description.get("processStart"),
    )
    if not boot_id or not namespace or not start or (boot_id, namespace) != (_boot_id(), _namespace(_PID_NAMESPACE)):
        return False
    if description.get("timeNamespace") != _namespace(_TIME_NAMESPACE):
        return False
    number = str(description.get("process"))
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        return False
    try:
        # This works even if /proc hides processes of other users.
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        """It is alive and belongs to another user; the check below tells whether it is the same process."""
    found = _start_and_state(int(number))
    return found is not None and (found[0] != start or (found[1] in "ZX" and _thread_count(int(number)) <= 1))


def name_process(description: Mapping[str, Any]) -> str:
    """A described process, for a message: ``process 4711 on host a``."""
    text = f"process {description.get('process', '?')} on {description.get('host', 'an unknown host')}"
    return f"{text}, which is not running any more" if is_gone(description) else text


def _boot_id() -> str | None:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None


def _namespace(path: str) -> str:
    """The name of a namespace; empty if the system has none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _start_and_state(pid: int) -> tuple[str, str] | None:
    """Field 22 and field 3; None if there is no such process, or the system does not show it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            content = file.read()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may contain blanks and parentheses.
    fields = content.rpartition(")")[2].split()
    return (fields[_START_FIELD - 3], fields[0]) if len(fields) > _START_FIELD - 3 else None


def _thread_count(pid: int) -> int:
    """The number of threads of a process; its first thread may have ended before the others."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 2
