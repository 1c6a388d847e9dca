"""Every mistake is one line: where, key, value, what, fix; all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gymnast.config import ConfigError, check_file, list_presets, load, validate
from gymnast.core.errors import UserError
from gymnast.envs.suites import find_spec


def problems(target: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(target, overrides)
    assert str(caught.value).splitlines() == caught.value.problems, "one line a problem"
    return caught.value.problems


@pytest.mark.parametrize(
    "override, words",
    [
        ("algo.n_envs=4", "--set: algo.n_envs = 4: unknown key. Did you mean 'env.n_envs'"),
        ("n_envs=4", "Did you mean 'env.n_envs'"),
        ("algo.gama=0.9", "--set: algo.gama = 0.9: unknown key. Did you mean 'algo.gamma'?"),
        ("stop.plateau={evls: 3, evals: 2}", "Did you mean 'stop.plateau.evals'?"),
        ("zzz.qqq=1", "--set: zzz = {qqq: 1}: unknown key."),
        ("algo.baseline=mean", "ppo has no baseline; it belongs to reinforce."),
        ("algo.name=pp", "algo.name = pp: must be one of ppo, a2c, reinforce. Did you mean 'ppo'?"),
        ("agent.activation=tanj", "must be one of tanh, relu, elu, gelu, silu, leaky_relu. Did you mean 'tanh'?"),
        ("train.total_timesteps=-5", "train.total_timesteps = -5: must be at least 1."),
        ("env.n_envs=2.5", "env.n_envs = 2.5: must be a whole number."),
        ("env.n_envs=true", "env.n_envs = true: must be a number."),
        ("env.n_envs=many", "env.n_envs = many: must be a number."),
        ("agent.layer_norm=perhaps", "must be true or false."),
        (
            "agent={layer_norm: true, batch_norm: true}",
            "agent.batch_norm: agent.layer_norm is true as well. Choose one",
        ),
        ("agent.normalize_pictures=true", "agent.encoder=mlp has none. Use small_cnn, nature_cnn or impala_cnn, or"),
        ("agent.hidden=64", "agent.hidden = 64: must be a list"),
        ("agent.hidden=[64, 0]", "agent.hidden[1] = 0: must be at least 1."),
        ("algo.gamma=1.01", "must be at most 1."),
        ("algo.max_grad_norm=.inf", "must be a finite number."),
        ("algo.learning_rate=0", "algo.learning_rate = 0: must be positive."),
        ("algo.ent_coef={start: 0.1, end: -0.1}", "must never be negative; it reaches -0.1."),
        ("algo.clip_range=quick", "'quick' is not a schedule. Use a number"),
        ("algo.learning_rate={points: [[0.5, 1], [0.1, 0]]}", "ordered by progress"),
        ("algo.reset_optimizer_on_lr_jump=1", "must be more than 1"),
        ("env=3", "env = 3: must be a mapping"),
        ("env.wrappers=[7]", "env.wrappers[0] = 7: 7 is not a wrapper. Write a name, or {name: {param: value}}."),
        ("stop.plateau={min_delta: 1}", "stop.plateau.evals: is missing."),
    ],
)
def test_one_wrong_value_is_one_line(override: str, words: str) -> None:
    (problem,) = problems("CartPole-v1", override)
    assert problem.startswith("--set: ")
    assert words in problem


@pytest.mark.parametrize(
    "overrides, words",
    [
        (
            ["algo.batch_size=100"],
            "--set: algo.batch_size: 100 does not divide the rollout of 32 x 64 = 2048 samples."
            " Use --set algo.batch_size=128 (or 64, 256).",
        ),
        (["train.total_timesteps=100"], "100 is less than one rollout of 32 x 64 = 2048 steps"),
        (["algo.batch_size=1"], "1 sample has no standard deviation to normalise by"),
        (
            ["algo.name=reinforce", "algo.baseline=none"],
            "--set: algo.target: advantages are returns minus a baseline, and algo.baseline is none.",
        ),
        (
            ["agent.sequence_length=8"],
            "--set: agent.sequence_length: only a memory has it, and agent.memory is null. Set agent.memory=lstm",
        ),
        (["agent.memory_size=8", "agent.sequence_length=16"], "agent.memory_size: only a memory has it"),
        (
            ["agent.memory=gru", "agent.sequence_length=13"],
            "13 does not divide algo.n_steps=64. Use --set agent.sequence_length=16 (or 8, 32).",
        ),
        (["agent.forget_bias=1"], "agent.forget_bias: only an LSTM has forget gates."),
        (["agent.shared=true", "agent.critic_hidden=[8]"], "agent.critic_hidden: actor and critic share their network"),
        (["agent.shared=true", "algo.critic_learning_rate=1e-3"], "algo.critic_learning_rate: actor and critic share"),
        (["algo.desired_kl=0.01"], "algo.learning_rate: a rate that algo.desired_kl adapts has no schedule."),
        (["stop.plateau={evals: 3}", "eval.every=0"], "a plateau is seen by evaluations"),
        (["agent.encoder=mpl"], "unknown encoder 'mpl'. Did you mean 'mlp'?"),
        (["log.sinks=[consol]"], "unknown sink 'consol'. Did you mean 'console'?"),
        (["log.sinks=[console, console]"], "'console' is listed twice"),
        (["env.wrappers=[frame_stak]"], "unknown wrapper 'frame_stak'. Did you mean 'frame_stack'"),
        (["env.wrappers=[{frame_stack: {n: 4, m: 4}}]"], "has no parameter 'm'"),
    ],
)
def test_rules_between_keys_show_their_arithmetic(overrides: list[str], words: str) -> None:
    (problem,) = problems("CartPole-v1", *overrides)
    assert words in problem


VARIANTS = [f"{preset.id}:{name}" for preset in list_presets() for name in preset.variants]
MEMORY = [target for target in VARIANTS if load(target).config.agent.memory]


@pytest.mark.parametrize("n_envs", [1, 3, 7, 12, 20, 33, 100])
@pytest.mark.parametrize("target", ["CartPole-v1", "LunarLander-v3", "Hopper-v5:zoo", "ALE/Pong-v5", *MEMORY])
def test_another_number_of_envs_comes_with_the_nearest_batch(target: str, n_envs: int) -> None:
    """Whatever the message offers is loaded, and no other divisor of the rollout is nearer to the preset's batch."""
    usual = load(target).config
    try:
        config = load(target, [f"env.n_envs={n_envs}"]).config
    except ConfigError as error:
        (problem,) = error.problems
        (offered,) = re.findall(r"Use --set (algo\.batch_size=\d+)", problem)
        config = load(target, [f"env.n_envs={n_envs}", offered]).config
    rollout, wish = n_envs * usual.algo.n_steps, usual.algo.batch_size
    unit = usual.agent.sequence_length if usual.agent.memory else 1
    fit = [size for size in range(unit, rollout + 1, unit) if rollout % size == 0]
    assert abs(config.algo.batch_size - wish) == min(abs(size - wish) for size in fit)


def test_advice_on_a_memory_holds_for_both_of_its_rules() -> None:
    """20 steps: sequences of 16 become 20, and a batch of 256 becomes 240 (12 envs x 20), all reported at once."""
    settings = ["agent.memory=lstm", "env.n_envs=12", "algo.n_steps=20", "algo.batch_size=256"]
    found = problems("CartPole-v1", *settings)
    offered = [setting for problem in found for setting in re.findall(r"Use --set (\S+=\d+)", problem)]
    assert sorted(offered) == ["agent.sequence_length=20", "algo.batch_size=240"]
    assert load("CartPole-v1", [*settings[:3], *offered]).config.rollout_steps == 240


def test_all_problems_of_an_algorithm_are_reported_at_once() -> None:
    both = problems("CartPole-v1", "algo.name=reinforce", "algo.baseline=none", "agent.memory=lstm")
    assert [problem.split(": ")[1] for problem in both] == ["algo.target", "algo.name"]


def test_threshold_above_the_optimum_is_refused() -> None:
    (problem,) = problems("Taxi-v4", "stop.threshold=8")
    assert "stop.threshold: 8 is above the best possible mean return 7.93 of Taxi-v4" in problem
    assert load("Taxi-v4", ["stop.threshold=7.93"]).threshold == 7.93


def test_optimum_is_that_of_the_env_as_it_is_made() -> None:
    # Without slipping the goal is always reached: 1.0 is possible where 0.7442 was the best.
    assert load("FrozenLake-v1", ["env.kwargs.is_slippery=false", "stop.threshold=0.99"]).threshold == 0.99
    (problem,) = problems("FrozenLake-v1", "env.kwargs.is_slippery=false", "stop.threshold=1.01")
    assert "1.01 is above the best possible mean return 1 of FrozenLake-v1" in problem
    # With more time more episodes arrive, with less time fewer.
    assert load("FrozenLake-v1", ["env.max_episode_steps=1000", "stop.threshold=0.8"]).threshold == 0.8
    (problem,) = problems("FrozenLake-v1", "env.max_episode_steps=50", "stop.threshold=0.7", "stop.target=null")
    assert "0.7 is above the best possible mean return 0.5" in problem
    assert "50 steps" in problem
    # CartPole has no table, and 500 is the best for its own limit only.
    assert load("CartPole-v1", ["env.max_episode_steps=1000", "stop.threshold=900"]).threshold == 900


def test_all_problems_come_at_once() -> None:
    found = problems(
        "Taxi-v4",
        "agent.activation=tanj",
        "algo.gama=0.9",
        "eval.episodes=0",
        "algo.batch_size=100",  # a rule between good keys
        "stop.threshold=8",  # against the facts
    )
    keys = [problem.split(": ")[1].split(" = ")[0] for problem in found]
    assert keys == ["agent.activation", "algo.gama", "eval.episodes", "algo.batch_size", "stop.threshold"]


def test_rule_about_a_key_that_is_wrong_itself_is_not_added() -> None:
    assert len(problems("CartPole-v1", "algo.batch_size=0")) == 1


@pytest.mark.parametrize("text", ["foo", "=3", "algo..gamma=1", ".a=1"])
def test_override_must_be_key_and_value(text: str) -> None:
    (problem,) = problems("CartPole-v1", text)
    assert problem.startswith(f"--set {text}: write key=value, like algo.learning_rate=3e-4")


def test_override_value_must_be_yaml() -> None:
    (problem,) = problems("CartPole-v1", "env.kwargs=[1")
    assert problem == "--set env.kwargs=[1: '[1' is not a YAML value. Quote text with special characters."


def test_variant_typo_names_the_nearest() -> None:
    assert problems("CartPole-v1:pppo") == [
        "CartPole-v1: unknown variant 'pppo'. Did you mean 'ppo'? "
        "Known: ppo, a2c, reinforce, centred, and-acrobot, no-velocity, no-velocity-mlp, zoo, zoo-a2c."
    ]


def test_env_typo_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"there is no env 'CartPol-v1'\. Did you mean 'CartPole-v1'"):
        load("CartPol-v1", require_env=find_spec)
    assert load("Pusher-v5", require_env=find_spec).config.env.id == "Pusher-v5"


@pytest.mark.parametrize(
    "text, words",
    [
        ("env: {id: X\n", ":2: column 1: broken YAML: "),
        ("env:\n  id: X\n  id: Y\n", ":3: env.id is given twice."),
        ("env: &a {id: X}\n", ":1: anchor &a: anchors are not supported. Use `extends`."),
        ("- 1\n", "Expected `key: value` lines."),
        ("env: {id: !!python/name:os.system X}\n", "is not supported. Write a plain value."),
        ("env: {id: X}\nagnet: {}\n", ":2: agnet: unknown key. Did you mean 'agent'?"),
        ("variants:\n  a:\n    envs: {}\n", ":3: variants.a.envs: unknown key. Did you mean 'env'"),
        ("variants: [a]\n", ":1: variants: must be a mapping"),
        ("env: {n_envs: 2}\n", "env.id: is missing."),
        ("env: {id: X}\nalgo:\n  gamma: 2\n", ":3: algo.gamma = 2: must be at most 1."),
        ("extends: CartPole-v1:pppo\n", ":1: extends = CartPole-v1:pppo: CartPole-v1: unknown variant 'pppo'."),
        ("extends: CartPol-v1\n", ":1: extends = CartPol-v1: unknown. Did you mean 'CartPole-v1'"),
        ("extends: [a, b]\n", "must name one variant"),
        ("variants:\n  a: {extends: b}\n  b: {extends: a}\n", "extends runs in a circle: "),
        ("facts: {family: x}\nenv: {id: X}\n", ":1: facts: description: is missing. Add it, or remove facts"),
    ],
)
def test_file_mistakes_name_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(file))
    assert caught.value.problems[0].startswith(str(file))
    assert words in str(caught.value)
    assert check_file(file)[0] == caught.value.problems[0]


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "fast.yaml").write_text("env: {id: X}\n")
    (problem,) = problems(str(tmp_path / "fest.yaml"))
    assert "no such file. Did you mean 'fast.yaml'?" in problem
    (problem,) = problems(str(tmp_path / "none" / "fast.yaml"))
    assert "There is no folder" in problem


def test_plain_data_is_validated_without_places() -> None:
    with pytest.raises(ConfigError) as caught:
        validate({"env": {"id": "X"}, "algo": {"gamma": 2}})
    assert caught.value.problems == ["algo.gamma = 2: must be at most 1."]


def test_a_setting_of_a_task_is_blamed_on_who_set_it() -> None:
    """The preset sets the others of env.kwargs."""
    (problem,) = problems("VizdoomBasic-v1", "env.kwargs.stack=0")
    assert problem == "--set: env.kwargs: stack = 0: must be at least 1."
    (problem,) = problems("Retro/Airstriker-Genesis", "env.kwargs.training.frame_skip=0")
    assert problem.startswith("--set: env.kwargs: training.frame_skip = 0: must be")


def test_a_setting_that_no_task_or_stage_would_get_is_refused() -> None:
    """Their kwargs change those of env key by key."""
    mario = "Retro/SuperMarioBros-Nes"
    (problem,) = problems(f"{mario}:levels", "env.kwargs.state=Level2-1")
    assert problem == (
        "--set: env.kwargs.state: every task has its own state, so this changes nothing. Change `tasks` instead."
    )
    fewer = load(f"{mario}:levels", ["env.kwargs.frame_skip=2"]).config
    assert [env.kwargs["frame_skip"] for env in fewer.task_envs] == [2] * 9
    curriculum = load(f"{mario}:curriculum", ["env.kwargs.state=Level2-1"]).config  # where the first stage begins
    states = [part.env.kwargs["state"] for part in curriculum.parts]
    assert states[:2] == ["Level2-1", "Level1-4"]
    assert {part.env.kwargs["score"] for part in curriculum.parts} == {"win"}
