"""Folders that end with their process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gymnast.jobs.scratch import PREFIX, Scratch

KILLED = """
import os, signal
from gymnast.jobs.scratch import Scratch
(Scratch().path / "rows").write_text("1")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine = Scratch()
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    (tmp_path / f"{PREFIX}file").touch()
    assert len(list(tmp_path.glob("*/rows"))) == 1
    other = Scratch()
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {
        mine.path,
        other.path,
    }  # that of a living one stays
    other.remove()
    mine.remove()
    assert not list(tmp_path.glob("*/"))
