"""A small machine of its own for what is measured: a cpu group with high shares and a quota, or on one core (cgroup v1)."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
CPUSETS = Path("/sys/fs/cgroup/cpuset")
PERIOD_US = 10_000
#: Against 1,024 of everything else: what is in the box gets its quota also while the machine is busy.
SHARES = 100_000
#: While no quota holds, it shares the machine with everything else.
SHARES_OPEN = 1_024


class Box:
    """A group that gets at most so many cores. The program itself stays outside."""

    def __init__(self, cores: float, pinned: bool = False) -> None:
        """Creates the group.

        Args:
            cores: its quota, such as 0.6.
            pinned: its threads run on the machine's last core only, and there is no quota: a thread that waits then waits for
                another one, not for the end of a period.
        """
        if not (CPU_GROUPS / "cpu.shares").exists():
            raise SystemExit(f"{CPU_GROUPS}: there is no cpu controller of cgroup v1; the benchmark needs one, and root")
        self.cores = cores
        self.path = CPU_GROUPS / f"anabranch-bench-{os.getpid()}"
        self.cpuset = CPUSETS / self.path.name if pinned else None
        try:
            self.path.mkdir()
        except PermissionError as error:
            raise SystemExit(f"{self.path}: {error.strerror}; run the benchmark as root") from error
        self._write("cpu.cfs_period_us", PERIOD_US)
        if self.cpuset:
            self.cpuset.mkdir()
            last = max(os.sched_getaffinity(0))
            (self.cpuset / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
            (self.cpuset / "cpuset.cpus").write_text(str(last))
        self.close()

    def __enter__(self) -> Box:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def add(self, pid: int) -> None:
        """Moves a process with all its threads into the box."""
        self._write("cgroup.procs", pid)
        if self.cpuset:
            (self.cpuset / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """The quota holds."""
        if not self.cpuset:
            self._write("cpu.cfs_quota_us", round(self.cores * PERIOD_US))
        self._write("cpu.shares", SHARES)

    def open(self) -> None:
        """The quota does not hold: for starting, warming up and draining."""
        self._write("cpu.shares", SHARES_OPEN)
        self._write("cpu.cfs_quota_us", -1)

    def remove(self) -> None:
        """Removes the groups. Processes that are left in them, and groups that a scheduler left, go to the parent first."""
        for root, path in ((CPU_GROUPS, self.path), (CPUSETS, self.cpuset)):
            inner_first = sorted(path.rglob("cgroup.procs"), key=lambda file: -len(file.parts)) if path else []
            for group in (file.parent for file in inner_first):
                for pid in (group / "cgroup.procs").read_text().split():
                    try:
                        (root / "cgroup.procs").write_text(pid)
                    except ProcessLookupError:
                        continue
                group.rmdir()

    def _write(self, name: str, value: int) -> None:
        (self.path / name).write_text(str(value))
