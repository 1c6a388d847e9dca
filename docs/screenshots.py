"""Screenshots of Studio for the documentation, of real runs: `python docs/screenshots.py [--only PAGE] [--out FOLDER]`.

Trains for a minute or two, serves Studio over these runs, opens every page in a real browser, light and dark, and
writes docs/images/studio-PAGE-THEME.png.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.serving import PHONE, WIDE, Studio, Window, browser, served, train

if TYPE_CHECKING:
    from PIL import Image

ROOT = Path(__file__).parents[1]
COLOURS = 256  # of a picture in the repository: a third of the size, and nobody sees the difference
TALL = {"inspect": 1000}  # pixels; the others are as high as a screen


def see_runs(window: Window, runs: dict[str, str]) -> None:
    window.open("/runs")
    window.page.locator("tbody .spark path").first.wait_for()
    window.page.locator(".badge.pulse").first.wait_for()  # the training that still runs


def see_run(window: Window, runs: dict[str, str]) -> None:
    window.open(f"/runs/{runs['CartPole-v1']}")
    window.page.locator(".chart canvas").first.wait_for()


def see_compare(window: Window, runs: dict[str, str]) -> None:
    names = ("CartPole-v1", "second seed", "CartPole-v1:a2c", "second a2c")
    window.open("/compare?" + "&".join(f"ref={runs[name]}" for name in names))
    window.page.locator(".chart canvas").first.wait_for()


def see_inspect(window: Window, runs: dict[str, str]) -> None:
    window.open(f"/inspect?ref={runs['LunarLander-v3']}&policy=sampled&seed=4&t=62")
    page = window.page
    window.wait("() => document.querySelector('.frame-box canvas')?.dataset.t === '62'")
    panel = page.locator("[data-panel=whatif]")
    for count, label in enumerate(("left engine", "nothing"), 2):
        panel.get_by_role("button", name=label).click()
        window.wait("n => document.querySelectorAll('.tree-rows button').length === n", count)
        page.get_by_role("group", name="Branches").get_by_role("button").first.click()
        page.get_by_role("slider", name="Step").fill("62")
        window.wait("() => document.querySelector('.frame-box canvas')?.dataset.t === '62'")
        panel.get_by_role("button", name="main engine", pressed=True).wait_for()
    page.get_by_role("spinbutton", name="rollouts of each action").fill("2")
    page.get_by_role("button", name="Roll out").click()
    page.locator(".rollouts tbody tr").first.wait_for()


def see_map(window: Window, runs: dict[str, str]) -> None:
    window.open(f"/inspect?ref={runs['FrozenLake-v1']}&policy=sampled&seed=3&t=2")
    window.wait("() => document.querySelector('.frame-box canvas')?.dataset.t === '2'")
    page = window.page
    for name in ("Action", "Value and return", "Reward", "What if"):
        page.get_by_role("button", name=name, exact=True).click()
    page.get_by_role("img", name="The exact optimum").wait_for()


def see_play(window: Window, runs: dict[str, str]) -> None:
    window.open("/play?env=ALE/Pong-v5&policy=untrained&seed=2")
    page = window.page
    page.get_by_role("slider", name="Speed").fill("120")
    page.get_by_role("toolbar", name="Playback").get_by_role("button", name="Play", exact=True).click()
    window.wait("() => (window.__studio.steps ?? 0) > 70")
    page.get_by_role("button", name="Pause").click()


def see_start(window: Window, runs: dict[str, str]) -> None:
    window.open("/start?env=CartPole-v1")
    window.page.locator("select, input").first.wait_for()


PAGES: dict[str, Callable[[Window, dict[str, str]], None]] = {
    "runs": see_runs,
    "run": see_run,
    "compare": see_compare,
    "inspect": see_inspect,
    "map": see_map,
    "play": see_play,
    "start": see_start,
}
NEEDED = {"play": (), "start": (), "map": ("FrozenLake-v1",)}  # the others need all runs
TRAININGS = {
    "FrozenLake-v1": ("FrozenLake-v1", "--seed", "1", "--steps", "40000"),
    "Pendulum-v1": ("Pendulum-v1", "--seed", "1", "--steps", "30000"),
    "LunarLander-v3": ("LunarLander-v3", "--seed", "1", "--steps", "150000"),
    "too fast": ("CartPole-v1", "--seed", "1", "--steps", "20000", "--set", "algo.learning_rate=0.5"),
    "second a2c": ("CartPole-v1:a2c", "--seed", "2", "--steps", "30000"),
    "CartPole-v1:a2c": ("CartPole-v1:a2c", "--seed", "1", "--steps", "30000"),
    "second seed": ("CartPole-v1", "--seed", "2", "--steps", "30000"),
    "CartPole-v1": ("CartPole-v1", "--seed", "1", "--steps", "30000"),
}


@contextmanager
def in_progress(runs_dir: Path) -> Iterator[None]:
    """A training that still runs while the pictures are taken."""
    command = [sys.executable, "-m", "gymnast", "train", "Acrobot-v1", "--runs-dir", str(runs_dir), "--quiet"]
    with subprocess.Popen([*command, "--set", "stop.on_solved=false", "--steps", "3000000"]) as process:
        try:
            yield
        finally:
            process.terminate()


def shoot(studio: Studio, runs: dict[str, str], pages: list[str], out: Path) -> Iterator[Path]:
    with browser() as chromium:
        for page in pages:
            for theme in ("light", "dark"):
                with studio.window(chromium, (WIDE[0], TALL.get(page, WIDE[1])), theme == "dark") as window:
                    yield take(window, runs, page, out / f"studio-{page}-{theme}.png")
            if page in ("inspect", "play"):
                with studio.window(chromium, PHONE) as window:
                    yield take(window, runs, page, out / f"studio-{page}-phone.png")


def take(window: Window, runs: dict[str, str], page: str, path: Path) -> Path:
    from PIL import Image

    PAGES[page](window, runs)
    window.page.mouse.move(0, 0)
    window.page.evaluate(
        "[document.scrollingElement, ...document.querySelectorAll('.column')].map(e => e.scrollTo(0, 0))"
    )
    window.page.wait_for_timeout(600)  # charts are drawn
    assert not window.errors, window.errors
    picture = Image.open(io.BytesIO(window.page.screenshot())).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours_of(picture))
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def colours_of(picture: Image.Image) -> list[int]:
    """Half of them the most frequent ones, as they are; half as different as possible: lines and badges keep theirs."""
    from PIL import Image

    counted = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    frequent = [part for _, colour in counted[: COLOURS // 2] for part in colour]  # type: ignore[union-attr]
    rare = picture.quantize(COLOURS // 2, Image.Quantize.MAXCOVERAGE).getpalette() or []
    return [*frequent, *rare][: 3 * COLOURS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PAGES, action="append", help="this page only; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    asked = parser.parse_args()
    pages = asked.only or list(PAGES)
    wanted = set().union(*(NEEDED.get(page, tuple(TRAININGS)) for page in pages))
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder) / "runs"
        runs_dir.mkdir()
        runs = {name: train(runs_dir, *options) for name, options in TRAININGS.items() if name in wanted}
        with in_progress(runs_dir), served(runs_dir) as studio:
            for path in shoot(studio, runs, pages, asked.out):
                print(f"{path.name} {path.stat().st_size // 1024} KB", flush=True)


if __name__ == "__main__":
    main()
