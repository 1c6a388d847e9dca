"""What a sweep is made of, by arithmetic on paper: ranges, scores, rounds, seeds, comparisons, the journal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from gymnast import config as configs
from gymnast.config import ConfigError, load
from gymnast.core.errors import UserError
from gymnast.core.schedule import Schedule
from gymnast.verbs.sweep.asked import base_of, make_plan
from gymnast.verbs.sweep.cells import Cell, Stopper
from gymnast.verbs.sweep.compare import compare, front
from gymnast.verbs.sweep.plan import Plan, rounds_of
from gymnast.verbs.sweep.run import write_best
from gymnast.verbs.sweep.space import Dimension, make_space, parse_search, rescaled, value_at, with_values
from gymnast.verbs.sweep.space_file import read_space
from gymnast.verbs.sweep.store import Record, Store, area
from gymnast.verbs.sweep.study import Journal

CARTPOLE = load("CartPole-v1:ppo").config


def space_of(*texts: str, base: configs.RunConfig = CARTPOLE) -> list[Dimension]:
    return make_space(parse_search(texts), base)


def plan_of(*texts: str, sampler: str = "random", seed: int = 0, **more: Any) -> Plan:
    return Plan("CartPole-v1:ppo", CARTPOLE, space_of(*texts), sampler, seed, 5, **more)


def test_ranges_draw_what_they_say() -> None:
    rate, gamma, epochs, steps = space_of(
        "algo.learning_rate=log(1e-4, 1e-2)",
        "algo.gamma=oneminus(0.9,0.999)",
        "algo.n_epochs=int(2,20)",
        "algo.n_steps=[32, 64]",
    )
    assert rate.value(0.00123456) == 0.001235  # four digits
    # 1 - gamma is drawn between 1 - 0.999 and 1 - 0.9
    assert (gamma.name, gamma.value(0.01)) == ("1 - algo.gamma", 0.99)
    low, high = gamma.distribution().low, gamma.distribution().high  # type: ignore[attr-defined]
    assert (low, high) == (pytest.approx(0.001), pytest.approx(0.1))
    assert gamma.value(low) <= 0.999  # rounding never leaves the range
    assert gamma.drawn(0.99) == pytest.approx(0.01)
    assert gamma.drawn(0.5) is None
    assert (epochs.value(7), epochs.drawn(21)) == (7, None)
    assert steps.value("64") == 64


def test_lists_hold_any_setting() -> None:
    (hidden,) = space_of("agent.hidden=[[64, 64], [256]]")
    assert hidden.distribution().choices == ("[64, 64]", "[256]")  # type: ignore[attr-defined]
    assert hidden.value("[256]") == [256]
    (rate,) = space_of("algo.learning_rate=[lin_1e-3, 1e-4]")
    assert with_values(CARTPOLE, {"algo.learning_rate": rate.value("lin_1e-3")})["algo"]["learning_rate"] == "lin_1e-3"


def test_a_number_keeps_the_form_of_a_schedule() -> None:
    """CartPole's rate is lin_3e-3."""
    assert with_values(CARTPOLE, {"algo.learning_rate": 5e-4})["algo"]["learning_rate"] == "lin_0.0005"
    assert value_at(CARTPOLE, "algo.learning_rate") == 3e-3
    warm = Schedule.parse({"points": [[0, 1e-4], [0.1, 1e-3], [1, 0]], "floor": 1e-5})
    # all values times 2e-3 / 1e-3
    assert rescaled(warm, 2e-3) == Schedule.parse({"points": [[0, 2e-4], [0.1, 2e-3], [1, 0]], "floor": 2e-5})
    assert rescaled(Schedule.constant(0.0), 0.01) == Schedule.constant(0.01)
    ramp = load("LunarLander-v3:ppo").config
    assert with_values(ramp, {"algo.ent_coef": 0.02})["algo"]["ent_coef"] == "lin_0.02"  # {start: 0.01, end: 0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algo.learning_rat=log(1e-4,1e-2)", "unknown key. Did you mean 'algo.learning_rate'"),
        ("learning_rate=log(1e-4,1e-2)", "unknown key. Did you mean 'algo.learning_rate'"),
        ("algo.learning_rate=log(1e-2,1e-4)", "the range is empty: 0.01 is not less than 0.0001"),
        ("algo.learning_rate=log(1e-2,1e-2)", "the range is empty"),
        ("algo.learning_rate=log(0,1)", "must begin above 0"),
        ("algo.learning_rate=log(a,1)", "'a' is not a number"),
        ("algo.learning_rate=log(1,inf)", "finite"),
        ("algo.learning_rate=exp(1,2)", "is not a range. Write log(1e-4, 1e-2)"),
        ("algo.learning_rate=0.1", "is not a range"),
        ("algo.learning_rate=[]", "the list is empty"),
        ("algo.learning_rate=[1e-3, 1e-3]", "twice"),
        ("algo.learning_rate=[1e-3, fast]", "is not a schedule"),
        ("algo.n_epochs=int(1.5,3)", "whole numbers"),
        ("algo.gamma=uniform(0.5,1.5)", "must be at most 1"),
        ("algo.gamma=oneminus(0.9,1)", "1 excluded"),
        ("algo.n_epochs=uniform(1,5.5)", "must be a whole number"),
        ("train.seed=[1, 2]", "cannot be searched"),
        ("eval.episodes=[1, 2]", "cannot be searched"),
        ("algo.learning_rate", "write KEY=RANGE"),
        ("algo.batch_size=[256, 300]", "300 does not divide the rollout"),
    ],
)
def test_bad_ranges_are_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        space_of(text)
    assert len(error.value.problems) == 1
    assert said in error.value.problems[0]


def test_all_mistakes_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        space_of("algo.gama=log(0.1,0.2)", "algo.n_epochs=int(5,2)", "algo.clip_range=uniform(-1,1)")
    assert len(error.value.problems) == 3


def test_a_batch_that_fits_another_searched_setting_is_accepted() -> None:
    """4096 does not divide CartPole's rollout of 32 x 64, but that of 32 x 128."""
    assert len(space_of("algo.batch_size=[256, 4096]", "algo.n_steps=[64, 128]")) == 2


def test_files_of_ours_and_of_wandb(tmp_path: Path) -> None:
    ours = tmp_path / "space.yaml"
    ours.write_text("algo:\n  gamma: oneminus(0.9, 0.99)\nalgo.n_steps: [32, 64]\n")
    forms, sampler, _ = read_space(ours)
    assert [dim.text for dim in make_space(forms, CARTPOLE)] == ["oneminus(0.9, 0.99)", "[32, 64]"]
    assert sampler is None

    theirs = tmp_path / "wandb.yaml"
    theirs.write_text(
        """program: train.py
method: bayes
metric: {name: return, goal: maximize}
parameters:
  algo.learning_rate: {distribution: log_uniform_values, min: 1e-4, max: 1e-2}
  algo:
    parameters:
      n_epochs: {min: 2, max: 10}
      clip_range: {min: 0.1, max: 0.3}
  algo.n_steps: {values: [32, 64]}
  algo.batch_size: {distribution: q_log_uniform_values, min: 32, max: 64, q: 1}
  env.n_envs: {value: 16}
"""
    )
    forms, sampler, notes = read_space(theirs)
    found = {dim.key: dim.text for dim in make_space(forms, CARTPOLE)}
    assert found == {
        "algo.learning_rate": "log(0.0001, 0.01)",
        "algo.n_epochs": "int(2, 10)",
        "algo.clip_range": "uniform(0.1, 0.3)",
        "algo.n_steps": "[32, 64]",
        "algo.batch_size": "logint(32, 64)",
        "env.n_envs": "[16]",
    }
    assert sampler == "tpe"
    assert "metric" in notes[0]

    theirs.write_text("method: bayes\nparameters: {}\n")
    with pytest.raises(ConfigError, match="parameters: must be a mapping that is not empty"):
        read_space(theirs)
    theirs.write_text("parameters:\n  algo.gamma: {values: [0.9, 0.99], probabilities: [0.1, 0.9]}\n")
    with pytest.raises(ConfigError, match=r"algo.gamma = .*not a parameter that is understood"):
        read_space(theirs)

    theirs.write_text("method: bayes\nparameters:\n  algo.gamma: {distribution: normal, mu: 0, sigma: 1}\n")
    with pytest.raises(ConfigError, match=r"wandb.yaml:3: algo.gamma = .*not a parameter that is understood"):
        read_space(theirs)


def test_every_preset_names_a_space_that_its_config_accepts() -> None:
    for preset in configs.list_presets():
        for variant in preset.variants:
            resolved = load(f"{preset.id}:{variant}")
            assert resolved.search, f"{preset.id}:{variant}"
            make_space({key: (form, "preset") for key, form in resolved.search.items()}, resolved.config)


def test_search_of_a_variant_adds_to_what_it_extends(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: CartPole-v1:ppo\nsearch: {algo.n_steps: '[32, 64]', algo.gamma: null}\n")
    found = load(str(file)).search
    assert found["algo.n_steps"] == "[32, 64]"
    assert "algo.gamma" not in found
    assert found["algo.learning_rate"] == load("CartPole-v1:ppo").search["algo.learning_rate"]
    file.write_text("extends: CartPole-v1:ppo\nsearch: [algo.gamma]\n")
    with pytest.raises(ConfigError, match="search: must be a mapping"):
        load(str(file))


def test_the_score_is_the_mean_height_of_the_curve() -> None:
    # 0 to 10 in 10 steps: 50; then 10 for 20 steps: 200. Together 250 over 30 steps
    assert area([(0, 0), (10, 10), (30, 10)], 30) == pytest.approx(250 / 30)
    assert area([(0, 0), (10, 10), (30, 10)], 20) == pytest.approx(150 / 20)
    # halfway between two evaluations: 0 to 5 over 5 steps
    assert area([(0, 0), (10, 10)], 5) == 2.5
    # the last evaluation holds: 50 + 10 x 10 over 20 steps
    assert area([(0, 0), (10, 10)], 20) == 7.5
    # faster and higher both count
    assert area([(0, 0), (5, 10), (10, 10)], 10) > area([(0, 0), (10, 10)], 10) > area([(0, 0), (10, 9)], 10)
    # a rollout longer than the budget is no advantage: its only evaluation counts from where it was made
    assert area([(0, 0), (100, 10)], 10) == pytest.approx(0.5)


def test_rounds_get_narrower_and_longer() -> None:
    rounds = [(r.candidates, r.seeds, r.steps) for r in rounds_of(64, 1_000)]
    assert rounds == [(64, 1, 500), (16, 1, 1_000), (8, 2, 1_000), (2, 3, 1_000)]
    assert [r.candidates for r in rounds_of(16, 1_000)] == [16, 4, 3, 2]
    assert [r.candidates for r in rounds_of(1, 1_000)] == [1, 1, 1, 1]


def test_fresh_seeds_are_never_searched_with() -> None:
    for seed in range(200):
        plan = plan_of("algo.gamma=[0.9, 0.99]", seed=seed)
        assert not {*plan.search_seeds} & {*plan.fresh_seeds}
        assert len({*plan.search_seeds, *plan.fresh_seeds}) == 8


def test_paired_interval_is_students() -> None:
    ours, theirs = [5.0, 7.0, 6.0, 9.0, 8.0], [4.0, 5.0, 6.0, 7.0, 5.0]
    found = compare(ours, theirs)
    # differences 1 2 0 2 3: mean 1.6, variance (0.36 + 0.16 + 2.56 + 0.16 + 1.96) / 4 = 1.3, t(4) at 97.5 % 2.776
    half = 2.776445 * math.sqrt(1.3 / 5)
    assert found.difference.value == pytest.approx(1.6)
    assert (found.difference.low, found.difference.high) == (pytest.approx(1.6 - half), pytest.approx(1.6 + half))
    assert found.better
    other = stats.ttest_rel(ours, theirs).confidence_interval(0.95)  # an independent implementation
    assert found.difference.low == pytest.approx(other.low)
    assert not compare(ours, ours).better
    assert not compare([1.0], [0.0]).better  # one pair shows nothing


def test_front_of_score_against_seconds() -> None:
    assert front([(10, 5), (9, 5), (8, 1), (8, 2), (10, 5)]) == [True, False, True, False, True]


def test_the_median_rule_stops_within_a_seed_and_by_steps() -> None:
    plan = plan_of("algo.gamma=[0.9, 0.99]")

    def cell(seed: int = 1, may_stop: bool = True) -> Cell:
        return Cell(plan.base, seed, 100, may_stop)

    def line(height: float, until: int) -> list[tuple[int, float]]:
        return [(0, 0.0), (until, height)]

    stopper = Stopper()
    for height in (10, 20, 30, 40):
        assert not stopper.add(cell(), line(height, 100))
    assert not stopper.add(cell(), line(1, 20))  # in the first quarter nobody is stopped
    assert not stopper.add(cell(), [])  # nothing is known of it yet
    assert stopper.add(cell(), line(1, 60))  # which stops no comparison
    assert not stopper.add(cell(), line(30, 60))  # the others have 6 to 24 there, with a median of 15
    assert not stopper.add(cell(seed=2), line(1, 60))  # nobody else had that seed
    assert not stopper.add(cell(may_stop=False), line(1, 60))
    assert not stopper.add(cell(), line(1, 100))  # it is over


def test_cells_are_kept_and_found_again(tmp_path: Path) -> None:
    plan = plan_of("algo.gamma=[0.9, 0.99]")
    store = Store(tmp_path / "s")
    store.open(plan)
    store.keep(Record(plan.base.id, 1, 50, 2.5, [(0, 1.0), (50, 3.0)]))
    again = Store(tmp_path / "s")
    found = again.find(plan.base, 1, 50)
    assert found is not None
    assert found.score(50) == 2.0
    assert again.find(plan.base, 1, 51) is None  # it must go on
    assert again.find(plan.base, 2, 50) is None
    with pytest.raises(UserError, match="another process"):
        again.open(plan)
    store.close()
    with pytest.raises(UserError, match=r"has another seed \(0\)"):
        Store(tmp_path / "s").open(plan_of("algo.gamma=[0.9, 0.99]", seed=1))


@pytest.mark.parametrize("sampler", ["random", "grid", "tpe", "gp"])
def test_an_interrupted_sweep_draws_what_an_uninterrupted_one_does(sampler: str, tmp_path: Path) -> None:
    ranges = ["algo.gamma=[0.9, 0.95, 0.98]", "algo.n_steps=[32, 64, 128, 256]"]
    ranges += [] if sampler == "grid" else ["algo.learning_rate=log(1e-4,1e-2)"]
    draws = 12 if sampler == "grid" else 14  # the first 10 of tpe and gp are random

    def draw(folder: Path, interrupted: bool) -> list[str]:
        folder.mkdir()
        plan = plan_of(*ranges, sampler=sampler)
        journal, scores = Journal(folder / "journal.log", plan), dict[str, float]()
        for index in range(draws):
            if interrupted and index % 4 == 3:
                journal = Journal(folder / "journal.log", plan)
            found = journal.draw(scores)
            assert found is not None
            number, candidate = found
            rate = candidate.config.algo.learning_rate.highest
            record = Record(candidate.id, 1, 100, 1.0, [(0, 0.0), (100, -abs(math.log10(rate) + 3))])
            journal.tell(number, record, 100)
            scores[candidate.id] = record.score(100)
        return [candidate.id for _, candidate in journal.candidates()]

    straight = draw(tmp_path / "a", interrupted=False)
    assert draw(tmp_path / "b", interrupted=True) == straight
    assert len(set(straight)) == draws  # no config is drawn twice
    if sampler == "grid":
        journal = Journal(tmp_path / "a" / "journal.log", plan_of(*ranges, sampler=sampler))
        assert journal.draw({}) is None  # 3 x 4 combinations


def test_a_draw_that_a_kill_cut_short_does_no_harm(tmp_path: Path) -> None:
    """Optuna writes a trial, then its numbers one by one: each line may be the last."""
    (tmp_path / "s").mkdir()
    path = tmp_path / "s" / "journal.log"
    plan = plan_of("algo.gamma=[0.9, 0.95]", "algo.n_steps=[32, 128]", sampler="grid")
    assert Journal(path, plan).draw({}) is not None
    lines = path.read_bytes().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:cut]))
        journal = Journal(path, plan)
        known = [candidate.id for _, candidate in journal.candidates()]
        while (found := journal.draw({})) is not None:
            known.append(found[1].id)
        assert len(known) == len(set(known)) == 4


def test_the_journal_is_one_that_optuna_opens(tmp_path: Path) -> None:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    folder = tmp_path / "mine"
    folder.mkdir()
    plan = plan_of("algo.learning_rate=log(1e-4,1e-2)", "algo.gamma=oneminus(0.9,0.999)")
    journal = Journal(folder / "journal.log", plan)
    journal.add_base(Record(plan.base.id, 1, 25, 1.0, [(0, 0.0), (25, 4.0)]), 25)
    for index in range(20):
        found = journal.draw({})
        assert found is not None
        journal.tell(found[0], Record(found[1].id, 1, 25, 1.0, [(0, 0.0), (25, float(index))]), 25)
    for _ in range(2):
        journal.add_round("round 2", 50, iter([(found[1], Record(found[1].id, 2, 50, 1.0, [(0, 0.0), (50, 8.0)]))]))
    assert set(journal.importances()) == {"algo.learning_rate", "1 - algo.gamma"}

    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    assert names == ["mine, round 1", "mine, round 2"]
    first, second = (optuna.load_study(study_name=name, storage=storage) for name in names)
    # CartPole's own rate and gamma are points of the space; scores are areas: a line from 0 to 4 has 2
    assert first.trials[0].params == {"algo.learning_rate": 0.003, "1 - algo.gamma": pytest.approx(0.01)}
    assert [trial.value for trial in first.trials] == [2.0, *(index / 2 for index in range(20))]
    assert [trial.value for trial in second.trials] == [4.0]  # once


def test_draws_that_fit_no_config_are_drawn_again(tmp_path: Path) -> None:
    """A batch of 4096 needs n_steps of 128: 32 envs x 64 are fewer."""
    (tmp_path / "s").mkdir()
    plan = plan_of("algo.batch_size=[256, 4096]", "algo.n_steps=[64, 128]")
    journal = Journal(tmp_path / "s" / "journal.log", plan)
    drawn = []
    while (found := journal.draw({})) is not None:
        drawn.append((found[1].values["algo.batch_size"], found[1].values["algo.n_steps"]))
    assert sorted(drawn) == [(256, 128), (4096, 128)]  # (256, 64) is the preset itself


@pytest.mark.parametrize("target", ["CartPole-v1:ppo", "mine.yaml"])
def test_the_winner_is_a_file_that_loads(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("extends: CartPole-v1:ppo\nalgo: {n_steps: 128}\n")
    base = load(target, ["env.kwargs.sutton_barto_reward=false"] if target == "mine.yaml" else [], steps=50_000).config
    plan = Plan(target, base, space_of("algo.gamma=[0.9, 0.99]"), "random", 0, 5)
    winner = plan.candidate({"algo.gamma": 0.95, "algo.learning_rate": 1e-3})
    path = tmp_path / "deep" / "best.yaml"
    write_best(path, plan, winner, compare([3.0, 4.0], [1.0, 2.0]))
    assert "extends: " in path.read_text()
    found = load(str(path)).config
    assert (found.algo.gamma, str(found.algo.learning_rate)) == (0.95, "lin_0.001")
    assert found == configs.validate(with_values(base, winner.values))  # with its 50,000 steps; nothing of MEASURED
    assert found.stop == base.stop
    assert json.dumps(found.eval.model_dump()) == json.dumps(base.eval.model_dump())


@pytest.mark.parametrize(
    ("target", "start", "more", "said"),
    [
        (None, None, {}, "name an ENV"),
        ("CartPole-v1", "@last", {}, "name an ENV or a config file, or a run with --from: one of them"),
        (None, "@last", {}, "no runs yet"),
        ("CartPol-v1", None, {}, "CartPol-v1"),
        ("CartPole-v1", None, {"space": Path("nowhere.yaml")}, "nowhere.yaml: no such file"),
        ("CartPole-v1", None, {"sampler": "luck"}, "--sampler luck: must be one of random"),
        ("CartPole-v1", None, {"against": "CartPole-v1:nothing"}, "unknown variant"),
        ("LunarLander-v3:curriculum", None, {}, "without stages"),
    ],
)
def test_mistakes_are_one_line(
    target: str | None, start: str | None, more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    asked = {"search": [], "space": None, "sampler": None, "seed": 0, "seeds": 5, "against": None} | more
    with pytest.raises(UserError, match=said) as error:
        make_plan(base_of(target, start, [], None, tmp_path / "runs"), **asked)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()
