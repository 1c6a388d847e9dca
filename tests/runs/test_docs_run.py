"""Every console block of the documentation is run, and prints what the page shows.

A block has `$ gymnast ...` lines, each followed by its output. `...` stands for lines that the page leaves out. A
Python or YAML block that begins with a file's name (`# my_envs.py`) is that file. A block after `<!-- not run: why -->`
is not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.warm import warm

ROOT = Path(__file__).parents[2]
# In the order in which they are read: all blocks share a folder, so that `@last` is the run of a block before.
GUIDE = [f"docs/guide/{name}.md" for name in ("train", "environments", "configure", "runs", "evaluation", "python")]
PAGES = list(dict.fromkeys([*GUIDE, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]))
PAGES += ["README.md", "CONTRIBUTING.md"]
BLOCK = re.compile(r"^(?:<!-- not run: (.*) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|yaml))(, continued)?\b")
# Run ids, see `runs/folder.py`
RUN = re.compile(r"\b[bcdfghjkmnpqrtvwxyz][bcdfghjkmnpqrtvwxyz2346789]{4}\b(-[\w-]+-s\d+\b)?")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(,\d{3})*(\.\d+)?(e[-+]?\d+)?(?![\w.]*[A-Za-z_])")
DRAWN = re.compile("[\u2500-\u257f\u2580-\u259f\u25a0-\u25ff]+")  # frames, bars, curves
ONCE = "compiling the fast network"  # where nothing was trained before


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the output that the page shows."""

    page: str
    command: str
    output: str


def steps(page: str, text: str) -> Iterator[Shown | tuple[str, str]]:
    """Commands to run and files to write, in the order of the page."""
    for why, language, body in BLOCK.findall(text):
        if language == "console":
            assert body.startswith("$ "), f"{page}: a console block begins with a command"
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                if not why:
                    yield Shown(page, command, output)
        elif found := FILE.match(body):
            yield found[1], body


def masked(text: str) -> str:
    """Words without what differs from one run or machine to the next; equal lines in a row count as one."""
    lines: list[str] = []
    for line in text.splitlines():
        if ONCE in line:
            continue
        plain = NUMBER.sub("0", RUN.sub("RUN", DRAWN.sub(" ", line)))
        plain = re.sub(r"\b0 \w+ ago\b", "just now", plain)
        plain = " ".join("0" if word == "-" else word for word in plain.split())
        if plain and plain not in lines[-1:]:
            lines.append(plain)
    return " ".join(lines)


def agrees(shown: str, printed: str) -> bool:
    pattern = re.escape(masked(shown)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, masked(printed)) is not None


def run(command: str, folder: Path) -> str:
    """What a terminal would show."""
    words = shlex.split(command, comments=True)
    assert words[0] == "gymnast", f"{command}: only gymnast is run"
    return warm.run(words[1:], environment(folder), folder, both=True).stdout


def environment(folder: Path) -> dict[str, str]:
    left_out = ("GYMNAST_RUNS", "COLUMNS", "FORCE_COLOR", "WANDB_API_KEY")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"PYTHONUNBUFFERED": "1", "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.timeout(600)  # some 20 commands, a process each
def test_console_blocks_print_what_they_show(tmp_path: Path) -> None:
    wrong = []
    found = [step for page in PAGES for step in steps(page, (ROOT / page).read_text(encoding="utf-8"))]
    for name, content in (step for step in found if not isinstance(step, Shown)):
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write(content)
    for shown in (step for step in found if isinstance(step, Shown)):
        printed = run(shown.command, tmp_path)
        if not agrees(shown.output, printed):
            wrong.append(f"{shown.page}: $ {shown.command}\n{printed}")
    assert not wrong, "\n\n".join(["these pages show something else than what is printed:", *wrong])


@pytest.mark.timeout(600)
def test_python_blocks_run(tmp_path: Path) -> None:
    """One after the other in one process. Those of CONTRIBUTING are recipes, which tests/contract follows."""
    script = []
    for page in PAGES:
        for _, language, body in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
            if language == "python" and page != "CONTRIBUTING.md" and not FILE.match(body):
                script.append(f"print({page!r})\n{body}")
    assert len(script) >= 5
    command = [sys.executable, "-c", "\n".join(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_is_not_run_says_why_and_others_are_run() -> None:
    marks = [mark for page in PAGES for mark in re.findall(r"(?m)^<!-- not run.*", (ROOT / page).read_text("utf-8"))]
    assert all(re.fullmatch(r"<!-- not run: \w.+ -->", mark) for mark in marks), marks
    found = [step for page in PAGES for step in steps(page, (ROOT / page).read_text("utf-8"))]
    assert sum(isinstance(step, Shown) for step in found) >= 15  # a pattern that finds nothing would pass everything


def test_numbers_and_names_of_runs_may_differ_and_words_may_not() -> None:
    shown = "run w8v2v-cartpole-v1-ppo-s1\n  4,096  2.0%  9.31   -  1e-3\n...\nscore 488.98"
    same = "run fpn2z-cartpole-v1-ppo-s1\n 512 10.0% 1.0 5.5 0.1\n 1024 20.0% 1.0 5.5 0.1\nanything\nscore -1"
    assert agrees(shown, same)
    assert not agrees(shown, same.replace("score", "mean"))
    assert not agrees(shown, same.replace("cartpole", "acrobot") + " steps")
    assert not agrees("CartPole-v1", "CartPole-v2")
    assert not agrees("lin_0.003", "lin_0.001")
