#!/usr/bin/env python3
"""Measures how soon `anabranch osched` writes after a queue has jumped.

A job of Anabranch runs on one core, below saturation. Then a process with the best nice value takes that core for a while, so that rows
wait before the job's tasks. The time counts from the moment at which that process spins until the nice value of one of the job's threads
is another one. So it contains the time in which the queue grows and the period of the policy.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from anabranch_engine import Job, configuration
from box import Box
from process import end_on_sigterm, nice_values
from scheduler import Scheduler

#: Takes the core for as many seconds as each line of its input says, and answers with the time at which it has it.
BURNER = """
import os, sys, time
os.setpriority(os.PRIO_PROCESS, 0, -20)
for line in sys.stdin:
    begun = time.monotonic()
    print(begun, flush=True)
    while time.monotonic() < begun + float(line):
        pass
"""
#: How long it takes the core, and the pause until the next time.
BURST_S, PAUSE_S = 0.5, 3.0
#: How long a nice value may take to change.
LIMIT_S = 5.0


def reaction_ms(job: Job, burner: subprocess.Popen[str]) -> float:
    """The time until the first write after a burst."""
    assert burner.stdin and burner.stdout
    before = nice_values(job.process.pid)
    burner.stdin.write(f"{BURST_S}\n")
    burner.stdin.flush()
    begun = float(burner.stdout.readline())
    while time.monotonic() < begun + LIMIT_S:
        if nice_values(job.process.pid) != before:
            return 1000 * (time.monotonic() - begun)
        time.sleep(0.001)
    raise RuntimeError(f"no nice value has changed {LIMIT_S:.0f} s after a burst")


def measure(args: argparse.Namespace, folder: Path) -> list[float]:
    """The reactions to all bursts."""
    with Box(1, pinned=True) as box:
        job = Job(args, "stages", args.rate, [], folder)
        burner = subprocess.Popen([sys.executable, "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        scheduler = None
        try:
            job.wait_until_ready()
            box.add(job.process.pid)
            box.add(burner.pid)
            command = [args.program, "osched", "run", "--quiet"]
            scheduler = Scheduler(command, configuration([job], args.policy), folder, [job.process.pid])
            found = []
            for _ in range(args.bursts):
                time.sleep(PAUSE_S)
                found.append(reaction_ms(job, burner))
            return found
        finally:
            burner.kill()
            burner.wait()
            if scheduler:
                scheduler.kill()
            job.kill()


def main() -> None:
    """Measures, and prints the median and the range."""
    end_on_sigterm()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the binary anabranch, a release build")
    parser.add_argument("--policy", default="queue-size@50ms:10..0", help="as those of measure.py")
    parser.add_argument("--rate", type=float, default=0.2, help="times the rate of the script")
    parser.add_argument("--bursts", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    print(f"from the burst until the write: median {statistics.median(found):.0f} ms ({min(found):.0f} to {max(found):.0f}), {len(found)} bursts")


if __name__ == "__main__":
    main()
