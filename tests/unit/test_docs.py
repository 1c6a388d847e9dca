"""The documentation says what is there: every metric and setting, and no command, option or file that is gone."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from gymnast.cli import app
from gymnast.metrics.catalogue import catalogue

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What CONTRIBUTING.md adds as an example does not exist, and is not meant to.
EXAMPLES = {"src/gymnast/rl/algos/vpg.py", "src/gymnast/agent/bodies/residual.py", "src/gymnast/sinks/scores.py"}
EXAMPLES |= {f"src/gymnast/envs/{name}.py" for name in ("wrappers/action_delay", "suites/stairs", "engines/vector")}
EXAMPLES |= {"src/gymnast/presets/CartPole-v0.yaml", "src/gymnast/jobs/launchers/idle.py"}
EXAMPLES |= {"src/gymnast/rl/extensions/count_bonus.py"}
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\*|\.\.\.")  # src/gymnast/presets/ENV.yaml


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_tables_are_up_to_date() -> None:
    for path, text in script("reference").pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `python docs/reference.py`"


def test_the_metrics_page_has_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [metric.name for metric in catalogue() if f"| `{metric.name}` |" not in page] == []


def test_the_guide_explains_every_alert_rule_and_no_other() -> None:
    from gymnast.alerts.rules import RULES

    page = (ROOT / "docs" / "guide" / "alerts.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \|", page.partition("## What each rule means for you")[2], re.MULTILINE)
    assert sorted(explained) == sorted(rule.name for rule in RULES)


def test_the_pages_for_new_users_name_every_extra_and_every_command() -> None:
    """The table of extras, and the page for those who come from another library."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs" / "guide" / "train.md").read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert set(declared) - named == set()
    for page in (ROOT / "docs" / "coming-from-sb3.md", ROOT / "README.md"):
        text = page.read_text("utf-8")
        assert [verb for verb in app.commands if f"gymnast {verb}" not in text] == [], page.name


def test_the_recommended_install_line_is_enough_for_the_tour() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    line = next(line for line in text.splitlines() if "# recommended" in line)
    extras = set(re.findall(r"[\w-]+", re.findall(r"\[(.*?)\]", line)[0]))
    tour = text.partition("## Tour")[2].partition("```sh")[2].partition("```")[0]
    words = {"gymnast studio": "studio", "gymnast play": "studio", "gymnast video": "video", "gymnast sweep": "sweep"}
    words |= {
        "LunarLander": "box2d",
        "--track wandb": "wandb",
        "--against sb3": "sb3",
        "--out": "plot",
        "ALE/": "atari",
    }
    assert {extra for word, extra in words.items() if word in tour} <= extras
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras <= set(declared)


def test_metrics_named_in_the_guide_exist() -> None:
    groups = {metric.name.partition("/")[0] for metric in catalogue() if "/" in metric.name}
    for page in sorted((ROOT / "docs" / "guide").glob("*.md")):
        for name in re.findall(r"`([a-z]+/[a-z_/]+[\w./]*)`", page.read_text(encoding="utf-8")):
            if name.partition("/")[0] in groups:
                assert catalogue().get(name), f"{page.name}: {name}"


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_an_algorithms_page_has_every_metric_of_its_update(algo: str) -> None:
    """Taken from a real update, not from a list that could be forgotten."""
    from gymnast import config
    from gymnast.training.build import build
    from gymnast.training.loop import train

    steps = 64  # of 2 envs: long enough for episodes of an untrained CartPole agent to end
    settings = [f"algo.name={algo}", "env.n_envs=2", f"algo.n_steps={steps}", f"train.total_timesteps={2 * steps}"]
    settings += ["eval.every=0", "stop.on_solved=false"] + (["algo.batch_size=32"] if algo == "ppo" else [])
    rows: list[dict[str, float]] = []
    state = build(config.load("CartPole-v1", settings).config, None)
    train(state, observer=rows.append)
    state.close()
    page = (ROOT / "docs" / f"{algo}.md").read_text(encoding="utf-8")
    names = [name for name in rows[-1] if name.startswith("train/")]
    assert "train/grad_norm/actor" in names
    assert [name for name in names if f"`{name}`" not in page] == []


def commands(text: str) -> list[list[str]]:
    """Every `gymnast ...` of a page: lines of its shell blocks, and code between single backticks."""
    lines = []
    for language, block in FENCE.findall(text):
        if language == "sh":
            lines += block.splitlines()
        elif language == "console":  # its other lines are output, which tests/runs/test_docs_run.py compares
            lines += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    found = []
    for line in lines:
        for part in re.split(r";|&&|\bdo\b", line):
            words = shlex.split(part, comments=True)
            if words and words[0] == "gymnast" and len(words) > 1:
                found.append(words[1:])
    return found


def leaf_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and what follows it."""
    command: click.Command = app
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.commands.get(rest[0])
        assert found is not None, f"no command {' '.join(words)!r}"
        command = found
        rest.pop(0)
    return command, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        command, rest = leaf_of(words)
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
        for word in rest:
            if word.startswith("-"):
                assert word in known, f"gymnast {' '.join(words)}: no option {word}"


def test_enough_commands_are_checked() -> None:
    """A pattern that finds nothing would pass every test."""
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 150
    with pytest.raises(AssertionError, match="no command"):
        leaf_of(["runs", "lost"])


def named_files(text: str) -> list[str]:
    """Paths in backticks that lie in the repository, and what links and pictures point to."""
    paths = re.findall(r"`((?:src|tests|docs|benchmarks|presets)(?:/[\w.*-]+)*)[^`]*`", FENCE.sub("", text))
    return [path for path in paths if not PLACEHOLDER.search(path) and path not in EXAMPLES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_link_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in named_files(text):
        place = ROOT / ("src/gymnast" if path.startswith("presets") else "") / path
        assert place.exists(), f"{page.name} names {path}"
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        other = page.parent / file if file else page
        assert other.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(other.read_text(encoding="utf-8")), f"{page.name} links to {target}"


def test_every_page_is_linked_from_the_guide() -> None:
    guide = ROOT / "docs" / "guide.md"
    linked = {
        (guide.parent / target).resolve() for target in re.findall(r"\]\(([\w/-]+\.md)\)", guide.read_text("utf-8"))
    }
    assert {page for page in PAGES if page.parent.name in ("docs", "guide")} - linked == {guide}


def test_pages_use_the_words_that_contributing_asks_for() -> None:
    """Those that have no other meaning. The log and the list of words itself are left out."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.name == "CONTRIBUTING.md":
            text = re.sub(r"^## Words$.*?^## ", "", text, flags=re.MULTILINE | re.DOTALL)
        if page.name != "log.md":
            found = re.findall(r"\b(?:films?|rivals?|told|anew|spreads?|beside|of yours|what there is)\b", text)
            assert not found, f"{page.name}: {found}"


def anchors(text: str) -> set[str]:
    """Headings as a Markdown viewer turns them into anchors."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if "tests/unit" in page.read_text(encoding="utf-8")])
def test_every_named_test_exists(page: Path) -> None:
    everything = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if f"def {name}(" not in everything] == []


def test_pictures_fetch_nothing() -> None:
    for name in ("console.svg", "summary.svg"):
        svg = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert "url(http" not in svg
        assert "@import" not in svg


def test_settings_named_in_the_pages_exist() -> None:
    """`section.key` in backticks, and what --set changes."""
    from gymnast.config.problems import known_keys
    from gymnast.config.schema import RunConfig

    known: dict[str, Any] = known_keys(RunConfig)
    sections = "|".join(RunConfig.model_fields)
    for page in PAGES:
        text = FENCE.sub(lambda block: "" if block[1] == "console" else block[0], page.read_text(encoding="utf-8"))
        for key in re.findall(rf"(?:`|--set '?)((?:{sections})\.[a-z_.]+)", text):  # mistakes on show are left out
            if key.endswith((".py", ".md", ".txt", ".yaml")) or key.startswith("env.kwargs."):
                continue
            parents = [name for name in known if "." in name and key.startswith(f"{name}.")]  # a part of a schedule
            children = [name for name in known if name.startswith(f"{key}.")]
            assert key in known or parents or children, f"{page.name}: {key}"
