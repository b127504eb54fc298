"""The coordinator's HTTP interface, as far as this package needs it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import OutsideError


@dataclass(frozen=True)
class Answer:
    """An answer: the status of HTTP, and the JSON value in its body."""

    status: int
    body: Any


@dataclass(frozen=True)
class Client:
    """How a coordinator is reached.

    Attributes:
        url: Where it answers.
        token: The secret of the cluster.
        authority: Certificates that are trusted for https, in PEM; empty for the machine's.
    """

    url: str
    token: str = field(repr=False)
    authority: str = ""

    def request(self, method: str, path: str, body: object = None, timeout_s: float = 10.0) -> Answer:
        """Sends a request.

        Args:
            method: ``GET`` or ``POST``.
            path: The path, with its leading slash.
            body: A value that is sent as JSON; ``None`` for no body.
            timeout_s: Longest time without an answer, in seconds.

        Returns:
            The answer, whatever its status is.

        Raises:
            OutsideError: There is no answer.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.url.startswith("https:"):
            context = ssl.create_default_context(cadata=self.authority or None)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                return Answer(answer.status, json.loads(answer.read() or b"null"))
        except urllib.error.HTTPError as refused:
            with refused:
                text = refused.read()
            try:
                return Answer(refused.code, json.loads(text))
            except ValueError:
                return Answer(refused.code, {"error": text.decode(errors="replace")})
        except (OSError, ValueError) as error:
            raise OutsideError(f"the coordinator at {self.url} does not answer: {error}") from error
