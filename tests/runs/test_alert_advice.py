"""What alerts advise: nothing against a preset's own values, and what a run has changed by name."""

from __future__ import annotations

import math
import shlex

import pytest

from gymnast import config as configs
from gymnast.alerts.advice import FREE, Known, Origin, advise
from gymnast.alerts.alert import Alert, Evidence
from gymnast.alerts.book import AlertBook
from gymnast.alerts.rules import RULES
from gymnast.alerts.text import evidence_text

Row = dict[str, float]
PRESETS = [f"{preset.id}:{name}" for preset in configs.list_presets() for name in preset.variants]


def known_of(target: str, *settings: str) -> Known:
    resolved = configs.load(target, settings)
    origin = Origin(target, settings)
    return Known(resolved.config.in_stage(0), resolved.facts, resolved.threshold, math.log(3), origin)


def alerts_of(known: Known, rule: str, *rows: Row) -> list[Alert]:
    """What one rule makes of rows in the second half of a run."""
    book = AlertBook(known, [one for one in RULES if one.name == rule])
    for number, row in enumerate(rows):
        progress = 0.3 + 0.69 * number / len(rows)
        book.check({"time/total_timesteps": 100.0 * number, "time/progress": progress, **row})
    return book.alerts


def score(mean: float, std: float = 0.0, **others: float) -> Row:
    found = {"ep_rew_mean": mean, "ep_rew_std": std, "ep_rew_min": mean - std, "ep_rew_max": mean + std}
    return {f"rollout/{name}": value for name, value in {**found, **others}.items()}


@pytest.mark.parametrize("target", PRESETS)
def test_nothing_is_advised_against_a_presets_own_values(target: str) -> None:
    """Whatever fires: as long as all is as in the preset, only a longer run or another way to judge may be tried."""
    known = known_of(target, "train.seed=831")
    for rule in RULES:
        if rule.cures is not None:
            continue  # it compares settings alone, and is silent here: see test_no_preset_starves_itself
        cause, patch = advise(known, rule.suspects, rule.otherwise, compares=rule.compares)
        assert all(key.startswith((*FREE, "eval.")) for key in patch or ()), (rule.name, cause, patch)


DROPPED = "env.wrappers=[{drop_components: {indices: [0]}}]"
SHORT = ("env.max_episode_steps=20", "stop.threshold=0.002", "stop.target=null")
FLAT = [score(-1200.0, 20.0)] + [score(-1190.0, 20.0)] * 40
RISING = [score(-1300.0 + 7.0 * number, 20.0) for number in range(41)]
NO_GOAL = [score(-200.0, ep_len_mean=200.0, truncated_fraction=1.0, reward_nonzero_fraction=1.0)] * 5


@pytest.mark.parametrize(
    ("rule", "target", "changed", "rows", "patch"),
    [
        ("plateau", "Pendulum-v1", (DROPPED,), FLAT, {"env.wrappers": []}),
        (
            "returns_alike",
            "MountainCar-v0:zoo",
            ("agent.normalize_obs=false", "env.n_envs=4", "algo.n_steps=32"),
            NO_GOAL,
            {"env.n_envs": 16, "agent.normalize_obs": True, "algo.n_steps": 16},
        ),
        (
            "reward_sparse",
            "FrozenLake8x8-v1",
            SHORT,
            None,
            {"env.max_episode_steps": None},
        ),
        ("below_threshold", "Pendulum-v1", (DROPPED,), RISING, {"env.wrappers": []}),
        # a suspect that is far from the preset comes first
        ("plateau", "Pendulum-v1", (DROPPED, "algo.gamma=0.5"), FLAT, {"algo.gamma": 0.95}),
    ],
)
def test_what_a_run_has_changed_is_named_where_no_suspect_is_unusual(
    rule: str, target: str, changed: tuple[str, ...], rows: list[Row] | None, patch: dict[str, object]
) -> None:
    rows = rows or [score(0.0, reward_nonzero_fraction=0.0)] * 8
    (alert,) = alerts_of(known_of(target, *changed), rule, *rows)
    assert alert.patch == patch
    assert all(key in alert.cause for key in patch)
    assert alert.command is not None
    given = [word for word in shlex.split(alert.command)[3:] if word != "--set"]
    assert len(given) == len({*patch, *(text.partition("=")[0] for text in changed)})


def test_a_score_below_the_threshold_is_no_alert_where_all_is_as_in_the_preset() -> None:
    assert alerts_of(known_of("Pendulum-v1", "train.seed=831"), "below_threshold", *RISING) == []
    solved = [score(-150.0, 20.0)] * 41
    assert alerts_of(known_of("Pendulum-v1", DROPPED), "below_threshold", *solved) == []


def test_episodes_of_a_known_env_that_are_all_cut_are_an_alert_only_where_the_config_cuts_them() -> None:
    rows = [score(-1200.0, 20.0, truncated_fraction=1.0, ep_len_mean=200.0)] * 40
    assert alerts_of(known_of("Pendulum-v1", DROPPED), "all_cut", *rows) == []
    # a bad agent may have ended before the limit
    rows = [score(-1200.0, 20.0, truncated_fraction=0.5, ep_len_mean=15.0), *rows]
    (alert,) = alerts_of(known_of("Pendulum-v1", "env.max_episode_steps=20"), "all_cut", *rows)
    assert alert.patch == {"env.max_episode_steps": None}


WON = [score(0.0, 0.0, ep_shaped_rew_mean=900.0, reward_cut_fraction=0.0)] * 5


def test_shaping_is_an_alert_only_where_it_is_not_the_presets() -> None:
    """Mario is scored by wins and paid by pixels: 900 for a game that scores 0."""
    mario = "Retro/SuperMarioBros-Nes:ppo"
    assert alerts_of(known_of(mario), "reward_altered", *WON) == []
    assert alerts_of(known_of(mario, "env.n_envs=8"), "reward_altered", *WON) == []
    (alert,) = alerts_of(known_of(mario, "env.shaping.progress=100"), "reward_altered", *WON)
    assert alert.patch == {"env.shaping.progress": 1.0}


def collapse(*rows: Row) -> list[Alert]:
    return alerts_of(Known(configs.load("CartPole-v1").config, None, None, math.log(2)), "action_collapse", *rows)


def test_a_collapse_without_a_threshold_is_one_only_where_the_score_is_poor() -> None:
    one_action = {"rollout/action_std": 0.0}
    began = score(0.5, 0.5)
    perfect = score(1.0) | one_action
    assert collapse(began, *[perfect] * 5) == []
    assert collapse(began, *[score(5.0, 0.4) | one_action] * 5) == []  # has risen, and nobody knows how far it can
    assert collapse(began, *[score(0.4, 0.5) | one_action] * 5)
    # all returns alike, and below the best that was seen
    assert collapse(score(0.1, 0.3, ep_rew_max=2.0), *[score(0.5) | one_action] * 5)


@pytest.mark.parametrize(
    ("value", "low", "text"),
    [
        (0.0, 1e-4, "reward_nonzero_fraction none"),
        (3e-5, 1e-4, "reward_nonzero_fraction 3e-05 < 0.0001"),
        (0.001, 0.01, "reward_nonzero_fraction 0.1% < 1.0%"),
    ],
)
def test_evidence_never_says_that_a_number_is_less_than_itself(value: float, low: float, text: str) -> None:
    assert evidence_text("rollout/reward_nonzero_fraction", Evidence(value, low=low)) == text
