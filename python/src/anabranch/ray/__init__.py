"""Anabranch on a Ray cluster: a coordinator, and a worker on each Ray node.

Example:
    >>> import anabranch.ray
    >>> cluster = anabranch.ray.up(workers=4, slots=2, store="s3://bucket/anabranch")
    >>> cluster.submit("ads", open("ads.sql").read())
    >>> cluster.status().jobs
    (('ads', 'running'),)
    >>> cluster.down()

The same from a shell: ``python -m anabranch.ray up | submit | status | env | down``.
"""

from __future__ import annotations

from anabranch.errors import AnabranchError, OutsideError, RequestError
from anabranch.ray.api import Cluster, connect, down, status, submit, up
from anabranch.ray.settings import Status, WorkerStatus

__all__ = [
    "AnabranchError",
    "Cluster",
    "OutsideError",
    "RequestError",
    "Status",
    "WorkerStatus",
    "connect",
    "down",
    "status",
    "submit",
    "up",
]
