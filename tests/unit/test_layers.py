"""Imports go downward only; agent and envs do not know each other; light commands stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gymnast"
CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
ROWS = CONTRIBUTING.split("```layers\n")[1].split("```")[0].splitlines()
LEVEL = {name: -i for i, row in enumerate(ROWS) for name in row.split(" | ")}
ROOT = {"__init__", "__main__"}  # the package's own door
# A name in a config stands for a class that knows its own parameters: it is asked, by name, when a config uses it.
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
    if part in ROOT:
        return
    assert part in LEVEL, f"{part} has no place among the layers of CONTRIBUTING.md"
    for other in imports_of(path) - {part}:
        assert LEVEL[other] < LEVEL[part] or (part, other) in ALLOWED, f"{part} imports {other}"


def test_verbs_print_nothing() -> None:
    """They return data, so that a terminal, a web page and a server can show it. Runners are programs of their own."""
    for path in (SOURCE / "verbs").rglob("*.py"):
        if path.parent.name == "runners":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {"rich", "click"}, path
            assert not (isinstance(node, ast.Call) and ast.unparse(node.func) == "print"), path


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
