"""A job whose rows can be counted."""

from __future__ import annotations

from pathlib import Path

from anabranch.ray import Cluster

SETTINGS = {"checkpoint-interval": "100 ms", "parallelism": "2"}


def script(folder: Path, rows: int | None = None, per_second: int = 4000) -> str:
    """Events into files: so many rows, or without an end."""
    count = "" if rows is None else f", 'number-of-rows' = '{rows}'"
    return f"""
        CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events', 'seed' = '1',
          'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '{per_second}'{count});
        CREATE TABLE out_rows (ad_id STRING, event_time BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/out',
          'format' = 'csv');
        INSERT INTO out_rows SELECT ad_id, event_time FROM events;"""


def rows(folder: Path) -> int:
    """Rows that are visible in the files of the job."""
    return sum(len(file.read_text().splitlines()) for file in (folder / "out").glob("*.csv"))


def state(cluster: Cluster, job: str) -> str:
    """The state of a job, as the status has it."""
    return dict(cluster.status().jobs).get(job, "")
