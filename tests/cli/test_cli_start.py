"""How the command starts: quickly, with help everywhere."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import metadata

import pytest

from gymnast import __version__
from gymnast.cli import app
from gymnast.core.errors import DISTRIBUTION, install_command
from gymnast.core.machine import package_versions
from gymnast.verbs.extras import all_extras
from tests.cli.conftest import ROOT, Command, Trained


def verbs() -> list[tuple[str, ...]]:
    """Every verb there is, groups included."""
    found: list[tuple[str, ...]] = [()]
    for name, command in app.commands.items():
        found.append((name,))
        found += [(name, inner) for inner in getattr(command, "commands", {})]
    return found


def test_every_verb_explains_itself(gymnast: Command) -> None:
    # the command, its verbs and groups, then those of runs, envs, config and ray
    assert len(verbs()) == 1 + 16 + 10 + 5 + 4 + 2
    for verb in verbs():
        outcome = gymnast(*verb, "--help")
        assert (outcome.code, outcome.err) == (0, ""), verb
        assert outcome.out.startswith(f"Usage: {' '.join(('gymnast', *verb))} ")
        is_group = verb in ((), ("runs",), ("envs",), ("config",), ("ray",))
        assert ("--json" in outcome.out and "--runs-dir" in outcome.out) != is_group, verb


def test_help_imports_nothing_big(packages_of: Callable[..., set[str]]) -> None:
    assert not packages_of("--help") & {"torch", "pydantic", "rich", "numpy", "gymnasium", "ruamel"}


@pytest.mark.parametrize(
    "args, also_not",
    [
        (("runs", "list"), "gymnasium"),
        (("runs", "show"), "gymnasium"),
        (("runs", "compare", "@last"), "gymnasium"),
        (("envs", "list"), "gymnasium"),
        (("envs", "show", "Acrobot-v1"), "gymnasium"),  # a wrapper in a variant would import it
        (("envs", "list", "--all"), ""),
        (("envs", "check", "CartPole-v1", "--steps", "2"), ""),
        (("config", "show", "CartPole-v1"), "gymnasium"),
        (("config", "show", "CartPole-v0"), ""),  # no preset: asks the env for its spaces
        (("config", "explain", "CartPole-v1"), "gymnasium"),
    ],
)
def test_what_only_looks_needs_no_torch(
    packages_of: Callable[..., set[str]], trained: Trained, args: tuple[str, ...], also_not: str
) -> None:
    assert not packages_of(*args, "--runs-dir", trained.runs_dir) & {"torch", also_not}


def test_a_package_that_cannot_be_imported_is_one_line(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `ulimit -v`, where a library of torch finds no memory."""

    def fails(*words: object, **options: object) -> None:
        raise ImportError("libtorch_cpu.so: failed to map segment\nfrom shared object")

    monkeypatch.setattr("gymnast.verbs.runs.show.list_all_runs", fails)
    outcome = call("runs", "list")
    why = "libtorch_cpu.so: failed to map segment from shared object"
    assert (outcome.code, outcome.err) == (2, f"gymnast: a package cannot be imported: {why}\n")


def test_a_bare_command_shows_its_help(gymnast: Command) -> None:
    for words in ((), ("runs",)):
        outcome = gymnast(*words)
        assert "Usage: gymnast" in outcome.err + outcome.out
        assert "Traceback" not in outcome.err


def test_the_doctor_knows_every_extra_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(all_extras()) == set(declared) - {"all", "dev"}


def test_the_package_is_installed_by_its_own_name(gymnast: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gymnast` on the index is another project: pip is never told to install it, nor is its version read."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION == "gymnast-rl"
    assert project["scripts"] == {"gymnast": "gymnast.cli:entry"}
    assert install_command("box2d", "plot") == 'pip install "gymnast-rl[box2d,plot]"'
    monkeypatch.setattr(metadata, "version", {"torch": "2.0", "gymnast": "0.1a5 of a stranger"}.__getitem__)
    assert package_versions("gymnast", "torch") == {"gymnast": __version__, "torch": "2.0"}
    assert gymnast("--version").out == f"gymnast {__version__}\n"
