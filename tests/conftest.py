"""For every test: nothing measured on the developer's machine chooses engines here; Ctrl-C works; one thread."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def empty_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """A shell's `&` starts its jobs with Ctrl-C ignored, and so would be all that tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """A test is a process beside others: two threads on its small matrices would spin, and take three times as long."""
    if "torch" in sys.modules:
        from gymnast.core.devices import set_threads

        set_threads(1)
