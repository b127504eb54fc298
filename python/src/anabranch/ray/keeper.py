"""Keeps a coordinator's process running, in the supervisor's actor."""

from __future__ import annotations

import ipaddress
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import anabranch
from anabranch.errors import AnabranchError
from anabranch.ray.child import Child
from anabranch.ray.client import Client
from anabranch.ray.roster import PAUSE_S_FIRST, PAUSE_S_MAX, STABLE_S
from anabranch.ray.settings import TOKEN_VARIABLE, Settings

#: Seconds that the coordinator has to stop its jobs at the end of an epoch: it takes at most 30 itself.
_GRACE_S = 40.0
_READY = re.compile(r"workers connect to (?P<workers>\S+); commands to (?P<url>\S+)")


class Keeper:
    """A coordinator that is started again when it ends, at the same addresses, so that its workers find it."""

    def __init__(self, settings: Settings, address: str) -> None:
        """Starts the coordinator, from a thread.

        Args:
            settings: The cluster.
            address: The IP address at which it listens.
        """
        self._settings = settings
        self._lock = threading.Lock()
        self._address = address
        self._authority = ""
        self._tls: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="anabranch-")
        self._stopping = threading.Event()
        self._workers = self._http = f"[{address}]:0" if ":" in address else f"{address}:0"
        self._url = ""
        self._child: Child | None = None
        self._is_ready = False
        self._is_refused = False
        self._problem = ""
        self._thread = threading.Thread(target=self._keep, name="coordinator", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        """``starting``, ``running``, ``failed``, ``refused`` (its options or its store are wrong) or ``ended``."""
        with self._lock:
            if self._stopping.is_set():
                return "ended"
            if self._is_ready:
                return "running"
            if self._is_refused:
                return "refused"
            return "failed" if self._problem else "starting"

    @property
    def problem(self) -> str:
        """Why it does not run; else empty."""
        with self._lock:
            return "" if self._is_ready else self._problem

    @property
    def pid(self) -> int:
        """Its process, or 0."""
        with self._lock:
            return self._child.pid if self._child is not None and self._is_ready else 0

    @property
    def workers(self) -> str:
        """``HOST:PORT`` for workers; empty until it has listened once."""
        with self._lock:
            return self._workers if self._url else ""

    @property
    def authority(self) -> str:
        """Certificate of the authority that has signed the coordinator's, in PEM; empty on a loopback address."""
        with self._lock:
            return self._authority

    def client(self) -> Client | None:
        """Returns how it is reached; ``None`` until it has listened once."""
        with self._lock:
            return Client(self._url, self._settings.token, self._authority) if self._url else None

    def end(self) -> None:
        """Lets the coordinator stop its jobs at the end of an epoch. Returns when it has ended."""
        self._stopping.set()
        with self._lock:
            child = self._child
        if child is not None:
            child.end(_GRACE_S)
        self._thread.join()
        self._folder.cleanup()

    def _keep(self) -> None:
        pause_s = PAUSE_S_FIRST
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self._certify()
                self._run()
            except AnabranchError as error:
                with self._lock:
                    self._problem, self._is_refused = str(error), True
            if time.monotonic() - began_s >= STABLE_S:
                pause_s = PAUSE_S_FIRST
            self._stopping.wait(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)

    def _certify(self) -> None:
        """Makes a certificate for the coordinator's address, once. On a loopback address nothing is encrypted."""
        if self._tls or ipaddress.ip_address(self._address).is_loopback:
            return
        folder = Path(self._folder.name) / "tls"
        made = subprocess.run(
            [anabranch.program(), "certificate", folder, "--host", self._address], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise anabranch.OutsideError(f"a certificate cannot be made: {made.stderr.strip()}")
        with self._lock:
            self._authority = (folder / "ca.pem").read_text()
            self._tls = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]

    def _run(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            where = ["--listen", self._workers, "--http", self._http, "--store", self._settings.store]
            variables = {**self._settings.environment, TOKEN_VARIABLE: self._settings.token}
            child = self._child = Child(["coordinator", *where, *self._tls], variables, self._on_line)
        child.wait()
        with self._lock:
            self._child = None
            self._is_ready = False
            self._is_refused = child.is_refused()
            self._problem = child.reason()

    def _on_line(self, line: str) -> None:
        found = _READY.search(line)
        if found:
            with self._lock:
                self._workers = found["workers"]
                self._url = found["url"]
                # The next process listens at the same ports.
                self._http = found["url"].rpartition("//")[2]
                self._is_ready = True
