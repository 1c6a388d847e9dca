"""Imports go downward only; agent and envs do not know each other; light commands stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gymnast"
LEVELS = [
    {"errors", "files"},
    {"config", "schedule", "registry", "run", "run_folder", "run_lock", "runtime", "tuned"},
    {"agent", "envs", "metrics"},
    {"rl", "checkpoint"},
    {"exact"},
    {"evaluate"},
    {"examine", "video"},
    {"session"},
    {"judging"},
    {"background", "background_worker"},
    {"filming"},
    {"diagnostics"},
    {"train"},
    {"report"},
    {"recording"},
    {"api"},
    {"apps"},
    {"cli", "__main__", "__init__"},
]
LEVEL = {name: i for i, names in enumerate(LEVELS) for name in names}
# A wrapper's parameters are checked where configs are: the class is asked, by name, when a config uses it.
ALLOWED = {("config", "envs")}


def imports_of(path: Path) -> set[str]:
    """Our own modules that a file imports when it runs; imports for type checkers do not count."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gymnast"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("gymnast.")}
    return found & LEVEL.keys()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for other in imports_of(path) - {part}:
        assert LEVEL[other] <= LEVEL[part] or (part, other) in ALLOWED, f"{part} imports {other}"
        assert {part, other} != {"agent", "envs"}
        assert {part, other} != {"metrics", "envs"}
        assert {part, other} != {"metrics", "agent"}
    assert part in LEVEL, f"{part} has no place among the layers yet"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["runs", "list"], ["envs", "list"], ["config", "show", "CartPole-v1"]], ids=" ".join
)
def test_light_commands_import_no_torch(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gymnast.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n"
        "    print('torch' in sys.modules, file=sys.stderr)\n    sys.exit(end.code)"
    )
    environment = {"GYMNAST_RUNS": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "False"
