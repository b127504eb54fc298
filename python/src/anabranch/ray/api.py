"""The functions of :mod:`anabranch.ray`."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import OutsideError, RequestError
from anabranch.ray.settings import NAMESPACE, TOKEN_VARIABLE, Settings, Status

if TYPE_CHECKING:
    from anabranch.ray.client import Answer, Client

#: The name of a cluster that has no other.
NAME = "anabranch"
_LOOK_S = 0.2
#: Seconds in which the supervisor answers.
_ANSWER_S = 30.0
#: Seconds in which a cluster ends: its coordinator has 40, its workers 10.
_DOWN_S = 75.0
#: Seconds in which Ray gives a name free after its actor has ended.
_NAME_S = 15.0
#: The resource that only Ray's head node has, whichever it is.
_HEAD = "node:__internal_head__"


class Cluster:
    """A cluster that is up.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, supervisor: Any) -> None:
        """For :func:`up` and :func:`connect`."""
        self.name = name
        self._supervisor = supervisor

    def submit(
        self,
        job: str,
        sql: str,
        *,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Sends statements as one job.

        Args:
            job: Name of the job: letters, digits, hyphens, underscores.
            sql: The statements: tables and ``INSERT INTO``.
            settings: Options of the job by their names, such as ``{"parallelism": "4"}``.
            options: Options of tables that override their ``WITH``: ``{"events": {"topic": "ads"}}``.

        Raises:
            RequestError: The statements or the name are wrong, or there is such a job.
            OutsideError: The coordinator does not answer, or cannot write the job to its store.
        """
        tables = [
            {"table": table, "name": name, "value": value} for table, pairs in (options or {}).items() for name, value in pairs.items()
        ]
        order = {"name": job, "sql": sql, "settings": dict(settings or {}), "options": tables}
        _checked(self._ask("request", "POST", "/api/v1/jobs", order))

    def stop(self, job: str) -> None:
        """Requests the stop of a job at the end of an epoch, with a checkpoint.

        Raises:
            RequestError: There is no such job, or it does not run.
            OutsideError: The coordinator does not answer.
        """
        _checked(self._ask("request", "POST", f"/api/v1/jobs/{job}/stop"))

    def status(self) -> Status:
        """Returns what there is: coordinator, workers, jobs.

        Raises:
            OutsideError: The supervisor does not answer.
        """
        answer = self._ask("status")
        assert isinstance(answer, Status)
        return answer

    def environment(self, folder: Path | None = None) -> dict[str, str]:
        """Returns variables with which ``anabranch jobs`` and the other commands find this cluster, its secret among them.

        Args:
            folder: Where a file with the certificate of the cluster's authority is written; ``None`` for ``~/.anabranch/NAME``.

        Raises:
            OutsideError: The supervisor does not answer, or the coordinator has not started.
        """
        client: Client | None = self._ask("client")
        if client is None:
            raise OutsideError("the coordinator has not started yet", "ask again, or see status")
        variables = {"ANABRANCH_COORDINATOR": client.url, TOKEN_VARIABLE: client.token}
        if client.authority:
            folder = folder or Path.home() / ".anabranch" / self.name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = folder / "ca.pem"
            file.write_text(client.authority)
            variables["ANABRANCH_TLS_CA"] = str(file)
        return variables

    def down(self) -> None:
        """Stops all jobs at the end of an epoch, and ends all processes and actors. Another cluster with this store resumes the jobs.

        Raises:
            OutsideError: Ray does not end the supervisor.
        """
        ray = _ray()
        # If it does not answer, its processes end with it.
        with contextlib.suppress(OutsideError):
            self._ask("down", timeout_s=_DOWN_S)
        ray.kill(self._supervisor, no_restart=True)
        end_s = time.monotonic() + _NAME_S
        while _find(self.name) is not None:
            if time.monotonic() > end_s:
                raise OutsideError(f"Ray has not ended the actor '{self.name}' within {_NAME_S:g} s", "see ray status, and try again")
            time.sleep(_LOOK_S)

    def _ask(self, method: str, *arguments: object, timeout_s: float = _ANSWER_S) -> Any:
        ray = _ray()
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                return ray.get(getattr(self._supervisor, method).remote(*arguments), timeout=max(0.0, end_s - time.monotonic()))
            except ray.exceptions.RayTaskError as error:
                raise getattr(error, "cause", None) or error from None
            except ray.exceptions.GetTimeoutError:
                raise OutsideError(
                    f"the supervisor of cluster '{self.name}' has not answered within {timeout_s:g} s",
                    "Ray restarts it if its node is lost: ask again; `ray status` shows the nodes",
                ) from None
            except ray.exceptions.ActorUnavailableError as error:
                # A request may have been carried out: only its sender knows whether it may be sent again.
                if method == "request":
                    raise OutsideError(
                        f"the supervisor of cluster '{self.name}' is restarted by Ray; the request may have been carried out or not",
                        "see status, and try again",
                    ) from error
                time.sleep(_LOOK_S)
            except ray.exceptions.RayError as error:
                raise OutsideError(
                    f"the supervisor of cluster '{self.name}' is lost: {_first_line(error)}", "bring the cluster up again"
                ) from error


def up(
    workers: int | None = None,
    slots: int | None = None,
    *,
    store: str,
    name: str = NAME,
    cpus: float | None = None,
    environment: Mapping[str, str] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    address: str | None = None,
    timeout_s: float = 60.0,
) -> Cluster:
    """Brings a cluster up: a coordinator, and one worker on each of so many Ray nodes.

    The cluster lives until :func:`down`, also without this process. It follows nodes that join, leave or die.

    Args:
        workers: How many nodes get a worker; ``None`` for all, also those that join later.
        slots: Tasks of one stage that a worker may have; ``None`` for one per Ray CPU of its node.
        store: Where jobs and their checkpoints are: a folder that all nodes have under the same name, or a place in an object store.
        name: Name of the cluster among the actors of Ray's namespace ``anabranch``.
        cpus: Ray CPUs that a worker takes; ``None`` for as many as it has slots.
        environment: Variables for the coordinator and the workers, such as the keys of an object store.
        runtime_env: Ray's runtime environment for the actors, which need this package on every node.
        address: Ray's address, unless this process is connected already; ``None`` for the variable ``RAY_ADDRESS``, else the Ray cluster
            of this machine.
        timeout_s: Seconds within which the coordinator and the workers on all chosen nodes must run.

    Returns:
        The cluster. Its status says whether nodes are missing.

    Raises:
        RequestError: An argument is wrong, the name is taken, no node has enough CPUs, or a worker does not reach the store.
        OutsideError: Ray is not reachable, or the cluster does not run in time. Nothing of it is left.
    """
    for what, value in (("workers", workers), ("slots", slots)):
        if value is not None and value < 1:
            raise RequestError(f"{what}={value}: at least one is needed", f"give {what} a number from 1 on, or leave it out")
    if cpus is not None and cpus < 0:
        raise RequestError(f"cpus={cpus}: a worker cannot take a negative number of CPUs", "give 0 or more")
    ray = _connected(address)
    settings = Settings(
        name=name,
        store=store if "://" in store else str(Path(store).absolute()),
        token=secrets.token_urlsafe(32),
        workers=workers,
        slots=slots,
        cpus=cpus,
        environment=dict(environment or {}),
    )
    _check_nodes(settings)
    cluster = Cluster(name, _create(ray, settings, runtime_env))
    try:
        _wait(cluster, timeout_s)
    except BaseException:
        cluster.down()
        raise
    return cluster


def connect(name: str = NAME, *, address: str | None = None) -> Cluster:
    """Finds a cluster that is up.

    Args:
        name: Its name.
        address: As for :func:`up`.

    Raises:
        RequestError: There is no such cluster.
        OutsideError: Ray is not reachable.
    """
    ray = _connected(address)
    supervisor = _find(name)
    if supervisor is None:
        others = sorted(each["name"] for each in ray.util.list_named_actors(all_namespaces=True) if each["namespace"] == NAMESPACE)
        known = f"the clusters are: {', '.join(others)}" if others else "bring one up with anabranch.ray.up"
        raise RequestError(f"there is no cluster '{name}' on this Ray", known)
    return Cluster(name, supervisor)


def submit(job: str, sql: str, *, name: str = NAME, address: str | None = None, **more: Any) -> None:
    """Sends statements as one job to a cluster. See :func:`connect` and :meth:`Cluster.submit`."""
    connect(name, address=address).submit(job, sql, **more)


def status(name: str = NAME, *, address: str | None = None) -> Status:
    """Returns the status of a cluster. See :func:`connect` and :meth:`Cluster.status`."""
    return connect(name, address=address).status()


def down(name: str = NAME, *, address: str | None = None) -> None:
    """Ends a cluster. See :func:`connect` and :meth:`Cluster.down`."""
    connect(name, address=address).down()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise RequestError(f"Ray is not installed: {error}", "pip install 'anabranch[ray]'") from error
    return ray


def _connected(address: str | None) -> Any:
    ray = _ray()
    if not ray.is_initialized():
        try:
            ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = f"at {address}" if address else "from this machine"
            raise OutsideError(
                f"no Ray cluster is reachable {where}: {_first_line(error)}",
                "start one with `ray start --head`, and give its address, or set RAY_ADDRESS",
            ) from error
    return ray


def _check_nodes(settings: Settings) -> None:
    from anabranch.ray.supervisor import living_nodes

    nodes = living_nodes()
    if not any(node.cpus >= settings.cpus_of(node.cpus) for node in nodes):
        largest = max((node.cpus for node in nodes), default=0.0)
        wanted = settings.cpus_of(largest)
        raise RequestError(
            f"a worker takes {wanted:g} CPUs, and the largest Ray node has {largest:g}",
            "give slots or cpus a smaller number, or add larger nodes",
        )


def _create(ray: Any, settings: Settings, runtime_env: Mapping[str, Any] | None) -> Any:
    from anabranch.ray.supervisor import Supervisor

    taken = RequestError(
        f"there is a cluster '{settings.name}' already", "use it (connect, status), end it with down, or choose another name"
    )
    if _find(settings.name) is not None:
        raise taken
    options: dict[str, Any] = {
        "name": settings.name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        # An actor without any resource is placed at random, whatever affinity it has.
        "resources": {_HEAD: 0.001},
        # With its store a restarted supervisor resumes all jobs. The store lets the older of two coordinators write nothing.
        "max_restarts": -1,
        "max_concurrency": 8,
    }
    if runtime_env is not None:
        options["runtime_env"] = dict(runtime_env)
    try:
        return ray.remote(Supervisor).options(**options).remote(settings)
    except ValueError as error:
        if "already" in str(error):
            raise taken from error
        raise


def _find(name: str) -> Any:
    try:
        return _ray().get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _wait(cluster: Cluster, timeout_s: float) -> None:
    """Waits until the coordinator and all workers run."""
    end_s = time.monotonic() + timeout_s
    while True:
        seen = cluster.status()
        if seen.coordinator in ("refused", "failed"):
            kind = RequestError if seen.coordinator == "refused" else OutsideError
            raise kind(*_parts(f"the coordinator does not start: {seen.problem}"))
        for worker in seen.workers:
            if worker.state == "refused":
                raise RequestError(*_parts(f"worker {worker.name} on node {worker.address} does not start: {worker.problem}"))
        if seen.coordinator == "running" and seen.workers and all(worker.state == "running" for worker in seen.workers):
            return
        if time.monotonic() > end_s:
            problems = [
                f"worker {each.name} on node {each.address} is {each.state}: {each.problem}"
                for each in seen.workers
                if each.state != "running"
            ]
            if seen.coordinator != "running" or seen.problem:
                problems.insert(0, f"the coordinator is {seen.coordinator}: {seen.problem}")
            raise OutsideError(
                f"the cluster does not run after {timeout_s:g} s: " + "; ".join(problems or ["no node has a worker"]),
                "see Ray's logs of the actors, or give it more time (timeout_s)",
            )
        time.sleep(_LOOK_S)


def _checked(answer: Answer) -> None:
    if answer.status < 300:
        return
    body = answer.body if isinstance(answer.body, dict) else {}
    text = body.get("text") or ": ".join(filter(None, [body.get("place"), body.get("error")])) or f"HTTP status {answer.status}"
    if answer.status in (400, 404, 409):
        raise RequestError(text.removeprefix("error: ").rstrip(), "" if body.get("text") else body.get("remedy") or "")
    raise OutsideError(text, body.get("remedy") or "")


def _parts(text: str) -> tuple[str, str]:
    """Divides what the program says into message and remedy."""
    message, _, remedy = text.partition("help: ")
    return message.strip(), remedy.strip()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
