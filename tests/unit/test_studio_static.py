"""Studio's static files: vendored libraries are unchanged, the page is small and loads only its own files."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import gymnast

STATIC = Path(gymnast.__file__).parent / "studio" / "static"
VENDOR = STATIC / "vendor"
LOCK = json.loads((VENDOR / "lock.json").read_text())["files"]


@pytest.mark.parametrize("entry", LOCK, ids=lambda entry: entry["file"])
def test_a_vendored_file_is_the_packages_file(entry: dict) -> None:
    """Bare import names became relative paths; undone, the hash is that of the file in the npm package."""
    data = (VENDOR / entry["file"]).read_bytes()
    for name, path in entry["imports"].items():
        data = data.replace(f'from"{path}"'.encode(), f'from"{name}"'.encode())
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    text = (VENDOR / entry["licence_file"]).read_text()
    assert {"MIT": "MIT License", "Apache-2.0": "Apache License"}[entry["licence"]].lower() in text.lower()


def test_nothing_is_vendored_without_an_entry() -> None:
    known = {entry["file"] for entry in LOCK} | {entry["licence_file"] for entry in LOCK} | {"lock.json"}
    assert {path.name for path in VENDOR.iterdir()} == known


def test_the_static_files_are_small() -> None:
    size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in STATIC.rglob("*") if path.is_file())
    assert size < 150_000, f"{size} bytes gzipped"


def test_the_page_has_no_inline_script_and_loads_only_its_own_files() -> None:
    page = (STATIC / "index.html").read_text()
    for tag in re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL):
        assert not tag.strip()
    own = [*STATIC.glob("*.js"), *STATIC.glob("pages/*.js"), STATIC / "style.css", STATIC / "index.html"]
    for path in own:
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org)", text), f"{path.name} names an address"
        assert "innerHTML" not in text, path.name
        assert not re.search(r"\son[a-z]+=\"", text), f"{path.name} has an inline handler"
        for target in re.findall(r"""from ["'](\.[^"']+)["']""", text):
            assert (path.parent / target).is_file(), f"{path.name} imports {target}"
