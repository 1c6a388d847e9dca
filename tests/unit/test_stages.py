"""The settings of a curriculum, and the arithmetic of forgetting."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

import gymnast
from gymnast.config import ConfigError, diff, dump, load, validate
from gymnast.config.files import parse_yaml
from gymnast.core.errors import UserError
from gymnast.judge.stages import NO_STAGES, Stage, StageEnd, stage_row
from gymnast.sinks.console.console import ConsoleSink
from gymnast.verbs.envs.check_all import _key
from gymnast.verbs.speed.libraries.translation import refuse
from tests.sinks_for_tests import run_info

SHORT = {"env": {"max_episode_steps": 30}, "advance": {"steps": 2048}}
LONG = {"env": {"wrappers": ["flatten"]}, "advance": {"score": 100, "plateau": {"evals": 3}}}


def data_of(stages: dict[str, Any], **sections: dict[str, Any]) -> dict[str, Any]:
    return {"env": {"id": "CartPole-v1", "kwargs": {"sutton_barto_reward": False}}, "stages": stages, **sections}


def problems(stages: dict[str, Any], **sections: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as found:
        validate(data_of(stages, **sections))
    return found.value.problems


def test_a_stage_is_the_run_with_its_env() -> None:
    stop = {"threshold": 400, "target": 450, "plateau": {"evals": 9}}
    config = validate(data_of({"short": SHORT, "long": LONG, "full": {}}, stop=stop))
    first, second, last = (config.in_stage(index) for index in range(3))
    assert first.env == config.env.model_copy(update={"max_episode_steps": 30})
    assert [spec.name for spec in second.env.wrappers] == ["flatten"]
    assert last.env == config.env
    assert last.stop == config.stop  # the run's goals are the last stage's
    assert (first.stop.threshold, first.stop.target, first.stop.plateau) == (None, None, None)
    assert second.stop.plateau is not None
    assert second.stop.plateau.evals == 3
    assert not first.stages
    assert config.in_stage(-1) == last


def test_another_id_starts_from_its_own_kwargs() -> None:
    config = validate(data_of({"a": {"env": {"id": "CartPole-v0"}, "advance": {"steps": 9}}, "b": {}}))
    assert config.in_stage(0).env.kwargs == {}
    assert config.in_stage(1).env.kwargs == {"sutton_barto_reward": False}


def test_a_run_without_stages_is_one() -> None:
    config = load("CartPole-v1").config
    assert config.in_stage(0) is config
    assert Stage.of(config, 0) == NO_STAGES
    assert "stages" not in dump(config)


def test_an_empty_map_switches_the_stages_of_a_preset_off() -> None:
    assert load("LunarLander-v3:curriculum").config.stages
    assert load("LunarLander-v3:curriculum", ["stages={}"]).config.stages == {}
    nothing_added = load("LunarLander-v3:curriculum", ["env.kwargs={}"]).config
    assert nothing_added.env == load("LunarLander-v3:curriculum").config.env


def test_all_problems_at_once() -> None:
    stages = {
        "one": {},
        "two": {"advance": {}},
        "3 4": {"env": {"wrappers": ["flaten"]}, "advance": {"steps": 10}},
        "last": {"advance": {"score": 3}},
    }
    keys = [problem.partition(": ")[0] for problem in problems(stages)]
    assert keys == [
        "stages.3 4.env.wrappers",
        "stages.one.advance",
        "stages.two.advance",
        "stages.3 4",
        "stages.last.advance",
    ]


def test_what_begins_the_next_stage_must_be_said() -> None:
    assert problems({"one": {}, "two": {}}) == [
        "stages.one.advance: what begins 'two' is missing. Set score, steps or plateau."
    ]


def test_scores_need_evaluations() -> None:
    stages = {"one": {"advance": {"score": 30}}, "two": {}}
    (problem,) = problems(stages, eval={"every": 0})
    assert problem.startswith("stages.one.advance: scores and plateaus are seen by evaluations")
    validate(data_of({"one": {"advance": {"score": 30, "steps": 4096}}, "two": {}}, eval={"every": 0}))


def test_steps_must_be_left_for_the_last_stage() -> None:
    """2048 + 4096 = 6144 of 6144 steps."""
    stages = {"one": {"advance": {"steps": 2048}}, "two": {"advance": {"steps": 4096}}, "three": {}}
    small = {"algo": {"n_steps": 32, "batch_size": 64}}
    (problem,) = problems(stages, train={"total_timesteps": 6144}, **small)
    assert "6144 leaves no step for 'three': the stages before it take 6144 (2048 + 4096)" in problem
    validate(data_of(stages, train={"total_timesteps": 6145}, **small))


def test_a_score_above_the_optimum_is_refused() -> None:
    """CartPole-v1 pays 1 a step and is cut at 500."""
    (problem,) = problems({"one": {"advance": {"score": 501}}, "two": {}}, env={"id": "CartPole-v1"})
    assert problem.startswith("stages.one.advance.score: 501 is above the best possible mean return 500")


@pytest.mark.parametrize(
    "setting, said",
    [
        ("stages.plain.advance.skore=3", "Did you mean 'stages.plain.advance.score'?"),
        ("stages.plain.envv={}", "Did you mean 'stages.plain.env'?"),
        ("stages.plain.advance.steps=0", "must be at least 1"),
        ("stages=3", "must be a mapping"),
    ],
)
def test_mistakes_inside_a_stage_name_the_key(setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match="stages") as found:
        load("LunarLander-v3:curriculum", [setting])
    assert said in str(found.value)
    assert len(found.value.problems) == 1


def test_stages_are_set_and_shown_key_by_key() -> None:
    before = load("LunarLander-v3:curriculum").config
    after = load("LunarLander-v3:curriculum", ["stages.plain.advance.score=150"]).config
    assert diff(before, after) == [("stages.plain.advance.score", before.stages["plain"].advance.score, 150.0)]  # type: ignore[union-attr]
    assert list(after.stages) == ["plain", "wind", "randomised"]
    assert validate(parse_yaml(dump(after), "dump").data) == after


def test_the_threshold_is_that_of_the_last_stage() -> None:
    stages = "stages={cart: {env: {max_episode_steps: 50}, advance: {steps: 2000}}, other: {env: {id: CartPole-v0}}}"
    assert load("CartPole-v1", [stages]).threshold is None  # CartPole-v0 has no preset, so no facts
    back = "stages={cart: {env: {id: CartPole-v0}, advance: {steps: 2000}}, other: {}}"
    assert load("CartPole-v1", [back]).threshold == 475


def test_forgetting_is_what_was_earned_and_is_no_longer() -> None:
    """Stage a ended with 90 and earns 60 now: 30 are forgotten. Stage b earns 5 more than at its end: -5."""
    ends = {"a": StageEnd(100, 90.0), "b": StageEnd(200, 10.0)}
    assert stage_row({"a": 60.0, "b": 15.0, "c": 1.0}, ends) == {
        "stage/a/mean_reward": 60.0,
        "stage/b/mean_reward": 15.0,
        "stage/c/mean_reward": 1.0,
        "forgetting/a": 30.0,
        "forgetting/b": -5.0,
    }


def test_python_models_have_no_stages() -> None:
    with pytest.raises(UserError, match="a model trains in one env"):
        gymnast.PPO("LunarLander-v3:curriculum")
    with pytest.raises(UserError, match="a model trains in one env"):
        gymnast.PPO("CartPole-v1", set={"stages": {"a": SHORT, "b": {}}})
    with pytest.raises(UserError, match="a model trains in one env"):
        gymnast.PPO("MlpPolicy", "CartPole-v1:and-acrobot")


@pytest.mark.parametrize("target", ["CartPole-v1:and-acrobot", "LunarLander-v3:curriculum"])
def test_what_only_gymnast_has_is_not_compared_with_other_libraries(target: str) -> None:
    with pytest.raises(UserError, match="only Gymnast has tasks and stages"):
        refuse(load(target).config, "sb3", "stable-baselines3", ["ppo"])


def test_envs_check_builds_the_envs_of_tasks_and_stages() -> None:
    assert [part.env.id for part in load("CartPole-v1:and-acrobot").config.parts] == ["CartPole-v1", "Acrobot-v1"]
    stages = load("LunarLander-v3:curriculum").config.parts
    assert stages[-1].env.id == "gymnast/RandomisedLunarLander-v0"
    assert load("CartPole-v1").config.parts == [load("CartPole-v1").config]
    assert len({_key(load(target)) for target in ("CartPole-v1", "CartPole-v1:and-acrobot")}) == 2


def test_the_live_console_names_the_stage() -> None:
    info = run_info()
    sink = ConsoleSink(replace(info, config=info.config | {"stages": {"short": {}, "full": {}}}), io.StringIO())
    titles = []
    for row in ({}, {"time/stage": 2.0}):
        sink.write(100, {"time/total_timesteps": 100.0, **row})
        console = Console(file=io.StringIO(), width=120, record=True)
        console.print(sink.render())
        titles.append(console.export_text().splitlines()[0])
    sink.close()
    assert "seed 1 · stage 1 of 2: short" in titles[0]
    assert "seed 1 · stage 2 of 2: full" in titles[1]
