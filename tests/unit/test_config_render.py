"""Shown, explained, compared, formatted; what is written loads back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymnast.config import RunConfig, diff, dump, explain, format_file, load, show
from gymnast.config.files import parse_yaml
from gymnast.config.format import format_text
from gymnast.config.problems import known_keys
from gymnast.core.errors import UserError

MESSY = """\
# My settings.

log: {every: 500}  # rarely

# The algorithm.
algo:
  # Discount.
  gamma: 0.9

  n_steps: 64   # short
  name: ppo
  learning_rate:
    start: 1e-3
    end: 1e-4
env:
  kwargs:
    zeta: 1
    alpha: 2
  id: CartPole-v1
facts:
  reward: {meaning: m}
  actions: [a]
  description: >-
    two
    lines
  family: f
  observations:
    - {name: x}
"""

NEAT = """\
# My settings.

facts:
  family: f
  description: >-
    two
    lines
  actions: [a]

  observations:
    - {name: x}
  reward: {meaning: m}

env:
  id: CartPole-v1
  kwargs:
    zeta: 1
    alpha: 2
# The algorithm.
algo:
  name: ppo
  learning_rate:
    start: 1e-3
    end: 1e-4
  n_steps: 64   # short
  # Discount.
  gamma: 0.9
log: {every: 500}  # rarely
"""


def test_every_key_has_a_description() -> None:
    assert [key for key, text in known_keys(RunConfig).items() if not text and ".wrappers" not in key] == []


def test_dump_loads_back_to_an_equal_config() -> None:
    overrides = [
        "env.kwargs={word: 'off', number: '1e-3', flag: true, nothing: null, nested: {a: [1, 2.5]}}",
        "env.wrappers=[{frame_stack: {n: 4}}, flatten]",
        "algo.learning_rate={points: [[0, 1e-3], [0.5, 1e-4]]}",
        "algo.ent_coef={start: 0.1, end: 0, from: 0.2, shape: cosine, floor: 0.01}",
        "stop.plateau={evals: 3}",
        "algo.normalize_advantage=off",
    ]
    config = load("CartPole-v1", overrides).config
    text = dump(config)
    assert RunConfig.model_validate(parse_yaml(text, "dump").data) == config
    top = [row.rstrip(":") for row in text.splitlines() if row and not row.startswith(" ")]
    assert top == ["env", "agent", "algo", "train", "eval", "stop", "log"]


def test_shown_config_is_a_file_that_loads(tmp_path: Path) -> None:
    resolved = load("Taxi-v4")
    file = tmp_path / "shown.yaml"
    file.write_text(show(resolved))
    assert load(str(file)).config == resolved.config
    assert file.read_text().startswith("# Taxi-v4:ppo\n")


def test_explain_gives_value_source_and_meaning() -> None:
    resolved = load("CartPole-v1", ["env.kwargs.gravity=-5", "algo.name=a2c"])
    rows = {row.key: row for row in explain(resolved)}
    assert rows["env.kwargs.gravity"][1:3] == (-5, "--set")
    assert rows["algo.learning_rate"].value == "lin_0.003"
    assert rows["algo.gamma"].help.startswith("Discount of future rewards, once a decision")
    assert rows["algo.clip_range"].value is None
    assert "dropped: a2c has no clip_range" in rows["algo.clip_range"].source
    assert [row.key for row in explain(resolved, "env.reward")] == ["env.reward.scale", "env.reward.clip"]
    with pytest.raises(UserError, match=r"algo\.gama: no such key\. Did you mean .*gamma"):
        explain(resolved, "algo.gama")


def test_diff_lists_what_differs_in_order() -> None:
    a = load("CartPole-v1").config
    b = load("CartPole-v1", ["env.kwargs.gravity=-5", "algo.gamma=0.5", "train.seed=1"]).config
    assert diff(a, b) == [("env.kwargs.gravity", None, -5), ("algo.gamma", 0.99, 0.5), ("train.seed", 0, 1)]
    assert diff(a, a) == []


def test_format_orders_keys_and_keeps_comments() -> None:
    neat = format_text(MESSY)
    assert parse_yaml(neat, "neat").data == parse_yaml(MESSY, "messy").data
    keys = [row.split(":")[0] for row in neat.splitlines() if row and row[0] not in " #"]
    assert keys == ["facts", "env", "algo", "log"]
    for comment in ("# My settings.", "# rarely", "# short"):
        assert comment in neat
    rows = neat.splitlines()
    assert rows[rows.index("algo:") - 1] == "# The algorithm."
    assert rows[rows.index("  gamma: 0.9") - 1] == "  # Discount."
    assert rows.index("    zeta: 1") < rows.index("    alpha: 2"), "kwargs are the env's: their order is kept"
    assert [row.strip() for row in rows if row] == [row.strip() for row in NEAT.splitlines() if row]


def test_format_is_idempotent() -> None:
    neat = format_text(MESSY)
    assert format_text(neat) == neat


def test_format_file_writes_only_where_asked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MESSY)
    assert format_file(file, write=False)
    assert file.read_text() == MESSY
    assert format_file(file)
    assert file.read_text() == format_text(MESSY)
    assert not format_file(file)


@pytest.mark.parametrize("text", ["", "# only words\n", "{env: {id: X}, agent: {}}\n"])
def test_format_leaves_what_has_no_lines_to_order(text: str) -> None:
    assert format_text(text).strip() == text.strip()


def test_format_refuses_a_broken_file_untouched(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("a: [1\n")
    with pytest.raises(UserError, match="broken YAML"):
        format_file(file)
    assert file.read_text() == "a: [1\n"
