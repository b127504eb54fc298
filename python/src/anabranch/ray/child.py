"""A process of the program ``anabranch`` that does not outlive the actor that started it.

The child's standard input is a pipe whose other end only this process has: however this process ends, the pipe closes, and the child ends
itself (``--end-with-parent``). The kernel kills a worker's child as well when the thread that started it ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import anabranch

#: Lines of the child's standard error that are kept.
_LINES_MAX = 20


class Child:
    """A running child. Its standard error is passed on, so that Ray's logs have it."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Starts the program.

        Args:
            arguments: The command line without the program's name.
            environment: Variables besides those of this process.
            on_line: Gets each line of standard error, from a thread.

        Raises:
            OutsideError: The program is not there, or cannot be started.
        """
        self._parent = os.getppid()
        program = anabranch.program()
        # Ray gives its processes a low priority (nice 15). The child takes that of this thread, so that its heartbeats come in time.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        try:
            self._process = subprocess.Popen(
                [str(program), *arguments, "--end-with-parent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                text=True,
                errors="replace",
                # Ctrl-C at a terminal and signals for Ray's process group are not for the child.
                start_new_session=True,
            )
        except OSError as error:
            raise anabranch.OutsideError(f"{program} cannot be started: {error.strerror}") from error
        self._lines: deque[str] = deque(maxlen=_LINES_MAX)
        self._on_line = on_line
        self._reader = threading.Thread(target=self._read, name="stderr", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the child's end. Returns whether it has ended within ``timeout_s`` seconds; ``None`` waits without limit."""
        try:
            while timeout_s is None and self._process.poll() is None:
                # Ray's process of the node is gone, and this one may not notice it while its methods run: the child ends with it.
                if os.getppid() != self._parent:
                    os._exit(1)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(1.0)
        return True

    def end(self, grace_s: float) -> None:
        """Asks the child to end, and kills it after ``grace_s`` seconds. Returns when it has ended."""
        self._process.terminate()
        if not self.wait(grace_s):
            self._process.kill()
            self.wait()

    def reason(self) -> str:
        """Returns why it has ended: its last error, or the code or signal that it ended with."""
        text = "\n".join(self._lines)
        error = text.rfind("error: ")
        if error >= 0:
            return text[error + len("error: ") :]
        code = self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return f"the process has ended ({how})" + (f": {text}" if text else "")

    def is_refused(self) -> bool:
        """Returns whether the program has refused its command line."""
        return self._process.returncode == 2

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._lines.append(line.rstrip("\n"))
            print(line, end="", file=sys.stderr, flush=True)
            self._on_line(line.rstrip("\n"))
