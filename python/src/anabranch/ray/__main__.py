"""``python -m anabranch.ray``: a cluster on Ray from a shell.

Exit codes are those of ``anabranch``: 2 if the request is wrong, 1 if something failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from anabranch.errors import AnabranchError, RequestError
from anabranch.ray import api
from anabranch.ray.settings import Status


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line. Returns the exit code."""
    given = parser().parse_args(arguments)
    try:
        given.run(given)
    except AnabranchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, RequestError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    parser = argparse.ArgumentParser(prog="python -m anabranch.ray", description="Anabranch on a Ray cluster.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--name", default=api.NAME, help=f"name of the cluster; {api.NAME} unless given")
    where.add_argument("--address", help="Ray's address; else RAY_ADDRESS, else the Ray cluster of this machine")

    up = commands.add_parser("up", parents=[where], help="bring a cluster up: a coordinator, and a worker on each Ray node")
    up.add_argument("--store", required=True, metavar="PLACE", help="a folder that all nodes have, or a place in an object store")
    up.add_argument("--workers", type=int, metavar="N", help="how many nodes get a worker; all unless given")
    up.add_argument("--slots", type=int, metavar="N", help="tasks of one stage per worker; one per CPU unless given")
    up.add_argument("--cpus", type=float, metavar="N", help="Ray CPUs per worker; as many as slots unless given")
    up.add_argument("--env", action="append", default=[], type=_pair, metavar="NAME=VALUE", help="variable of all processes; repeatable")
    up.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="time for all to run; 60 unless given")
    up.set_defaults(run=_up)

    submit = commands.add_parser("submit", parents=[where], help="send a file's INSERT INTO statements as one job")
    submit.add_argument("file", type=Path, help="file of SQL statements")
    submit.add_argument("--job", help="name of the job; the file's name without its ending unless given")
    submit.add_argument("--parallelism", type=int, metavar="N", help="tasks per stage")
    submit.add_argument("--set", action="append", default=[], type=_pair, metavar="NAME=VALUE", help="option of the job; repeatable")
    submit.add_argument("--option", action="append", default=[], type=_option, metavar="TABLE.OPTION=VALUE", help="of a table; repeatable")
    submit.set_defaults(run=_submit)

    status = commands.add_parser("status", parents=[where], help="show coordinator, workers and jobs")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=lambda given: print(_status(api.status(given.name, address=given.address), given.json)))

    env = commands.add_parser(
        "env", parents=[where], help="print variables for anabranch jobs, show, stop and so on, the secret among them"
    )
    env.add_argument(
        "--folder", type=Path, help="where the certificate of the cluster's authority is written; ~/.anabranch/NAME unless given"
    )
    env.set_defaults(run=_env)

    down = commands.add_parser("down", parents=[where], help="stop all jobs at the end of an epoch, and end the cluster")
    down.set_defaults(run=_down)
    return parser


def _up(given: argparse.Namespace) -> None:
    cluster = api.up(
        given.workers,
        given.slots,
        store=given.store,
        name=given.name,
        cpus=given.cpus,
        environment=dict(given.env),
        address=given.address,
        timeout_s=given.timeout,
    )
    print(_status(cluster.status(), as_json=False))


def _submit(given: argparse.Namespace) -> None:
    try:
        sql = given.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{given.file}: cannot be read: {error}", "give a file of SQL statements") from error
    settings = dict(given.set)
    if given.parallelism is not None:
        settings["parallelism"] = str(given.parallelism)
    options: dict[str, dict[str, str]] = {}
    for table, name, value in given.option:
        options.setdefault(table, {})[name] = value
    job = given.job or given.file.stem
    api.submit(job, sql, name=given.name, address=given.address, settings=settings, options=options)
    print(f"job {job} was submitted; python -m anabranch.ray status shows it")


def _env(given: argparse.Namespace) -> None:
    for name, value in api.connect(given.name, address=given.address).environment(given.folder).items():
        print(f"export {name}={shlex.quote(value)}")


def _down(given: argparse.Namespace) -> None:
    api.down(given.name, address=given.address)
    print(f"cluster {given.name} is down; its jobs resume in the next one with its store")


def _status(status: Status, as_json: bool) -> str:
    if as_json:
        return json.dumps(dataclasses.asdict(status), indent=2)
    lines = [f"cluster {status.name}: coordinator {status.coordinator}" + (f" at {status.url}" if status.url else "")]
    lines += [f"  {status.problem}"] * bool(status.problem)
    lines += [f"store {status.store}"]
    wanted = "one on each node" if status.wanted is None else f"{status.wanted} wanted"
    running = sum(worker.state == "running" for worker in status.workers)
    lines += [f"workers: {running} of {len(status.workers)} run, {wanted}"]
    for worker in status.workers:
        again = f", started {worker.starts} times" if worker.starts > 1 else ""
        lines += [f"  {worker.name}  {worker.address}  {worker.state}  {worker.tasks} tasks, {worker.slots} slots{again}"]
        lines += [f"    {worker.problem}"] * bool(worker.problem)
    if status.missing:
        lines += [f"  {status.missing} more wait for Ray nodes with enough CPUs"]
    lines += ["jobs:" if status.jobs else "jobs: none; python -m anabranch.ray submit FILE.sql"]
    lines += [f"  {name}  {state}" for name, state in status.jobs]
    return "\n".join(lines)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}': give NAME=VALUE")
    return name, value


def _option(text: str) -> tuple[str, str, str]:
    name, equals, value = text.partition("=")
    table, point, option = name.partition(".")
    if not (table and point and option and equals):
        raise argparse.ArgumentTypeError(f"'{text}': give TABLE.OPTION=VALUE")
    return table, option, value


if __name__ == "__main__":
    sys.exit(main())
