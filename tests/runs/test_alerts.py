"""Alert rules on rows of real, short runs: each fires where a setting was spoilt, and is silent where none was."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch

from gymnast import config as configs
from gymnast.alerts.advice import Known, Origin, described
from gymnast.alerts.alert import SEVERITIES, Alert, Evidence, read_alerts, write_alerts
from gymnast.alerts.book import AlertBook
from gymnast.alerts.rules import RULES
from gymnast.alerts.suspects import SHORT_SIGHT
from gymnast.alerts.text import alert_line, kept_text
from gymnast.metrics.catalogue import catalogue
from gymnast.sinks import SinkGroup
from gymnast.sinks.base import Sink
from gymnast.sinks.folder import FolderSink
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState
from tests.invariants.conftest import collect
from tests.sinks_for_tests import run_info

Row = dict[str, float]
QUICK = ("eval.episodes=5", "stop.episodes=5", "log.every=1")
SHORT = "train.total_timesteps=40960"


@cache
def trained(target: str, *settings: str) -> tuple[AlertBook, tuple[Row, ...]]:
    """A whole run, its alert book and its rows. Several tests look at the same one."""
    resolved = configs.load(target, [*QUICK, *settings])
    session = build(resolved.config, resolved.threshold)
    session.alerts.known.origin = Origin(target, settings)
    rows: list[Row] = []
    try:
        train(session, observer=rows.append)
    finally:
        session.close()
    return session.alerts, tuple(rows)


def alert(book: AlertBook, rule: str) -> Alert:
    found = [one for one in book.alerts if one.rule == rule]
    assert found, f"{rule} is silent; firing: {[one.rule for one in book.alerts]}"
    return found[0]


# A rate that breaks the agent in its first update, and episodes so short that no luck raises the score afterwards
BROKEN = ("algo.learning_rate=1.0", "algo.vf_coef=0", "env.max_episode_steps=8")
# Units that are dead for good: the agent does the same whatever it sees, and its score stays low
DEAD = ("algo.learning_rate=1.0", "env.max_episode_steps=30", "agent.activation=relu")
# rule, target, what is spoilt, the patch that must be advised. Each trips its rule with every seed: a run that diverges
# is another one on another processor.
SPOILT = [
    ("not_finite", "CartPole-v1", ("algo.learning_rate=1e38",), {"algo.learning_rate": "lin_0.003"}),
    ("starved", "CartPole-v1", ("algo.batch_size=8192", "env.n_envs=256"), {"algo.batch_size": 256}),
    ("starved", "CartPole-v1:a2c", ("env.n_envs=64",), {"env.n_envs": 8}),
    ("reward_scale", "CartPole-v1", ("env.reward.scale=1e4",), {"env.reward.scale": 1.0}),
    ("reward_scale", "CartPole-v1", ("env.reward.scale=1e-6",), {"env.reward.scale": 1.0}),
    ("reward_altered", "Pendulum-v1", ("env.reward.clip=0.01",), {"env.reward.clip": None}),
    ("reward_altered", "LunarLander-v3", ("env.shaping.time=50",), {"env.shaping.time": 0.5}),
    ("horizon_short", "CartPole-v1", ("algo.gamma=0.5",), {"algo.gamma": 0.99}),
    ("kl_high", "CartPole-v1:a2c", ("algo.learning_rate=1.0",), {"algo.learning_rate": "lin_0.003"}),
    ("clip_fraction_high", "CartPole-v1", ("algo.clip_range=0.001",), {"algo.clip_range": 0.3}),
    ("update_tiny", "CartPole-v1", ("algo.learning_rate=3e-6",), {"algo.learning_rate": "lin_0.003"}),
    ("update_tiny", "CartPole-v1:reinforce", ("algo.learning_rate=1e-6",), {"algo.learning_rate": "lin_0.01"}),
    ("entropy_stuck", "CartPole-v1", ("algo.ent_coef=10.0",), {"algo.ent_coef": 0.0}),
    ("entropy_collapse", "CartPole-v1", ("algo.learning_rate=1.0",), {"algo.learning_rate": "lin_0.003"}),
    ("entropy_falling", "CartPole-v1", BROKEN, {"algo.learning_rate": "lin_0.003"}),
    ("action_collapse", "CartPole-v1", DEAD, {"algo.learning_rate": "lin_0.003"}),
    ("dead_units", "CartPole-v1", ("algo.learning_rate=1.0",), {"algo.learning_rate": "lin_0.003"}),
    ("critic_wrong", "CartPole-v1", ("algo.vf_coef=0",), {"algo.vf_coef": 0.5}),
    ("gradient_large", "CartPole-v1", ("algo.max_grad_norm=1e-8",), {"algo.max_grad_norm": 0.5}),
    ("gradient_vanishes", "CartPole-v1", BROKEN, {"algo.learning_rate": "lin_0.003"}),
    ("std_grows", "Pendulum-v1", ("algo.ent_coef=10.0", "algo.learning_rate=0.01"), {"algo.ent_coef": 0.0}),
    ("advantage_scale", "CartPole-v1:a2c", ("algo.normalize_advantage=off", "env.reward.scale=1000"), None),
    ("all_cut", "CartPole-v1", ("env.max_episode_steps=8",), {"env.max_episode_steps": None}),
    ("plateau", "CartPole-v1", DEAD, {"algo.learning_rate": "lin_0.003"}),
]


@pytest.mark.parametrize(("rule", "target", "spoilt", "patch"), SPOILT, ids=[f"{s[0]}-{s[2][0]}" for s in SPOILT])
def test_a_spoilt_setting_trips_the_rule_and_is_found(
    rule: str, target: str, spoilt: tuple[str, ...], patch: dict[str, object] | None
) -> None:
    book, rows = trained(target, *spoilt, SHORT, "stop.on_solved=false")
    found = alert(book, rule)
    assert found.count >= 1
    assert 0 < found.since <= found.last <= rows[-1]["time/total_timesteps"]
    assert found.evidence
    assert all(name in catalogue() for name in found.evidence)
    if patch is not None:
        assert found.patch == patch
        key, value = next(iter(patch.items()))
        assert found.command is not None
        assert f"--set {key}=" in found.command
        # the advised command is a valid one, and says what the patch says
        words = found.command.split()
        assert words[:3] == ["gymnast", "train", target]
        given = [word for word in words[3:] if word != "--set"]
        changed = configs.load(target, given).config.model_dump(mode="json")
        section, *names = key.split(".")
        part = changed[section]
        for name in names:
            part = part[name]
        assert part == value


WHOLE = ["CartPole-v1", "CartPole-v1:a2c", "CartPole-v1:reinforce", "CartPole-v1:centred", "FrozenLake-v1"]
BEGUN = ["Pendulum-v1", "LunarLander-v3"]  # whole ones take minutes: as long as the spoilt runs, as they are


@pytest.mark.parametrize(("target", "settings"), [(one, ()) for one in WHOLE] + [(one, (SHORT,)) for one in BEGUN])
def test_a_healthy_run_is_silent(target: str, settings: tuple[str, ...]) -> None:
    """The same presets as they are: nothing but what is good to know."""
    book, rows = trained(target, *settings)
    assert rows
    assert [one.rule for one in book.alerts if one.severity != "info"] == []


def test_large_observations_show_before_the_first_update() -> None:
    """ReLU keeps the scale of what it sees: x1000, and the last layer's small weights still give large logits."""
    book, rows = trained(
        "CartPole-v1",
        "env.wrappers=[{rescale_observation: {mean: 0, std: 0.0001}}]",
        "agent.activation=relu",
        "train.total_timesteps=4096",
    )
    found = alert(book, "policy_not_uniform")
    assert rows[0]["rollout/initial_entropy"] < 0.95 * math.log(2)
    assert "rollout/initial_entropy" not in rows[1]
    assert found.since == rows[0]["time/total_timesteps"]
    # CartPole's preset has agent.normalize_obs=false and is solved with it: what is not the preset's is named
    assert found.patch == {"env.wrappers": [], "agent.activation": "tanh"}


def test_no_reward_for_a_long_time_is_told() -> None:
    """Over 8 x 8 fields of ice the goal is 14 steps away at best: nobody gets there in 20 by chance."""
    settings = ("env.kwargs.map_name=8x8", "env.max_episode_steps=20", "train.total_timesteps=65536")
    book, _ = trained("FrozenLake-v1", *settings, "stop.threshold=0.002", "stop.target=null")
    assert alert(book, "reward_sparse").evidence["rollout/reward_nonzero_fraction"].value < 1e-4


def test_acting_unlike_learning_is_told() -> None:
    """Weights that change between a rollout and its update make the first ratio differ from 1."""
    session = quick_session()
    try:
        collect(session)
        with torch.no_grad():
            session.agent.actor_out.weight[0] += 1.0
        session.learner.targets(session.rollout)
        learned = {name: float(value) for name, value in session.learner.update(session.rollout, 0.0).items()}
    finally:
        session.close()
    book = AlertBook(session.alerts.known)
    book.check({"time/total_timesteps": 2048.0, "time/progress": 0.02, **learned})
    found = alert(book, "ratio_off")
    assert found.severity == "error"
    assert abs(found.evidence["train/ratio_first"].value - 1) > 1e-3


def test_a_falling_rate_is_told() -> None:
    """Rows of a real run, with clocks that nobody has to wait for."""
    book, rows = trained("CartPole-v1")
    slow = AlertBook(book.known)
    row = {**rows[0], "time/share/eval": 0.0}
    for step in range(60):
        slow.check({**row, "time/total_timesteps": step, "time/fps": 10_000.0 if step < 25 else 500.0})
    found = alert(slow, "rate_falls")
    assert found.severity == "info"
    assert found.evidence["time/fps"].value == 500
    assert found.since > 25


FIRST_ROW = {"time/total_timesteps": 1.0, "time/progress": 0.01, "time/updates": 1.0}


def starved(target: str, *settings: str) -> Alert | None:
    """The alert on a run's first row: settings alone tell."""
    resolved = configs.load(target, settings)
    known = Known(resolved.config, resolved.facts, origin=Origin(target, settings))
    book = AlertBook(known, [rule for rule in RULES if rule.name == "starved"])
    return next(iter(book.check(FIRST_ROW)), None)


PRESETS = [f"{preset.id}:{name}" for preset in configs.list_presets() for name in preset.variants]


@pytest.mark.parametrize("target", PRESETS)
def test_no_preset_starves_itself(target: str) -> None:
    assert starved(target) is None
    assert starved(target, "train.seed=1") is None  # a setting, so that the preset is looked up


# What is asked for, and what was usual: CartPole-v1 has 32 envs x 64 steps, batches of 256, 4 epochs: 4 / 256 steps
# for an env step. A quarter of that is batches of 1024, or one epoch: not yet starved.
@pytest.mark.parametrize(
    "settings,patch",
    [
        (("algo.batch_size=1024",), None),
        (("algo.batch_size=2048",), {"algo.batch_size": 256}),
        (("algo.n_epochs=1",), None),
        (("algo.n_epochs=1", "algo.batch_size=512"), {"algo.n_epochs": 4, "algo.batch_size": 256}),
        (("env.n_envs=1024",), None),  # as many gradient steps, in longer rollouts
        (("env.n_envs=1024", "algo.batch_size=2048"), {"algo.batch_size": 256}),
        (
            ("env.n_envs=33", "algo.batch_size=2112"),
            {"algo.batch_size": 256, "env.n_envs": 32},
        ),  # 256 alone: not 33 x 64
    ],
)
def test_starving_is_known_at_the_first_row_and_its_patch_ends_it(
    settings: tuple[str, ...], patch: dict[str, int] | None
) -> None:
    found = starved("CartPole-v1", *settings)
    assert (found.patch if found else None) == patch
    if found is None:
        return
    assert found.command is not None
    (evidence,) = found.evidence.values()
    assert evidence.low == 1e6 * 4 / 256 / 4
    assert evidence.value < evidence.low
    given = [word for word in found.command.split()[3:] if word != "--set"]
    assert starved("CartPole-v1", *given) is None
    config = configs.load("CartPole-v1", given).config
    assert config.algo.n_epochs / config.algo.batch_size >= 4 / 256  # all of them, not just enough to be silent


def test_a_file_is_compared_with_the_preset_of_its_env(tmp_path: Path) -> None:
    path = tmp_path / "wide.yaml"
    path.write_text("extends: CartPole-v1\nenv: {n_envs: 64}\nalgo: {batch_size: 4096}\n")
    found = starved(str(path))
    assert found is not None
    assert found.patch == {"algo.batch_size": 256}


def test_every_rule_has_its_test() -> None:
    by_themselves = {"policy_not_uniform", "reward_sparse", "ratio_off", "rate_falls"}  # the four tests above
    by_themselves |= {"no_end", "returns_alike", "greedy_below_training"}  # on envs of their own, in test_own_envs.py
    by_themselves |= {"below_threshold", "objects_scattered"}  # test_alert_advice.py, tests/unit/test_tracker.py
    assert {rule for rule, *_ in SPOILT} | by_themselves == {rule.name for rule in RULES}
    tested = {target for _, target, _, _ in SPOILT}
    assert tested <= {*WHOLE, *BEGUN}  # and the healthy run of every preset that is spoilt
    assert all(rule.severity in SEVERITIES for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def known_of(target: str) -> Known:
    resolved = configs.load(target)
    return Known(resolved.config, resolved.facts, resolved.threshold, math.log(2))


def quick_session() -> TrainState:
    return build(configs.load("CartPole-v1", QUICK).config, None)


def kl_row(step: int, kl: float) -> Row:
    return {"time/total_timesteps": step, "time/progress": step / 100, "train/approx_kl": kl, "train/epochs": 4.0}


def test_one_noisy_row_neither_raises_nor_clears() -> None:
    """kl_high needs 2 bad rows; once it fires it takes 2 good ones to end it."""
    book = AlertBook(known_of("CartPole-v1"))
    assert book.check(kl_row(1, 9.0)) == []
    assert book.check(kl_row(2, 0.01)) == []
    assert book.check(kl_row(3, 9.0)) == []
    (found,) = book.check(kl_row(4, 8.0))
    assert (found.rule, found.since, found.count, found.firing) == ("kl_high", 4, 1, True)
    assert found.evidence == {"train/approx_kl": Evidence(8.0, high=0.2)}
    assert book.check(kl_row(5, 0.01))[0].firing
    assert not book.check(kl_row(6, 0.01))[0].firing
    # it keeps what it saw, and counts on when it comes back
    book.check(kl_row(7, 7.0))
    (again,) = book.check(kl_row(8, 6.0))
    assert (again.since, again.last, again.count, again.firing) == (4, 8, 2, True)


def test_a_target_kl_that_stops_the_first_pass_counts() -> None:
    known = known_of("CartPole-v1")
    strict = Known(configs.override(known.config, ["algo.target_kl=0.001"]), known.facts, known.threshold)
    book = AlertBook(strict)
    for step in (1, 2):
        book.check({**kl_row(step, 0.01), "train/epochs": 0.5})
    assert alert(book, "kl_high").evidence["train/approx_kl"] == Evidence(0.01, high=0.0015)


def test_the_most_urgent_comes_first() -> None:
    book = AlertBook(known_of("CartPole-v1"))
    for step in range(1, 4):
        row = {**kl_row(step, 9.0), "train/loss": math.nan}
        if step == 3:
            row["train/clip_fraction"] = 0.9
        alerts = book.check(row)
    assert [one.rule for one in alerts] == ["not_finite", "kl_high"]
    assert alerts[0].severity == "error"


@pytest.mark.parametrize(("gamma", "steps"), [(0.1, "1 step ahead instead"), (0.5, "2 steps ahead instead")])
def test_how_far_a_discount_looks_is_said_in_steps(gamma: float, steps: str) -> None:
    usual, mine = (configs.load("CartPole-v1", some).config for some in ((), (f"algo.gamma={gamma}",)))
    assert steps in described(mine, usual, SHORT_SIGHT)


def test_no_setting_is_blamed_for_an_observation_that_is_not_finite() -> None:
    row = {"time/total_timesteps": 64.0, "time/progress": 0.6, "train/loss": math.nan, "rollout/obs_std": math.inf}
    (found,) = AlertBook(known_of("CartPole-v1")).check(row)
    assert (found.rule, list(found.evidence)) == ("not_finite", ["rollout/obs_std", "train/loss"])
    assert found.patch is None
    assert found.cause.startswith("The env gave an observation or a reward that is not finite")
    fast = known_of("CartPole-v1")
    fast.config = configs.override(fast.config, ["algo.learning_rate=1e38"])
    (found,) = AlertBook(fast).check(row | {"rollout/obs_std": 1.0})
    assert found.patch == {"algo.learning_rate": "lin_0.003"}


def test_a_book_goes_on_from_its_state_as_if_never_stopped() -> None:
    _, rows = trained("CartPole-v1", "algo.learning_rate=1.0", SHORT, "stop.on_solved=false")
    known = known_of("CartPole-v1")
    whole, first = AlertBook(known), AlertBook(known)
    for row in rows:
        whole.check(row)
    for row in rows[:7]:
        first.check(row)
    saved = json.loads(json.dumps(first.state()))
    second = AlertBook(known_of("CartPole-v1"))
    second.load(saved)
    for row in rows[7:]:
        second.check(row)
    assert whole.alerts
    assert [one.to_json() for one in second.alerts] == [one.to_json() for one in whole.alerts]


def test_advice_without_a_preset_is_a_careful_step() -> None:
    known = known_of("CartPole-v1")
    alone = Known(configs.override(known.config, ["algo.learning_rate=1.0"]), threshold=475)
    alone.usual = []
    book = AlertBook(alone)
    for step in (1, 2):
        book.check(kl_row(step, 9.0))
    found = alert(book, "kl_high")
    assert found.patch == {"algo.learning_rate": 0.1}
    assert found.command is None  # nobody typed one


@pytest.mark.parametrize(
    ("spoilt", "bad", "patch"),
    [
        # A clip range of 0.1 or more is nobody's fault: then it is the learning rate.
        ("algo.clip_range=1e-3", {"train/clip_fraction": 0.9}, {"algo.clip_range": 0.01}),
        ("algo.clip_range=0.2", {"train/clip_fraction": 0.9}, {"algo.learning_rate": "lin_0.0003"}),
        # The env's own limit is 500 steps.
        ("env.max_episode_steps=8", {"rollout/truncated_fraction": 1.0}, {"env.max_episode_steps": None}),
    ],
)
def test_without_a_preset_the_setting_that_is_out_of_range_is_blamed_first(
    spoilt: str, bad: Row, patch: dict[str, object]
) -> None:
    resolved = configs.load("CartPole-v1", [spoilt])
    known = Known(resolved.config, resolved.facts, resolved.threshold, math.log(2))
    known.usual = []
    book = AlertBook(known)
    score = {"rollout/ep_rew_mean": 8.0, "rollout/ep_rew_std": 0.0, "rollout/ep_len_mean": 8.0}
    for step in range(50, 53):
        alerts = book.check({"time/total_timesteps": step, "time/progress": step / 100, **score, **bad})
    assert [one.patch for one in alerts] == [patch]


def test_the_command_keeps_what_was_typed() -> None:
    origin = Origin("CartPole-v1:a2c", ("algo.learning_rate=1.0", "train.seed=3"))
    patch = {"algo.learning_rate": {"start": 0.001, "end": 0.0, "shape": "cosine"}}
    assert origin.command(patch) == (
        "gymnast train CartPole-v1:a2c --set train.seed=3 --set "
        "'algo.learning_rate={start: 0.001, end: 0.0, shape: cosine}'"
    )


def some_alert(**changes: object) -> Alert:
    facts = {"rule": "kl_high", "severity": "warning", "since": 5, "last": 9, "count": 3, "firing": True}
    text = {"message": "Too much.", "cause": "Fast.", "evidence": {"train/approx_kl": Evidence(math.inf, high=0.2)}}
    return Alert(**{**facts, **text, "patch": {"algo.learning_rate": 0.001}, **changes})  # type: ignore[arg-type]


def test_a_command_that_keeps_what_another_alert_blames_says_so() -> None:
    """Two settings are spoilt: each command mends one of them."""
    origin = Origin("CartPole-v1", ("algo.learning_rate=1.0", "algo.gamma=0.6"))
    patches: dict[str, dict[str, object]] = {"kl_high": {"algo.learning_rate": 0.001}, "short": {"algo.gamma": 0.99}}
    rate, sight = (some_alert(rule=rule, patch=p, command=origin.command(p)) for rule, p in patches.items())
    assert kept_text(rate, [rate, sight]) == "; it keeps algo.gamma=0.6, which short blames"
    assert kept_text(sight, [rate, sight]) == "; it keeps algo.learning_rate=1.0, which kl_high blames"
    assert kept_text(rate, [rate]) == ""


def test_alerts_come_back_from_their_file(tmp_path: Path) -> None:
    assert read_alerts(tmp_path / "alerts.json") == []
    write_alerts(tmp_path / "alerts.json", 9, [some_alert(), some_alert(rule="nan", patch=None)])
    assert read_alerts(tmp_path / "alerts.json") == [some_alert(), some_alert(rule="nan", patch=None)]


def test_the_folder_is_written_when_alerts_begin_or_end(tmp_path: Path) -> None:
    sink, path = FolderSink(run_info(tmp_path)), tmp_path / "alerts.json"
    group = SinkGroup([sink], warn=print)
    group.report(5, [], None)
    assert not path.exists()
    group.report(6, [some_alert()], {"histograms": {"value": {"counts": [1], "edges": [0.0, math.nan]}}})
    assert read_alerts(path)[0].count == 3
    group.report(7, [some_alert(count=4)], None)
    assert read_alerts(path)[0].count == 3  # only its count changed
    group.report(8, [some_alert(count=4, firing=False)], None)
    assert not read_alerts(path)[0].firing
    group.report(9, [some_alert(count=5, firing=False)], None)
    group.close()
    assert read_alerts(path)[0].count == 5
    (line,) = (tmp_path / "diagnostics.jsonl").read_text().splitlines()
    assert json.loads(line)["time/total_timesteps"] == 6


def test_a_sink_hears_of_each_alert_once() -> None:
    class Keeper(Sink):
        def __init__(self) -> None:
            self.heard: list[tuple[int, str]] = []

        def alert(self, step: int, one: Alert) -> None:
            self.heard.append((step, one.rule))

    keeper = Keeper()
    group = SinkGroup([keeper], warn=print)
    for step in (4, 5, 6):
        group.report(step, [some_alert(since=5)] if step >= 5 else [], None)
    assert keeper.heard == [(5, "kl_high")]


def test_a_line_says_what_was_seen_and_what_to_try() -> None:
    line = alert_line(some_alert(evidence={"train/approx_kl": Evidence(2.31, high=0.2)}))
    assert line == "kl_high: Too much. (approx_kl 2.31 > 0.2) Fast. Try algo.learning_rate=0.001."
