"""The script that makes the documentation's pictures of Studio works, on the page that needs no training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_script_takes_pictures(chromium: Browser, tmp_path: Path) -> None:
    from PIL import Image

    command = [sys.executable, "docs/screenshots.py", "--only", "start", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for theme, light in (("light", True), ("dark", False)):
        picture = Image.open(tmp_path / f"studio-start-{theme}.png").convert("L")
        assert picture.size == (1280, 800)
        assert (sum(picture.histogram()[128:]) > 512_000) == light


def test_the_pictures_of_the_documentation_are_small() -> None:
    pictures = list((ROOT / "docs" / "images").glob("studio-*.png"))
    assert len(pictures) >= 14, "run docs/screenshots.py"
    assert sum(path.stat().st_size for path in pictures) < 1_000_000
