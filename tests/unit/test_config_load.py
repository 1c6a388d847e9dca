"""Layers: which wins, and where each value says it came from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gymnast.config import RunConfig, check_file, load, validate, with_space_defaults
from gymnast.config.schema import WrapperSpec
from gymnast.rl.algos.ppo import PPOConfig

VECTORS = {"agent.normalize_obs": True, "algo.ent_coef": 0.01}  # what spaces of numbers and discrete actions ask for
PICTURES = VECTORS | {"agent.encoder": "small_cnn", "agent.shared": True, "agent.hidden": []}


def test_defaults_of_the_code_are_stable_baselines3s() -> None:
    config = validate({"env": {"id": "X"}})
    assert isinstance(config.algo, PPOConfig)
    algo = config.algo
    assert (algo.n_steps, algo.batch_size, algo.n_epochs, algo.gamma, algo.gae_lambda) == (2048, 64, 10, 0.99, 0.95)
    assert (algo.learning_rate.value(0.5), algo.clip_range.value(0.5), algo.max_grad_norm) == (3e-4, 0.2, 0.5)


def test_config_is_frozen_and_derives_its_sizes() -> None:
    config = load("CartPole-v1", ["train.total_timesteps=100000"]).config
    with pytest.raises(ValueError, match="frozen"):
        config.train.seed = 3
    assert config.rollout_steps == 32 * 64
    assert config.eval_every == 100_000 // 20
    assert config.log_every == 32 * 64  # 100000 / 100 is less than a rollout
    assert config.eval_n_envs == 20  # as many as episodes
    many = load("CartPole-v1", ["eval.episodes=100", "eval.every=0", "log.every=3000"]).config
    assert (many.eval_n_envs, many.eval_every, many.log_every) == (32, 0, 3000)


def test_yaml_is_version_1_2() -> None:
    config = load("CartPole-v1", ["algo.learning_rate=1e-3", "algo.normalize_advantage=off"]).config
    assert config.algo.learning_rate.value(0) == 1e-3
    assert config.algo.normalize_advantage == "off"
    assert load("CartPole-v1", ["algo.normalize_advantage=true"]).config.algo.normalize_advantage == "batch"
    assert load("CartPole-v1", ["train.total_timesteps=1e5"]).config.train.total_timesteps == 100_000


def test_first_variant_is_the_default() -> None:
    assert load("CartPole-v1").target == "CartPole-v1:ppo"
    assert load("CartPole-v1").config == load("CartPole-v1:ppo").config


def test_override_wins_and_says_so() -> None:
    resolved = load("CartPole-v1", ["algo.gamma=0.9", "algo.gamma=0.95"], seed=7, steps=5000)
    assert resolved.config.algo.gamma == 0.95, "the last of equals wins"
    assert (resolved.config.train.seed, resolved.config.train.total_timesteps) == (7, 5000)
    assert resolved.source("algo.gamma") == "--set"
    assert resolved.source("train.seed") == "--seed"
    assert resolved.source("train.total_timesteps") == "--steps"
    assert resolved.source("algo.n_steps") == "presets/CartPole-v1.yaml (ppo)"
    assert resolved.source("agent.hidden") == "default"


def test_env_kwargs_and_wrappers_from_the_command_line() -> None:
    resolved = load("CartPole-v1", ["env.kwargs.gravity=-5", "env.kwargs.deep.er=[1]", "env.wrappers=[flatten]"])
    assert resolved.config.env.kwargs == {"gravity": -5, "deep": {"er": [1]}}
    assert resolved.source("env.kwargs.gravity") == "--set"
    assert resolved.config.env.wrappers == [WrapperSpec(name="flatten")]
    stacked = load("CartPole-v1", ["env.wrappers=[{frame_stack: {n: 4}}]"]).config
    assert stacked.env.wrappers == [WrapperSpec(name="frame_stack", kwargs={"n": 4})]
    assert stacked.model_dump()["env"]["wrappers"] == [{"frame_stack": {"n": 4}}]


def test_schedules_are_replaced_whole_but_a_part_can_be_set() -> None:
    base = "algo.learning_rate={start: 1e-3, end: 1e-4}"
    whole = load("CartPole-v1", [base, "algo.learning_rate={points: [[0, 1]]}"])
    assert whole.config.algo.learning_rate.value(0.3) == 1
    part = load("LunarLander-v3", ["algo.ent_coef.end=0.005"])  # the preset has {start: 0.01, end: 0}
    assert (part.config.algo.ent_coef.value(0), part.config.algo.ent_coef.value(1)) == (0.01, 0.005)


def test_another_algorithm_leaves_the_old_ones_keys_behind() -> None:
    resolved = load("CartPole-v1", ["algo.name=a2c"])
    assert resolved.config.algo.name == "a2c"
    assert resolved.config.algo.gamma == 0.99, "what both understand stays"
    assert resolved.sources["algo.clip_range"] == "presets/CartPole-v1.yaml (ppo); dropped: a2c has no clip_range"


def test_a_memory_that_is_switched_off_takes_its_sizes_with_it() -> None:
    resolved = load("gymnast/Corridor-v0:lstm", ["agent.memory=null"])
    assert (resolved.config.agent.memory, resolved.config.agent.memory_size) == (None, 64)
    assert resolved.source("agent.sequence_length").endswith("(lstm); dropped: agent.memory is null")


def test_extends_reaches_shared_defaults_and_other_presets() -> None:
    zoo = load("Acrobot-v1:zoo")
    assert zoo.source("agent.normalize_obs") == "presets/defaults/zoo.yaml (normalized-ppo)"
    assert zoo.source("stop.on_solved") == "presets/defaults/zoo.yaml (ppo)"
    lake = load("FrozenLake8x8-v1")
    assert lake.config.env.id == "FrozenLake8x8-v1", "the extending preset keeps its own env"
    assert lake.source("algo.gamma") == "presets/FrozenLake-v1.yaml (ppo)"


def test_variant_may_name_another_env_and_gets_its_facts() -> None:
    resolved = load("LunarLander-v3:continuous")
    assert resolved.config.env.id == "LunarLanderContinuous-v3"
    assert resolved.facts is not None
    assert resolved.facts.actions == ["main engine", "side engines"]


def test_file_with_a_base_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("variants:\n  slow:\n    extends: CartPole-v1:ppo\n    algo: {gamma: 0.5}\n")
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: base.yaml:slow\nagent:\n  # wider\n  hidden: [128]\neval:\nlog: {every: 500}\n")
    resolved = load(str(mine), ["algo.n_epochs=3"])
    assert resolved.config.env.id == "CartPole-v1"
    assert resolved.config.algo.gamma == 0.5
    assert resolved.source("algo.gamma") == f"{tmp_path / 'base.yaml'}:4"
    assert resolved.source("agent.hidden") == f"{mine}:4"
    assert resolved.source("algo.n_epochs") == "--set"
    assert resolved.source("algo.n_steps") == "presets/CartPole-v1.yaml (ppo)"
    assert check_file(mine) == []


def test_file_with_variants_and_facts_of_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "facts:\n  family: mine\n  description: d\n  actions: [a]\n  observations: []\n  reward: {meaning: m}\n"
        "  optimum: 3\n  optimum_source: on paper\n"
        "variants:\n  one: {env: {id: Mine-v0}}\n  two: {extends: one, stop: {threshold: 4}}\n"
    )
    assert load(f"{mine}:one").facts is not None
    assert check_file(mine) == [
        f"{mine}:11: stop.threshold: 4 is above the best possible mean return 3 of Mine-v0 (on paper). Use 3 or less."
    ]


def test_env_without_a_preset_takes_defaults_then_its_spaces() -> None:
    resolved = load("Pusher-v5:a2c")
    assert (resolved.config.env.id, resolved.config.algo.name, resolved.target) == (
        "Pusher-v5",
        "a2c",
        "Pusher-v5:a2c",
    )
    filled = with_space_defaults(resolved, VECTORS | {"algo.ent_coef": 0.0})
    assert filled.config.agent.normalize_obs
    assert filled.source("agent.normalize_obs") == "from the spaces"
    kept = with_space_defaults(load("Pusher-v5", ["agent.normalize_obs=false"]), VECTORS)
    assert not kept.config.agent.normalize_obs, "what the user set stays"
    assert kept.config.algo.ent_coef.value(0) == 0.01
    preset = load("CartPole-v1")
    assert with_space_defaults(preset, VECTORS) is preset
    pictures = with_space_defaults(load("mine:Picture-v0"), PICTURES)
    assert (pictures.config.agent.encoder, pictures.config.agent.hidden) == ("small_cnn", [])
    assert pictures.source("agent.encoder") == "from the spaces"
    other = with_space_defaults(load("mine:Picture-v0", ["agent.encoder=mlp"]), PICTURES).config.agent
    assert (other.encoder, other.shared, other.hidden) == ("mlp", False, [64, 64]), "as they were"


@pytest.mark.parametrize(
    "text,target",
    [
        ("env: {id: 'mine:Own-v0'}\n", "mine:Own-v0"),
        ("extends: mine:Own-v0\n", "mine:Own-v0"),
        ("extends: mine:Own-v0:a2c\n", "mine:Own-v0:a2c"),
        ("extends: Swimmer-v5\n", "Swimmer-v5"),
        ("variants:\n  one: {env: {id: 'mine:Own-v0'}}\n", "mine:Own-v0"),
        ("env: {id: 'mine:Own-v0'}\nalgo: {name: a2c}\n", "mine:Own-v0:a2c"),
        ("env: {id: CartPole-v1}\n", "CartPole-v1"),
        ("env: {id: CartPole-v1}\nalgo: {name: reinforce}\n", "CartPole-v1:reinforce"),
    ],
)
def test_a_file_gets_the_same_defaults_as_its_id(tmp_path: Path, text: str, target: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    mine, by_id = (with_space_defaults(load(one), VECTORS) for one in (str(file), target))
    assert mine.config == by_id.config
    assert mine.generic == by_id.generic
    assert check_file(file) == []


def test_a_file_that_extends_something_gets_that_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("extends: defaults/zoo:ppo\nenv: {id: 'mine:Own-v0'}\n")
    assert not load(str(file)).generic
    assert load(str(file)).config.algo.n_steps == 2048
    file.write_text("extends: CartPol-v1\n")
    (problem,) = check_file(file)
    assert "extends = CartPol-v1: unknown. Did you mean 'CartPole-v1'" in problem


def test_gymnasiums_module_syntax_is_an_env_id() -> None:
    assert load("my_module:Mine-v0", require_env=len).config.env.id == "my_module:Mine-v0"
    assert load("my_module:Mine-v0:a2c", require_env=len).config.algo.name == "a2c"


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, gymnast.config as c; c.load('CartPole-v1'); c.list_presets();"
        "print([m for m in ('torch', 'gymnasium', 'numpy', 'rich', 'envpool') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_run_config_alone_holds_the_rules_too() -> None:
    with pytest.raises(ValueError, match="does not divide"):
        RunConfig.model_validate({"env": {"id": "X"}, "algo": {"batch_size": 100}})
