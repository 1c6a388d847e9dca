"""Presets: every variant loads, and the facts agree with the environments themselves."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import gymnast.envs.suites.own.suite  # noqa: F401, registers them
from gymnast.config import EnvFacts, format_file, list_presets, load, load_facts
from gymnast.config.files import PRESETS, SHARED, preset_ids, shared_names
from gymnast.envs.suites import make
from gymnast.envs.suites.atari.task import is_atari
from gymnast.envs.tabular.oracle import find_table
from gymnast.verbs.envs.facts import wrong_facts
from gymnast.verbs.envs.show import needs

IDS = preset_ids()
FACTS = {name: facts for name in IDS if (facts := load_facts(name)) is not None}
VARIANTS = [f"{preset.id}:{variant}" for preset in list_presets() for variant in preset.variants]


def test_preset_files_are_found_by_name() -> None:
    assert {"CartPole-v1", "LunarLander-v3", "gymnast/Bandit-v0"} <= set(IDS)
    assert list(FACTS) == list(IDS)  # each says what is known of its env
    assert not any(name.startswith(SHARED) for name in IDS)
    assert "defaults/any" in shared_names()


@pytest.mark.parametrize("target", VARIANTS)
def test_variant_loads_and_is_sound(target: str) -> None:
    resolved = load(target)
    assert resolved.target == target
    assert resolved.facts is not None
    assert resolved.threshold is not None
    if resolved.config.stop.on_solved and resolved.facts.solved:
        assert resolved.config.stop.episodes == resolved.facts.solved.episodes, "the verdict takes what the facts ask"


@pytest.mark.parametrize("path", sorted(PRESETS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_file_is_formatted(path: Any) -> None:
    assert not format_file(path, write=False), "run `gymnast config fmt` on it"


@pytest.mark.parametrize("name", ["ppo", "a2c", "reinforce"])
def test_defaults_for_any_env(name: str) -> None:
    assert load(f"Unheard-of-v0:{name}").config.algo.name == name


def made(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """An env as its facts describe it."""
    if missing := needs(FACTS[env_id], env_id):
        pytest.skip(missing)
    return make(env_id, kwargs)


@pytest.mark.parametrize("env_id", IDS)
def test_facts_agree_with_the_env(env_id: str) -> None:
    if missing := needs(FACTS[env_id], env_id):
        pytest.skip(missing)
    assert wrong_facts(env_id, FACTS[env_id]) == []


@pytest.mark.parametrize(
    "change,words",
    [
        ({"actions": ["left"]}, ["facts.actions: 1 labels for 2 actions"]),
        ({"observations": []}, ["facts.observations: 0 components, but the env has 4"]),
        ({"max_episode_steps": 200}, ["facts.max_episode_steps: 200, registered with 500"]),
        ({"reward": {"low": 2, "meaning": "none"}}, ["facts.reward: 2 to inf, but a step paid 1"]),
        (
            {"observations": [{"name": name, "low": -1} for name in "abcd"]},
            [
                "facts.observations: a is bounded by -1.0, in the env by -4.8",
                "facts.observations: a is bounded by None, in the env by 4.8",
                "facts.observations: b is bounded by -1.0, in the env by -inf",
                "facts.observations: c is bounded by -1.0, in the env by -0.418879",
                "facts.observations: c is bounded by None, in the env by 0.418879",
                "facts.observations: d is bounded by -1.0, in the env by -inf",
            ],
        ),
    ],
)
def test_wrong_facts_are_found(change: dict[str, Any], words: list[str]) -> None:
    facts = EnvFacts.model_validate(FACTS["CartPole-v1"].model_dump() | change)
    assert wrong_facts("CartPole-v1", facts) == words


@pytest.mark.parametrize("env_id", [name for name, facts in FACTS.items() if facts.tabular])
def test_stated_optimum_is_the_computed_one(env_id: str) -> None:
    """The number in the file only saves `envs list` from making envs; the table is what it comes from."""
    facts = FACTS[env_id]
    best = facts.best_return(facts.described(env_id))
    assert best is not None
    assert facts.optimum == best.value


def test_optima_without_a_table_are_computed_here() -> None:
    """CartPole pays 1 for each of 500 steps, MuJoCo's pendulum for each of 1000, Pong 1 for each of 21 points, the
    corridor 1 once, to one who remembers; Mario's level ends when it is won. Blackjack has a test of its own below."""
    stated = {name: facts.optimum for name, facts in FACTS.items() if facts.optimum is not None and not facts.tabular}
    poles = {"CartPole-v1", "InvertedPendulum-v5"}
    assert set(stated) == {*poles, "ALE/Pong-v5", "Blackjack-v1", "gymnast/Corridor-v0", "Retro/SuperMarioBros-Nes"}
    for pole in (FACTS[name] for name in poles):
        assert pole.reward.high == 1
        assert pole.optimum == pole.max_episode_steps
    assert stated["ALE/Pong-v5"] == 21
    mario = FACTS["Retro/SuperMarioBros-Nes"]
    assert mario.kwargs["score"] == "win"  # which ends the episode
    assert mario.optimum == mario.reward.high == 1
    corridor, returns = made("gymnast/Corridor-v0"), []
    for seed in range(10):
        shown, total, ended = corridor.reset(seed=seed)[0][0], 0.0, False
        while not ended:
            _, reward, ended, _, _ = corridor.step(int(shown > 0))
            total += float(reward)
        returns.append(total)
    assert returns == [stated["gymnast/Corridor-v0"]] * 10


@pytest.mark.parametrize("target", VARIANTS)
def test_tabular_says_whether_there_is_a_table(target: str) -> None:
    """Of the env as each variant makes it: an exact score belongs to every run on it."""
    resolved = load(target)
    assert resolved.facts is not None
    if is_atari(resolved.config.env.id):
        pytest.skip("pictures")
    if missing := needs(resolved.facts, resolved.config.env.id):
        pytest.skip(missing)
    assert (find_table(resolved.config.env) is not None) == resolved.facts.tabular


def test_blackjack_optimum_by_dynamic_programming() -> None:
    """Infinite deck; the dealer draws to 17; a natural wins unless the dealer has one too."""
    deck = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]

    def total(hard: int, ace: bool) -> int:
        return hard + 10 if ace and hard + 10 <= 21 else hard

    @lru_cache(None)
    def dealer(hard: int, ace: bool) -> dict[int, float]:
        """Chance of each final total; 0 is bust."""
        if (held := total(hard, ace)) >= 17:
            return {held if held <= 21 else 0: 1.0}
        ends: dict[int, float] = {}
        for card in deck:
            for end, chance in dealer(hard + card, ace or card == 1).items():
                ends[end] = ends.get(end, 0.0) + chance / 13
        return ends

    @lru_cache(None)
    def best(hard: int, ace: bool, shown: int) -> float:
        stick = 0.0
        for hidden in deck:
            for end, chance in dealer(shown + hidden, 1 in (shown, hidden)).items():
                stick += chance / 13 * float(np.sign(total(hard, ace) - end))
        hit = sum(-1.0 if hard + card > 21 else best(hard + card, ace or card == 1, shown) for card in deck) / 13
        return max(stick, hit)

    value = 0.0
    for first in deck:
        for second in deck:
            for shown in deck:
                dealer_natural = sum({shown, hidden} == {1, 10} for hidden in deck) / 13
                natural = {first, second} == {1, 10}
                value += (1 - dealer_natural if natural else best(first + second, 1 in (first, second), shown)) / 13**3
    assert FACTS["Blackjack-v1"].optimum == pytest.approx(value, abs=5e-5)
