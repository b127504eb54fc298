"""What is around the processes of the program: a real Kafka broker, a service over HTTP, and the network to a browser."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from page.serving import LIMIT_S, Server

SCRIPT = Path(__file__).resolve().parents[3] / "tests/kafka/broker.sh"


class Broker:
    """A Kafka broker of its own. It ends when the process of the tests does, and its data with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = self._run("start")

    def _run(self, what: str) -> str:
        environment = {**os.environ, "ANABRANCH_BROKER_PARENT": str(os.getpid())}
        command = ["bash", str(SCRIPT), what, str(self.folder)]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def close(self) -> None:
        """Stops it. Its data stays."""
        self._run("stop")

    def start(self) -> None:
        """Starts it again, at the same address with the same data."""
        assert self._run("start") == self.servers


class Network:
    """Passes a browser's connections on to a server. Both stay as they are when it is cut."""

    def __init__(self, server: Server) -> None:
        self.to = server.ports["http"]
        self.port = 0
        self.ends: list[socket.socket] = []
        self.mend()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def mend(self) -> None:
        """Connections are possible, again at the same port."""
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=[self.listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
                self.ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=[source, target], daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, and takes no more."""
        for end in [self.listener, *self.ends]:
            # The other side may have gone.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.ends.clear()

    close = cut


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Levels:
    """A service that knows the level of each number, for those who have its password."""

    def __init__(self, password: str) -> None:
        self.password = password
        #: Requests with the password, and those without it.
        self.let_in = 0
        self.turned_away = 0
        self._fails = False
        self._answers = threading.Event()
        self._answers.set()
        levels = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                levels._answers.wait(LIMIT_S)
                given = self.headers.get("Authorization", "")
                knows = given == f"Bearer {levels.password}"
                levels.let_in += knows
                levels.turned_away += not knows
                status = 503 if levels._fails else 200 if knows else 401
                body = json.dumps([{"level": 7}]) if status == 200 else f"not for you: {given}"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def handle(self) -> None:
                # The one who has asked may leave while it waits.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the class above
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def sql(self) -> str:
        """Tables and a statement that asks it for each of 50 rows per second."""
        return f"""CREATE TABLE numbers (id BIGINT, at AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '50',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000');
CREATE TABLE levels (id BIGINT, level BIGINT) WITH ('connector' = 'http', 'token' = '{self.password}', 'lookup.max-retries' = '1000',
  'url' = 'http://127.0.0.1:{self.server.server_port}/levels/{{id}}');
CREATE TABLE nowhere (level BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT l.level FROM numbers AS n JOIN levels FOR SYSTEM_TIME AS OF n.at AS l ON n.id = l.id WHERE l.level > 0;"""

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Requests wait until the end of the block."""
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Until the end of the block it fails, and says what it was sent."""
        self._fails = True
        try:
            yield
        finally:
            self._fails = False

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
