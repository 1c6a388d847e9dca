"""Frames a second that Studio draws in a browser, counted in the page: `python benchmarks/studio_fps.py [seconds]`.

CartPole is played by an agent that was trained for seconds, Pong by random actions, both at the env's real speed. Then
the share of a core that the page's main thread uses while nothing happens.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.serving import Window, browser, served, train

GAMES = {
    "CartPole-v1": "/play?ref=@last&policy=greedy",
    "ALE/Pong-v5": "/play?env=ALE/Pong-v5&policy=random",
}


def drawn_per_second(window: Window, path: str, seconds: float) -> tuple[float, float]:
    """Frames that were drawn and steps that were reported, a second."""
    page = window.open(path)
    page.get_by_role("toolbar", name="Playback").get_by_role("button", name="Play", exact=True).click()
    window.wait("() => (window.__studio.frames ?? 0) > 20")  # it runs
    count = "() => [performance.now(), window.__studio.frames, window.__studio.steps]"
    start = page.evaluate(count)
    page.wait_for_timeout(seconds * 1000)
    end = page.evaluate(count)
    took = (end[0] - start[0]) / 1000
    return (end[1] - start[1]) / took, (end[2] - start[2]) / took


def idle_share(window: Window, path: str, seconds: float) -> float:
    """Of the page's main thread, after it has loaded."""
    page = window.open(path)
    if path.startswith(("/inspect", "/play")):
        window.wait("() => document.querySelector('.picture')?.width > 1 || window.__studio.frames > 0")
    page.wait_for_timeout(3000)
    chrome = window.context.new_cdp_session(page)
    chrome.send("Performance.enable")

    def now() -> dict[str, float]:
        found = chrome.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in found}

    start = now()
    page.wait_for_timeout(seconds * 1000)
    end = now()
    return (end["TaskDuration"] - start["TaskDuration"]) / (end["Timestamp"] - start["Timestamp"])


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        train(runs, "CartPole-v1", "--seed", "1", "--set", "train.total_timesteps=30000")
        with served(runs) as studio, browser() as chromium:
            for env, path in GAMES.items():
                with studio.window(chromium) as window:
                    frames, steps = drawn_per_second(window, path, seconds)
                    print(f"{env:12} {frames:5.1f} frames drawn a second, {steps:5.1f} steps")
            for path in ("/runs", "/runs/@last", "/inspect?ref=@last", "/play?ref=@last"):
                with studio.window(chromium) as window:
                    print(f"{path:20} idle: {100 * idle_share(window, path, seconds):.2f} % of a core")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 8.0)
