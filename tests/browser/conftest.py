"""A real browser for Studio's pages. No error on the console is allowed in any test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.serving import PHONE, WIDE, Studio, Window, browser, chromium_path, served, train_here

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Open = Callable[..., Window]
__all__ = ["PHONE", "WIDE", "Open"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    missing = "playwright" if find_spec("playwright") is None else None if chromium_path() else "chromium"
    if missing:
        reason = f"{missing} is not installed: `pip install playwright` and `apt-get install chromium`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs of seconds, by name: their ids. `folder` is the folder of the runs."""
    folder = tmp_path_factory.mktemp("studio-runs")
    return {
        "folder": str(folder),
        "cartpole": train_here(folder, "CartPole-v1", steps=12_000),
        "lake": train_here(folder, "FrozenLake-v1", steps=8192),
    }


@pytest.fixture(scope="session")
def studio(chromium: Browser, trained: dict[str, str]) -> Iterator[Studio]:
    """Served over the trained runs. `chromium` comes first: without a browser nothing needs to be trained."""
    with served(Path(trained["folder"])) as started:
        yield started


@pytest.fixture
def window(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens windows: `window(size=PHONE, dark=True, studio=another)`. At the end none has an error on its console."""
    with ExitStack() as stack:
        opened: list[Window] = []

        def open_window(studio: Studio | None = None, size: tuple[int, int] = WIDE, dark: bool = False) -> Window:
            shown: Studio = studio or request.getfixturevalue("studio")
            opened.append(stack.enter_context(shown.window(chromium, size, dark)))
            return opened[-1]

        yield open_window
        for one in opened:
            assert not one.errors, one.errors
