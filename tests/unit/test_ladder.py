"""The tests themselves: CONTRIBUTING lists their folders, and each test says what must hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_contributing_lists_every_folder_with_the_command_that_runs_it() -> None:
    rows = re.findall(r"^\| `tests/(\w+)` \| .+ \| `(.+)` \|$", CONTRIBUTING, re.MULTILINE)
    folders = {path.parent.relative_to(ROOT / "tests") for path in FILES if path.name.startswith("test_")}
    assert sorted(name for name, _ in rows) == sorted(map(str, folders))
    for name, command in rows:
        assert command == ("make learn" if name == "learning" else f".venv/bin/pytest tests/{name}")


def test_make_has_every_target_that_contributing_names() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?<![.\w])make (\w+)", CONTRIBUTING + makefile.partition("setup:")[0]))
    assert {"check", "test", "learn"} <= named <= targets
    for folder in re.findall(r"tests/\S+", makefile):
        assert (ROOT / folder).exists()


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]


def expects(function: ast.FunctionDef, helpers: set[str]) -> bool:
    """An assert, an exception or a warning that is awaited, or a call of a helper that has one of these."""
    nodes = list(ast.walk(function))
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    awaited = any(call.startswith(("pytest.", "torch.testing.", "np.testing.")) for call in calls)
    return awaited or bool(helpers & set(calls)) or any(isinstance(node, ast.Assert) for node in nodes)


def test_no_test_is_without_an_expectation() -> None:
    every = [function for path in FILES for function in functions(path)]
    helpers = {function.name for function in every if expects(function, set())}
    tests = [function for function in every if function.name.startswith("test_")]
    assert [function.name for function in tests if not expects(function, helpers)] == []


def test_no_fixture_is_named_like_a_test() -> None:
    """It would look like one that always passes."""
    for path in FILES:
        for function in functions(path):
            decorators = " ".join(map(ast.unparse, function.decorator_list))
            assert not (function.name.startswith("test_") and "fixture" in decorators), f"{path}: {function.name}"
