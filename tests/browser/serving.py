"""Studio as a user starts it, and a real browser for it: for the tests, the screenshots and the benchmark."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import numpy as np

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

T = TypeVar("T")
WIDE, PHONE = (1280, 800), (390, 844)
LIMIT = 120_000  # milliseconds that a page may take on a busy machine


def chromium_path() -> str | None:
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@dataclass
class Studio:
    """One that is served."""

    address: str  # http://127.0.0.1:PORT
    token: str
    runs_dir: Path
    process: subprocess.Popen[str]

    @contextmanager
    def window(self, chromium: Browser, size: tuple[int, int] = WIDE, dark: bool = False) -> Iterator[Window]:
        width, height = size
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(LIMIT)
        try:
            yield Window(self, context)
        finally:
            context.close()


@dataclass
class Window:
    """A page with all that it says on the console and over its websocket."""

    studio: Studio
    context: BrowserContext
    errors: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)  # that came
    sent: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("websocket", self._listen)
        self.page.goto(f"{self.studio.address}/?token={self.studio.token}")

    def _listen(self, socket: Any) -> None:
        socket.on("framereceived", self._receive)
        socket.on("framesent", lambda data: self.sent.append(json.loads(data)))

    def _receive(self, data: str | bytes) -> None:
        if isinstance(data, str):
            self.messages.append(json.loads(data))

    def open(self, path: str) -> Page:
        """A page of Studio; returns when its module is loaded."""
        self.page.goto(self.studio.address + path)
        self.wait("() => window.__studio?.ready")
        return self.page

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Asks until the answer is true, and returns it; what the page says meanwhile is heard."""
        deadline = time.monotonic() + LIMIT / 1000
        while not (answer := condition()):
            assert time.monotonic() < deadline, f"no {what}"
            self.page.wait_for_timeout(30)
        return answer

    def answer(self, do: str) -> dict[str, Any]:
        """The answer to the newest command of this kind; waits for it."""
        number = [sent["id"] for sent in self.sent if sent["do"] == do][-1]
        return self.until(
            lambda: [message for message in self.messages if message.get("re") == number], f"answer to {do}"
        )[-1]

    def pushed(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("type") == kind]

    def wait(self, condition: str, argument: Any = None) -> None:
        """Until a JavaScript function is true. Asked from here: the page's policy forbids it to evaluate a text."""
        self.until(lambda: self.page.evaluate(condition, argument), f"{condition} of {argument}")

    def wait_for_change(self, selector: str, before: np.ndarray) -> None:
        """Until a canvas shows something else."""
        self.until(lambda: not np.array_equal(self.pixels(selector), before), f"change of {selector}")

    def wait_for_last(self, selector: str, frames: list[np.ndarray]) -> None:
        """Until a canvas shows the last of these frames, and none of the others."""

        def nearest() -> int:
            shown = self.pixels(selector)
            return int(np.argmin([difference(shown, frame) for frame in frames]))

        self.until(lambda: nearest() == len(frames) - 1, f"frame {len(frames) - 1} in {selector}")
        assert difference(self.pixels(selector), frames[-1]) < 1.0

    def pixels(self, selector: str) -> np.ndarray:
        """What a canvas shows, [height, width, 3]."""
        from PIL import Image

        url = self.page.eval_on_selector(selector, "canvas => canvas.toDataURL('image/png')")
        image = Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1])))
        return np.asarray(image.convert("RGB")).astype(np.int16)


@contextmanager
def served(runs_dir: Path, *options: str) -> Iterator[Studio]:
    """`gymnast studio` on a free port; it is gone at the end of the block."""
    command = [sys.executable, "-m", "gymnast", "studio", "--no-browser", "--runs-dir", str(runs_dir), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield _ready(process, runs_dir)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _ready(process: subprocess.Popen[str], runs_dir: Path) -> Studio:
    assert process.stdout is not None
    said = ""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and (line := process.stdout.readline()):
        said += line
        if found := re.search(r"(http://[^/\s]+)/\S*token=([\w-]+)", line):
            return Studio(found[1], found[2], runs_dir, process)
    raise AssertionError(f"Studio printed no address:\n{said}")


def train(runs_dir: Path, env: str, *options: str) -> str:
    """A real training of seconds; returns the run's id."""
    command = [sys.executable, "-m", "gymnast", "train", env, "--runs-dir", str(runs_dir), "--quiet", *options]
    before = set(_runs(runs_dir))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    new = set(_runs(runs_dir)) - before
    assert len(new) == 1, done.stdout + done.stderr
    return new.pop()


def train_here(runs_dir: Path, env: str, *settings: str, seed: int = 1, **options: Any) -> str:
    """The same in this process, which has imported everything already: seconds less for each run."""
    from gymnast.verbs.train import start

    with patch.object(sys, "argv", ["gymnast", "train", env]):
        return start(env, settings, runs_dir, seed, quiet=True, **options).run


def _runs(runs_dir: Path) -> list[str]:
    return [path.name for path in runs_dir.iterdir() if (path / "config.yaml").is_file()] if runs_dir.is_dir() else []


def frames_of(actions: list[int], seed: int) -> list[np.ndarray]:
    """CartPole's own pictures: after its reset and after every action."""
    import gymnasium as gym

    env = gym.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=seed)
    frames = [np.asarray(env.render())]
    for action in actions:
        env.step(action)
        frames.append(np.asarray(env.render()))
    return frames


def difference(shown: np.ndarray, frame: np.ndarray) -> float:
    """Mean over pixels; the page gets a JPEG."""
    return float(np.abs(shown - frame.astype(np.int16)).mean())
