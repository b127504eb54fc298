"""What is refused before there is a cluster, and how commands say it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch.ray.__main__ import main
from anabranch.ray.host import Host, WorkerSpec


def test_a_ray_that_does_not_answer_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)
    line = [sys.executable, "-m", "anabranch.ray", "status"]
    none = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert none.returncode == 1
    assert none.stderr.startswith("error: no Ray cluster is reachable from this machine: ")
    assert none.stderr.endswith("  help: start one with `ray start --head`, and give its address, or set RAY_ADDRESS\n")


@pytest.mark.parametrize(
    "arguments", [["up"], ["up", "--store", "s", "--env", "x"], ["submit"], ["submit", "f", "--option", "a=b"], ["fly"]]
)
def test_wrong_command_lines_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: python -m anabranch.ray" in capsys.readouterr().err


def test_a_file_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", str(tmp_path / "missing.sql")]) == 2
    assert "missing.sql: cannot be read" in capsys.readouterr().err


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(anabranch.PROGRAM_VARIABLE, "/missing/anabranch")
    with pytest.raises(anabranch.OutsideError, match="/missing/anabranch: this is no program\n  help: name an executable file"):
        anabranch.program()


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "coordinators").mkdir()
    (tmp_path / "coordinators/0000000001.json").write_text("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ended = Host(WorkerSpec(f"127.0.0.1:{port}", "w", "n", 1, str(tmp_path), "", "0123456789abcdef")).run()
    assert "refused" in ended.reason
    assert not ended.is_refused, "the coordinator may come back"
