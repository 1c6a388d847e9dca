"""CONTRIBUTING's recipes for an env preset, a wrapper, a suite and an engine, followed to the letter.

The package is copied, each recipe's file written and its line put into the registry: nothing else is touched. Then real
commands train, save and resume with what was added, and the contract tests find it by themselves.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gymnast

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = ("an env preset", "a wrapper", "a suite", "an engine")
# rollouts of 128 steps, whatever the preset says
SMALL = [
    "env.n_envs=2",
    "algo.n_steps=64",
    "algo.batch_size=64",
    "eval.episodes=2",
    "eval.every=256",
    "stop.on_solved=false",
]


@dataclass(frozen=True)
class Recipe:
    path: Path  # of its file, in the repository
    text: str
    registry: str | None  # the one that its line goes to; None: it needs none
    line: str = ""


def read(what: str) -> Recipe:
    """The file and the registry line of a recipe; there are no other places to touch."""
    section = PAGE.partition(f"## Add {what}\n")[2].partition("\n## ")[0]
    (file, *lines), (path, *_) = FENCE.findall(section), re.findall(r"here `(src/gymnast/[\w/.-]+)`", section)
    assert len(lines) <= 1, "a recipe is one file and at most one line"
    if not lines:
        return Recipe(Path(path), file[1], None)
    (registry,) = re.findall(r"One line in `([A-Z]+)` of `src/gymnast/core/registry.py`", section)
    assert lines[0][1].count("\n") == 1
    return Recipe(Path(path), file[1], registry, lines[0][1])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return follow(RECIPES, tmp_path_factory.mktemp("recipes"))


def follow(recipes: Sequence[str], folder: Path) -> Path:
    """The folder with the package in it, as it is after these recipes."""
    shutil.copytree(Path(gymnast.__file__).parent, folder / "gymnast")  # compiled kernels included
    names = folder / "gymnast" / "core" / "registry.py"
    for recipe in map(read, recipes):
        place = folder / recipe.path.relative_to("src")
        assert not place.exists(), f"{recipe.path} exists: take another example"
        place.write_text(recipe.text, encoding="utf-8")
        if recipe.registry is not None:
            head = re.compile(rf'^{recipe.registry} = Registry\(\s*"\w+",\s*{{\n?', re.MULTILINE)
            text, found = head.subn(lambda match, line=recipe.line: match[0] + line, names.read_text(encoding="utf-8"))
            assert found == 1
            names.write_text(text, encoding="utf-8")
    return folder


def python(package: Path, *args: str) -> str:
    """Runs the changed package in a process of its own, for at most two minutes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(package), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, *args], cwd=package, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(package: Path, *args: str) -> dict[str, Any]:
    shown = python(package, "-m", "gymnast", *args, "--runs-dir", str(package / "runs"), "--json")
    data: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return data


# `gymnast train`, and `gymnast resume` of that run, in one process; the last line is what both say as JSON
TRAIN_AND_RESUME = """
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from gymnast.cli import main
def command(*words):
    sys.argv = ["gymnast", *words, "--runs-dir", "runs", "--quiet", "--json"]
    with redirect_stdout(StringIO()) as shown:
        try:
            main()
        except SystemExit as end:
            assert end.code == 0, shown.getvalue()
    return json.loads(shown.getvalue().splitlines()[-1])
first = command("train", *sys.argv[1:], "--steps", "384")
second = command("resume", first["run"], "--steps", "640")
print(json.dumps([first, second]))
"""


def train_and_resume(package: Path, target: str, settings: list[str], then: str = "") -> list[str]:
    """384 steps and 256 more; returns the lines that `then` prints, which knows the result of the second command."""
    sets = [word for setting in settings for word in ("--set", setting)]
    shown = python(package, "-c", TRAIN_AND_RESUME + then, target, *sets).splitlines()
    first, second = json.loads(shown[0])
    assert (first["env_steps"], second["env_steps"]) == (384, 640)
    assert (package / "runs" / first["run"] / "checkpoints" / "last.safetensors").is_file()
    return shown[1:]


@pytest.mark.parametrize(
    "target,settings",
    [
        ("CartPole-v0", []),
        ("CartPole-v1", ["env.wrappers=[{action_delay: {steps: 2}}]"]),
        ("stairs/Climb-v0", ["env.kwargs={height: 3}"]),
        ("CartPole-v1", ["env.engine=vector"]),
    ],
    ids=RECIPES,
)
def test_what_a_recipe_adds_trains_saves_and_resumes(package: Path, target: str, settings: list[str]) -> None:
    train_and_resume(package, target, [*SMALL, *settings])


def test_the_preset_is_listed_and_its_optimum_holds(package: Path) -> None:
    shown = command(package, "envs", "show", "CartPole-v0")
    assert (shown["optimum"], shown["solved"]["threshold"]) == (200, 195)


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"wrappers": [{"action_delay": {"steps": 0}}]}, "steps is 0 and must be a whole number >= 1."),
    ({"id": "stairs/Climb-v0", "kwargs": {"heigth": 3}}, "Did you mean 'height'? Known: height."),
    ({"id": "stairs/Climb-v0", "kwargs": {"height": 0}}, "height = 0: must be at least 1."),
    ({"id": "Acrobot-v1", "engine": "vector"}, "it has no Acrobot-v1, only CartPole-v1, MountainCar-v0."),
    ({"engine": "vectr"}, "must be one of auto, ale, cartpole, envpool, process, sync, vector. Did you mean 'vector'?"),
]
ASK = """
import json, sys
from gymnast import config
from gymnast.core.errors import UserError
from gymnast.envs.make import make_vec
for settings in json.loads(sys.argv[1]):
    try:
        make_vec(config.validate({"env": {"id": "CartPole-v1", **settings}}).env, 2, "train")
    except UserError as error:
        print(error)
"""


def test_every_mistake_with_it_is_one_clear_line(package: Path) -> None:
    lines = python(package, "-c", ASK, json.dumps([settings for settings, _ in MISTAKES])).splitlines()
    assert len(lines) == len(MISTAKES)
    for line, (_, expected) in zip(lines, MISTAKES, strict=True):
        assert expected in line


def test_the_contract_tests_find_what_was_added(package: Path) -> None:
    files = [
        str(ROOT / "tests/contract" / f"test_{name}.py")
        for name in ("every_suite", "every_engine", "registered_engines")
    ]
    shown = python(package, "-m", "pytest", "-p", "no:cacheprovider", *files, "-k", "stairs/] or vector] or vector-")
    (passed,) = re.findall(r"(\d+) passed", shown)
    assert int(passed) >= 14  # 4 of the suite, 5 of the engine on CartPole, 5 of any engine
