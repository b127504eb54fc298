"""The wheel in a new environment, without Ray."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import anabranch

PACKAGE = Path(__file__).parents[1]


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [str(part) for part in command]
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ANABRANCH_PROGRAM")}
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd="/", env={**kept, **environment})


def test_the_wheel_contains_the_program_and_says_that_ray_is_missing(tmp_path: Path) -> None:
    # The program that the tests have: `make test-python` has built it, so cargo has nothing to do.
    target = anabranch.program().parents[1]
    maturin = Path(sys.executable).with_name("maturin")
    # It links the system's OpenSSL, unlike the one that users get: its libraries are not copied into this wheel.
    build = ["build", "--quiet", "--locked", "--profile", "dev", "--auditwheel", "skip", "--compression-level", "1", "--out", tmp_path]
    built = subprocess.run(
        [str(part) for part in (maturin, *build)],
        cwd=PACKAGE,
        env={**os.environ, "CARGO": str(PACKAGE / "cargo.sh"), "CARGO_TARGET_DIR": str(target)},
        check=False,
    )
    assert built.returncode == 0
    (wheel,) = tmp_path.glob("anabranch-*.whl")
    version = re.search(r'^version = "(.+)"', (PACKAGE.parent / "Cargo.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert wheel.name.startswith(f"anabranch-{version[1]}-py3-none-")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"anabranch/py.typed", "anabranch/ray/__main__.py"} <= set(names)

    environment = tmp_path / "environment"
    assert run(sys.executable, "-m", "venv", environment).returncode == 0
    python = environment / "bin/python"
    installed = run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    assert installed.returncode == 0, installed.stderr
    shown = run(environment / "bin/anabranch", "--version")
    assert shown.stdout == f"anabranch {version[1]}\n"
    found = run(python, "-c", "import anabranch; print(anabranch.__version__, anabranch.program())")
    assert found.stdout == f"{version[1]} {environment}/bin/anabranch\n"
    without = run(python, "-m", "anabranch.ray", "status")
    assert (without.returncode, without.stderr.splitlines()) == (
        2,
        ["error: Ray is not installed: No module named 'ray'", "  help: pip install 'anabranch[ray]'"],
    )
