"""What the kernel knows about a process, and what is needed of ports."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process, of the user's code and the kernel's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def nice_values(pid: int) -> dict[int, int]:
    """The nice value of each thread of a process."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = os.getpriority(os.PRIO_PROCESS, int(task.name))
        except ProcessLookupError:
            continue
    return found


def free_port() -> int:
    """A TCP port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end_on_sigterm() -> None:
    """Lets SIGTERM end this program as an exception does, so that groups and processes are removed."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
