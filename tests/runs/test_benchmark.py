"""The statistics of `gymnast benchmark` by arithmetic on paper, its rows and what it keeps of runs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.seeds import parse_seeds, write_seeds
from gymnast.core.statistics import Estimate, area_under_curve, improvement, interval, iqm, mean, median
from gymnast.core.text import number, or_never
from gymnast.metrics.clock import TrainingTime
from gymnast.verbs.benchmark.page import page, write_report
from gymnast.verbs.benchmark.plan import Row, read_plan, settle
from gymnast.verbs.benchmark.store import Record, Store, key_of, make_record
from gymnast.verbs.benchmark.summary import between, judged, overall_improvement, summarise
from gymnast.verbs.benchmark.worker import Watch

ROOT = Path(__file__).parents[2]


def test_interquartile_mean() -> None:
    # A quarter of 8 is 2: without 1, 2 and 50, 1000 the mean of 3, 4, 6, 7 is 5
    assert iqm([7, 1, 1000, 3, 2, 50, 6, 4]) == 5
    # A quarter of 5 is 1.25, rounded down 1: the mean of 2, 3, 4
    assert iqm([1, 2, 3, 4, 100]) == 3
    assert iqm([1, 2, 6]) == 3  # nothing to cut
    assert iqm([[0, 1, 1, 9], [2, 4, 4, 4]]).tolist() == [1, 4]  # every resample by itself


def test_probability_of_improvement() -> None:
    # 1 loses to 2 and 3; 2 ties with 2 and loses to 3, twice: (0 + 0 + 0.5 + 0 + 0.5 + 0) / 6 pairs
    assert improvement([1, 2, 2], [2, 3]) == pytest.approx(1 / 6)
    assert improvement([5, 5], [5, 5, 5]) == 0.5
    assert improvement([2, 3], [1, 1]) == 1
    # A second task, always lost, halves it
    assert improvement([2, 3], [1, 1], [0, 0], [1, 1]) == 0.5


def test_intervals_resample_each_sample_by_itself() -> None:
    # Each task's runs agree. Within tasks there is nothing to vary; runs drawn over both tasks would.
    assert interval(improvement, [1, 1], [0, 0], [10, 10], [20, 20]) == (0.5, 0.5)
    assert interval(iqm, [7.0, 7.0, 7.0]) == (7.0, 7.0)
    low, high = interval(mean, [0.0] * 50 + [1.0] * 50)
    # The mean of 100 coins has a standard error of 0.05: +- 1.96 of them is 0.402 to 0.598
    assert low == pytest.approx(0.402, abs=0.015)
    assert high == pytest.approx(0.598, abs=0.015)
    assert interval(iqm, [1, 2, 3, 4, 5]) == interval(iqm, [1, 2, 3, 4, 5])
    chance = Estimate.of(improvement, [1, 2, 3, 4], [1, 2, 3, 4])
    assert chance.low < 0.5 == chance.value < chance.high


def test_area_and_median() -> None:
    # 0 to 10 in 10 steps: 50; 20 steps at 10: 200. Together 250 over 30 steps
    assert area_under_curve([(0, 0), (10, 10), (30, 10)]) == pytest.approx(250 / 30)
    assert area_under_curve([(256, 3.5)]) == 3.5
    assert median([3, None, 5]) == 5  # one of three never got there
    assert median([3, None]) == math.inf


@pytest.mark.parametrize(
    "text, seeds, short",
    [("3", [1, 2, 3], "3"), ("2-4", [2, 3, 4], "2-4"), ("1,4-5, 9", [1, 4, 5, 9], "1,4-5,9"), ("7-7", [7], "7-7")],
)
def test_seeds(text: str, seeds: list[int], short: str) -> None:
    assert parse_seeds(text) == seeds
    assert write_seeds(seeds) == short
    assert parse_seeds(short) == seeds


@pytest.mark.parametrize("text", ["", "x", "0", "5-1", "1-", "-3", "1.5", "1;2"])
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="seeds like 1-10"):
        parse_seeds(text)


def test_training_time_leaves_evaluation_out() -> None:
    time = TrainingTime()
    assert time.add({"time/elapsed": 2.0}) == 2.0
    # 4 more seconds, a quarter of them evaluation: 3
    assert time.add({"time/elapsed": 6.0, "time/share/eval": 0.25}) == 5.0


def test_a_runs_story() -> None:
    reported: list[int] = []
    watch = Watch(reported.append)
    row = {"time/elapsed": 1.0, "solved": 0.0}
    watch({**row, "time/total_timesteps": 100.0})
    watch({**row, "time/total_timesteps": 200.0, "eval/mean_reward": 0.5})
    judged = {"eval/mean_reward": 0.8, "verdict/mean": 0.75, "verdict/exact_value": 0.7442, "solved": 1.0}
    watch({"time/elapsed": 3.0, "time/share/eval": 0.5, "time/total_timesteps": 300.0, **judged})
    watch({"time/elapsed": 4.0, "time/total_timesteps": 400.0, "solved": 1.0})
    assert watch.curve == [(200, 0.5, 1.0), (300, 0.8, 2.0)]
    assert watch.solved == (300, 2.0)  # the first time
    assert (watch.solved_wall, watch.wall) == (3.0, 4.0)  # with evaluations
    assert watch.exact == 0.7442  # of the agent that was judged
    assert reported == [100, 200, 300, 400]


def test_the_same_training_has_the_same_fingerprint() -> None:
    def fingerprint(**asked: Any) -> str:
        return settle([Row(target="CartPole-v1", **asked)], {})[0].fingerprint

    plain = fingerprint()
    assert fingerprint(seeds="1-3", within=5.0, against=["sb3"]) == plain
    assert fingerprint(set=["train.seed=4", "log.every=1000", "algo.max_grad_norm=0.5"]) == plain  # its default
    others = [fingerprint(target_score=400), fingerprint(steps=5000), fingerprint(equal_steps=True)]
    others += [fingerprint(set=["algo.gamma=0.9"]), settle([Row(target="CartPole-v1:a2c")], {})[0].fingerprint]
    assert len({plain, *others}) == 6


def test_settings_of_the_two_kinds_of_row() -> None:
    solving, equal = settle(
        [Row(target="CartPole-v1:zoo", target_score=200), Row(target="CartPole-v1:zoo", equal_steps=True)], {}
    )
    assert solving.config.stop.on_solved  # the zoo's variant says no by itself
    assert solving.config.stop.threshold == solving.threshold == 200
    assert not equal.config.stop.on_solved
    assert equal.threshold == 475
    assert (equal.config.eval_every, equal.config.eval.episodes) == (5_000, 20)
    assert solving.config.train.threads == equal.config.train.threads == 1


def done(score: float, solved_at: tuple[int, float] | None, final: float | None = None) -> dict[str, Any]:
    """As a run's process tells it."""
    return {
        "env_steps": 1000,
        "seconds": 9.0,
        "verdict": [score] * 4,
        "final": None if final is None else [final] * 4,
        "exact_value": None,
        "solved_at": solved_at,
        "curve": [(500, score - 1, 4.0), (1000, score, 9.0)],
        "versions": {"python": "3"},
    }


def squeezed(text: str) -> str:
    """Tables without the spaces that line their columns up."""
    return re.sub(" +", " ", text)


def keep(store: Store, row: Row, who: str, seed: int, done: dict[str, Any]) -> Record:
    task = settle([row], {})[0]
    store.ask([task])
    record = make_record(task, who, seed, done, [])
    store.keep(record)
    return record


def test_rows_add_up(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:ppo", seeds="4", target_score=400.0, within=3.0)
    times = [(100, 1.0), (200, 2.0), None]
    for seed, (score, solved_at) in enumerate(zip([500.0, 450.0, 100.0], times, strict=True), start=1):
        keep(store, row, "gymnast", seed, done(score, solved_at))
    (summary,) = summarise(store)
    side = summary.sides["gymnast"]
    assert (side.runs, side.asked, side.solved) == (3, 4, 2)
    assert (side.median, side.met) == (450, True)
    assert side.iqm is not None
    assert side.iqm["score"].value == 350  # of three nothing is cut: (500 + 450 + 100) / 3
    assert (side.steps_to_target, side.seconds_to_target, side.in_time) == (200, 2.0, True)
    command = "gymnast benchmark CartPole-v1:ppo --seeds 4 --target-score 400 --within 3"
    assert summary.command == f"{command} --out {tmp_path}"
    assert row.command([1, 2, 3, 4], Path("benchmarks")) == command  # the default
    text = squeezed(page([summary], []))
    # 475 is CartPole's own threshold, which one of three runs has; the row asks for 400
    assert "| 3 seeds of 4 | 1/3 at 475 | 450 (4 episodes) | 350 [100, 500] |" in text
    assert "| >= 400 met: 2/3, <= 3 s met | 200 | 2.0 | - |" in text


def test_one_run_has_the_interval_of_its_episodes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, Row(target="CartPole-v1:ppo", seeds="1"), "gymnast", 1, done(0, None) | {"verdict": [400.0, 500.0]})
    (summary,) = summarise(store)
    assert "| a single run | 0/1 | 450 (2 episodes) | 450 [400, 500] |" in squeezed(page([summary], []))


def test_how_long_it_took_with_evaluations(tmp_path: Path) -> None:
    """The median of three runs, one of which got nowhere; not known where one run does not say."""
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:ppo", seeds="3")
    times: list[float | None] = [30.0, 50.0, None]
    for seed, wall in enumerate(times, start=1):
        solved = None if wall is None else (100, 7.0)
        keep(store, row, "gymnast", seed, done(480.0, solved) | {"wall": 60.0, "solved_wall": wall})
    (summary,) = summarise(store)
    assert summary.sides["gymnast"].wall_to_target == 50
    assert "| 100 | 7.0 | 50.0 |" in squeezed(page([summary], []))
    keep(store, row, "gymnast", 1, done(480.0, (100, 7.0)))
    assert summarise(store)[0].sides["gymnast"].wall_to_target is None


def test_earlier_batches_of_seeds_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:ppo", seeds="4-5", before=["1-3"])
    keep(store, row, "gymnast", 4, done(480.0, (100, 7.0)))
    keep(store, row, "gymnast", 5, done(480.0, (100, 7.0)))
    assert row.key == row.model_copy(update={"before": []}).key  # the same question
    write_report(store)
    text = squeezed((tmp_path / "RESULTS.md").read_text())
    assert "| 2 seeds, batch 2 | 2/2 |" in text
    assert "- `CartPole-v1:ppo`: 1-3" in text
    assert [kept.before for kept, _ in Store(tmp_path).rows.values()] == [["1-3"]]


def test_a_row_whose_preset_has_changed_says_so(tmp_path: Path) -> None:
    """Its runs count until there is one with the new settings."""
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:ppo", seeds="1")
    record = keep(store, row, "gymnast", 1, done(480.0, (100, 7.0)))
    assert "have changed since" not in write_report(store)[1].read_text()
    old = record | {"config": "0123456789"}
    store.records = {key_of(old): old}
    store.rows = {row.key: (row, "0123456789")}
    (task,) = settle([row], {})
    store.ask([task])
    (summary,) = summarise(store)
    assert (summary.is_outdated, summary.sides["gymnast"].runs) == (True, 1)
    assert "### Presets that have changed since" in page([summary], [])
    store.keep(record)
    store.ask([task])
    assert not summarise(store)[0].is_outdated


def test_a_target_beyond_solved_stands_beside_it(tmp_path: Path) -> None:
    """Three runs are solved, two of them reached what training went on for; older records do not know of it."""
    store = Store(tmp_path)
    row = Row(target="LunarLander-v3:ppo", seeds="3")
    for seed, reached in enumerate((True, True, False), start=1):
        record = keep(store, row, "gymnast", seed, done(245.0, (100, 1.0)) | {"goal": 240.0, "on_target": reached})
        assert (record["solved"], record["on_target"]) == (True, reached)
    (summary,) = summarise(store)
    assert (summary.goal, summary.sides["gymnast"].solved, summary.sides["gymnast"].on_target) == (240.0, 3, 2)
    assert "| 3 seeds | 3/3 | 245 (4 episodes) | 245 [245, 245] | >= 200 met, training's target 240: 2/3 |" in squeezed(
        page([summary], [])
    )
    keep(store, row, "gymnast", 1, done(245.0, (100, 1.0)))
    del store.records[next(iter(store.records))]["on_target"]
    assert summarise(store)[0].sides["gymnast"].on_target == 1


def test_equal_steps_compare(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cartpole, acrobot = (Row(target=f"{env}:zoo", equal_steps=True) for env in ("CartPole-v1", "Acrobot-v1"))
    for row, ours, theirs in ((cartpole, [3, 4], [1, 4]), (acrobot, [-9, -9], [-5, -5])):
        for seed in (1, 2):
            keep(store, row, "gymnast", seed, done(0, None, final=ours[seed - 1]))
            keep(store, row, "sb3", seed, done(0, None, final=theirs[seed - 1]))
    summaries, path = write_report(store)
    # 3 beats 1 and loses to 4; 4 beats 1 and ties with 4: (1 + 0 + 1 + 0.5) / 4
    assert summaries[0].improvement["sb3"]["final"].value == 0.625
    assert summaries[1].improvement["sb3"]["final"] == Estimate(0, 0, 0)
    assert summaries[0].improvement["sb3"]["best"].value == 0.5  # all the same
    assert overall_improvement(summaries)["sb3"][1]["final"].value == 0.3125
    assert "| all 2 | over sb3 | 0.31 [" in squeezed(path.read_text())
    picture = ElementTree.parse(tmp_path / "pictures" / str(summaries[0].picture))
    shapes = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert shapes.count("polygon") == 2  # a band for each


def test_rows_of_one_env_are_compared_with_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ppo = Row(target="CartPole-v1:ppo", seeds="2")
    slow = Row(target="CartPole-v1:ppo", seeds="2", set=["algo.learning_rate=1e-5"])
    other = Row(target="Acrobot-v1:ppo", seeds="2")
    single = Row(target="CartPole-v1:a2c", seeds="1")
    for row, scores in ((ppo, [480.0, 500.0]), (slow, [480.0, 400.0]), (other, [-90.0, -80.0]), (single, [1.0])):
        for seed, score in enumerate(scores, start=1):
            # solved after as many steps as points: 480, 500 against never, never
            keep(store, row, "gymnast", seed, done(score, (int(score), 1.0) if row is ppo else None))
    summaries, path = write_report(store)
    (gap,) = between(summaries)  # another env, and a row with one run, are compared with nothing
    assert (gap.row, gap.against) == ("CartPole-v1:ppo algo.learning_rate=1e-5", "CartPole-v1:ppo")
    found = gap.gaps["score"]
    assert found.value == -50  # 440 - 490
    assert found.low is not None
    assert found.high is not None
    # resampled: of the first at most 500 and at least 480, of the second 480 and 400
    assert -100 <= found.low < -50 < found.high <= 0
    assert found.chance == 0.125  # one tie of four pairs
    assert gap.sooner == 0
    line = "| CartPole-v1:ppo algo.learning_rate=1e-5 | CartPole-v1:ppo | score | -50 ["
    assert line in squeezed(path.read_text())
    assert "] | 0.12 | 0.00 |" in squeezed(path.read_text())


def test_one_run_each_at_equal_steps_says_nothing_about_chances(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:zoo", seeds="1", equal_steps=True)
    returns = {"final": [1.0, 2.0, 4.0, 5.0], "verdict": [1.0, 2.0, 4.0, 5.0]}
    keep(store, row, "gymnast", 1, done(0, None) | returns)
    keep(store, row, "sb3", 1, done(0, None) | returns)
    (summary,) = summarise(store)
    assert summary.improvement == {}
    estimates = summary.sides["gymnast"].iqm
    assert estimates is not None
    assert estimates["final"].low < estimates["final"].value == 3 < estimates["final"].high  # of its episodes
    assert estimates["best"] == estimates["final"]
    assert math.isnan(estimates["area"].low)  # of one curve there is none
    assert f"| {number(estimates['area'].value)} | 3 |" in squeezed(page([summary], []))  # then the median


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = Row(target="CartPole-v1:ppo", target_score=400.0)
    record = keep(store, row, "gymnast", 1, done(450.0, (100, 1.0)))
    assert Store(tmp_path).records == store.records  # before anything else was written
    write_report(store)
    for file in (tmp_path / "runs").rglob("*.json"):  # a repository holds results.json alone
        file.unlink()
    again = Store(tmp_path)
    assert again.records == store.records
    assert [kept for kept, _ in again.rows.values()] == [row]

    # The preset changes: the row now means another config, whose runs are still to be made
    changed = settle([row.model_copy(update={"set": ["algo.gamma=0.9"]})], {})[0]
    again.rows[row.key] = row, changed.fingerprint
    assert summarise(again)[0].sides["gymnast"].runs == 0
    assert record in again.records.values()  # not lost

    again.forget(settle([row], {})[0])
    assert not again.records


def test_rows_keep_their_order_unless_a_plan_sets_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tasks = settle([Row(target=f"CartPole-v1:{name}") for name in ("ppo", "a2c", "reinforce")], {})
    ppo, a2c, reinforce = (task.row.key for task in tasks)
    store.ask(tasks[:2])
    store.ask(tasks[1:])
    assert list(store.rows) == [ppo, a2c, reinforce]
    store.ask(tasks[1:], first=True)
    assert list(store.rows) == [a2c, reinforce, ppo]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(UserError, match=r"results\.json cannot be read"):
        Store(tmp_path)


def test_the_plan_of_this_repository() -> None:
    path = ROOT / "benchmarks" / "plan.yaml"
    rows = read_plan(path)
    assert len({row.key for row in rows}) == len(rows)
    assert [row.target for row in read_plan(path, ["Taxi-v4"], seeds="2")] == ["Taxi-v4:ppo"] * 2
    # one seed or three: their trainings take long
    games = ("InvertedPendulum", "Hopper", "HalfCheetah", "Walker2d", "Swimmer", "MinAtar", "ALE", "Vizdoom", "Retro")
    assert all(len(parse_seeds(row.seeds)) >= 5 for row in rows if not row.against and not row.target.startswith(games))
    # Every target exists, every target can be reached, every other library has the settings
    settle(rows, {})


@pytest.mark.parametrize("env_id", [preset.id for preset in configs.list_presets()])
def test_a_preset_says_whether_its_threshold_was_reached(env_id: str) -> None:
    """What README and `envs list` say of it, against the runs that are stored. Without a run it is one or the other."""
    facts = configs.load_facts(env_id)
    assert facts is not None
    if facts.solved is None:
        return
    runs = [run for run in Store(ROOT / "benchmarks").records.values() if run["env"] == env_id and run["verdict"]]
    if any(run["who"] == "gymnast" and judged(run) >= facts.solved.threshold for run in runs):
        assert facts.solved.evidence is None
    else:
        assert facts.solved.evidence in (("not reached",) if runs else ("not reached", "not tried"))


def test_mistakes_in_a_plan_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("rows:\n  - {target: CartPole-v1, sedes: 5}\n  - {target: Taxi-v4, seeds: q, target_score: high}\n")
    with pytest.raises(UserError) as error:
        read_plan(file)
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    for word, line in zip(("sedes", "seeds", "target_score"), lines, strict=True):
        assert f"].{word} = " in line
    file.write_text("rows:\n  - {target: CartPole-v1:nope}\n  - {target: Taxi-v4, target_score: 9}\n")
    with pytest.raises(UserError, match=r"unknown variant 'nope'(.|\n)*above the best possible"):
        settle(read_plan(file), {})
    file.write_text("rows:\n  - {target: CartPole-v1, set: [eval.every=0]}\n")
    with pytest.raises(UserError, match=r"^eval\.every: 0 evaluates nothing"):
        settle(read_plan(file), {})


def test_a_broken_file_of_several_rows_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("env: {id: CartPole-v1}\nalgo: {gamma: 2}\n")
    with pytest.raises(UserError) as error:
        settle([Row(target=str(file)), Row(target="CartPole-v1")], {})
    assert str(error.value).count("mine.yaml") == 1


def test_numbers_are_short() -> None:
    assert [number(x) for x in (0.74421, 7.9312, 487.24, 100096.0)] == ["0.744", "7.93", "487.2", "100,096"]
    assert [or_never(x) for x in (100096.0, math.inf, None)] == ["100,096", "never", ""]
