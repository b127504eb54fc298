"""A server with the demo, a browser, and pages that must not complain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from page.outside import Broker, Levels
from page.serving import LIMIT_S, Server, Visitor, chromium, served


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LIMIT_S * 1000)
    with sync_playwright() as playwright:
        found = chromium(playwright)
        yield found
        found.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all tests that need nothing else. Its job ``demo`` runs."""
    with served(tmp_path_factory.mktemp("server")) as server:
        server.api("POST", "/api/v1/demo")
        yield server


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of a test's own, with further arguments."""
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(served(tmp_path, *arguments))


@pytest.fixture
def service() -> Iterator[Callable[[str], Levels]]:
    """Starts a service that wants this password. A test names it before ``visitor``: it must outlive the servers whose jobs ask it."""
    with ExitStack() as stack:
        yield lambda password: stack.enter_context(closing(Levels(password)))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A Kafka broker. A test names it before ``visitor``: it must outlive the servers whose jobs need it."""
    with closing(Broker(tmp_path / "broker")) as broker:
        yield broker


@pytest.fixture
def visitor(browser: Browser, fresh: Callable[..., Server], request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """Opens pages. The test fails if one of them writes an error to its console, breaks the policy, or asks another site.

    They are closed before the servers that they look at.
    """
    del fresh
    visitor = Visitor(browser, lambda: request.getfixturevalue("server"))
    yield visitor
    assert visitor.close() == []
