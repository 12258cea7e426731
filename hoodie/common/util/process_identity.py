"""Which process this is, and whether another one that said so is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

__all__ = ["describe_process", "is_gone", "name_process"]

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PID_NAMESPACE = "/proc/self/ns/pid"
_TIME_NAMESPACE = "/proc/self/ns/time"
"""Of two of them one may count the starts of processes from another moment than the other."""
_START_FIELD = 22
"""Of ``/proc/<pid>/stat``, counted from 1: when the process began, in ticks since the machine did."""


def describe_process() -> dict[str, str]:
    """This process, in words that another one can compare; see `is_gone`.

    Returns:
        ``process`` (its number) and ``host``; where the system tells (Linux), also ``bootId``, ``pidNamespace``,
        ``timeNamespace`` (empty in an old kernel) and ``processStart``.
    """
    told = {"host": socket.gethostname(), "process": str(os.getpid())}
    boot_id, namespace, start = _boot_id(), _namespace(_PID_NAMESPACE), _start_and_state(os.getpid())
    if boot_id and namespace and start is not None:
        told |= {"bootId": boot_id, "pidNamespace": namespace, "processStart": start[0]}
        told["timeNamespace"] = _namespace(_TIME_NAMESPACE)
    return told


def is_gone(told: Mapping[str, Any]) -> bool:
    """Whether a process that described itself has certainly ended.

    Args:
        told: What `describe_process` gave it.

    Returns:
        True only where it ran since the last start of this very machine, in the PID and the time namespace of this
        process, and no process of its number and start lives. Of another machine, another container or another program
        nothing is known: False.
    """
    boot_id, namespace, start = told.get("bootId"), told.get("pidNamespace"), told.get("processStart")
    if not boot_id or not namespace or not start or (boot_id, namespace) != (_boot_id(), _namespace(_PID_NAMESPACE)):
        return False
    if told.get("timeNamespace") != _namespace(_TIME_NAMESPACE):
        return False
    number = str(told.get("process"))
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        return False
    try:
        # Where /proc hides processes of other users, this still sees them.
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        """It lives, and is another user's; what follows tells whether it is the same one."""
    found = _start_and_state(int(number))
    return found is not None and (found[0] != start or (found[1] in "ZX" and _thread_count(int(number)) <= 1))


def name_process(told: Mapping[str, Any]) -> str:
    """A process that described itself, for a message: ``process 4711 on host a``."""
    text = f"process {told.get('process', '?')} on {told.get('host', 'an unknown host')}"
    return f"{text}, which is not running any more" if is_gone(told) else text


def _boot_id() -> str | None:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None


def _namespace(path: str) -> str:
    """Empty where the system has none."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _start_and_state(pid: int) -> tuple[str, str] | None:
    """Field 22 and field 3; None where there is no such process, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            content = file.read()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold blanks and parentheses.
    fields = content.rpartition(")")[2].split()
    return (fields[_START_FIELD - 3], fields[0]) if len(fields) > _START_FIELD - 3 else None


def _thread_count(pid: int) -> int:
    """Threads of a process; its first one may have ended before the others."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 2
