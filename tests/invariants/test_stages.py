"""A curriculum: the same agent through several envs in order, resumable at any moment; what it forgets is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.config import RunConfig
from gymnast.core.errors import UserError
from gymnast.core.pulse import BrokenOff, Pulse
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_vec
from gymnast.judge.evaluate import evaluate
from gymnast.judge.judge import Judge
from gymnast.runs import checkpoint
from gymnast.runs.saved_agent import SavedAgent
from gymnast.training.build import build
from gymnast.training.loop import Result, train
from gymnast.training.state import TrainState, restore
from tests import envs_for_tests  # noqa: F401  registers test/Counting-v0
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import equal, interrupt_after

Row = dict[str, float]

NOISE = {"observation_noise": {"std": 0.05}}
STAGES: dict[str, Any] = {
    "short": {"env": {"max_episode_steps": 20}, "advance": {"steps": 1024}},
    "noisy": {"env": {"max_episode_steps": 40, "wrappers": [NOISE]}, "advance": {"steps": 1024}},
    "full": {},
}


def staged(stages: dict[str, Any] = STAGES, **sections: dict[str, Any]) -> RunConfig:
    sections = {"log": {"every": 1}, "eval": {"every": 512, "episodes": 4}} | sections
    return small_config(
        agent={"hidden": [16], "normalize_obs": True, "normalize_reward": True}, stages=stages, **sections
    )


def rows_of(session: TrainState, **options: Any) -> tuple[Result, list[Row]]:
    rows: list[Row] = []
    return train(session, observer=lambda row: rows.append(row), **options), rows


def first_of(rows: list[Row], stage: int) -> Row:
    return next(row for row in rows if row["time/stage"] == stage)


def test_stages_follow_each_other_by_steps(make_session: Any, tmp_path: Path) -> None:
    """A rollout is 128 steps: 1024 are 8 of them. Time limits of 20 and 40 steps are how the envs are told apart."""
    session = make_session(staged())
    _, rows = rows_of(session, checkpoints=tmp_path)
    assert [row["time/total_timesteps"] for row in rows if row["time/stage"] == 1] == [128.0 * n for n in range(1, 9)]
    assert [row["time/total_timesteps"] for row in rows if row["time/stage"] == 2] == [128.0 * n for n in range(9, 17)]
    for stage, limit in ((1, 20), (2, 40)):
        lengths = [
            row["rollout/ep_len_mean"] for row in rows if row["time/stage"] == stage and "rollout/ep_len_mean" in row
        ]
        assert max(lengths) <= limit
    assert max(row["rollout/ep_rew_max"] for row in rows if "rollout/ep_rew_max" in row) > 40  # the last has no limit
    kept = {path.stem for path in tmp_path.glob("*.safetensors")}
    assert {"stage_short", "stage_noisy"} <= kept
    assert checkpoint.load(tmp_path / "stage_short.safetensors").state["counters"]["stage"] == 0


def test_an_evaluation_says_which_stage_it_is_of(make_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, str]] = []
    begin = Pulse.begin

    def noting(pulse: Pulse, *words: Any, **named: Any) -> None:
        begin(pulse, *words, **named)
        begun.append((pulse.activity.name, pulse.activity.of))

    monkeypatch.setattr(Pulse, "begin", noting)
    train(make_session(staged()))
    evaluated = [where for name, where in begun if name == "evaluating"]
    assert set(evaluated) == {"short", "noisy", "full"}
    assert evaluated[-3:] == ["full", "short", "noisy"]  # the last agent, where it is and where it was
    assert {where for name, where in begun if name == "score"} == {"full"}
    assert {where for name, where in begun if name in ("collecting", "learning", "saving")} == {""}


def test_the_agent_and_its_clock_go_on(make_session: Any) -> None:
    """Progress, the optimizer's steps and the normaliser's count do not begin again with a stage."""
    session = make_session(staged(algo={"learning_rate": "lin_1e-3"}))
    _, rows = rows_of(session)
    rates = [row["train/learning_rate"] for row in rows]
    assert rates == sorted(rates, reverse=True)
    assert [row["time/updates"] for row in rows] == [float(n) for n in range(1, 33)]
    moments = {name: tensor for name, tensor in session.agent.state_dict().items() if name.endswith("count")}
    assert moments
    assert any(float(count) == pytest.approx(4096, rel=0.05) for count in moments.values()), moments


def test_the_training_window_begins_again(make_session: Any) -> None:
    _, rows = rows_of(make_session(staged()))
    before = [row for row in rows if row["time/stage"] == 1][-1]
    after = first_of(rows, 2)
    assert before["rollout/truncated_fraction"] > 0  # cut at 20 steps
    episodes = after["time/episodes"] - before["time/episodes"]
    assert episodes < 100  # the window would hold older ones, if it went on
    assert after.get("rollout/ep_rew_best", 0) == after.get("rollout/ep_rew_mean", 0)


@pytest.mark.parametrize("at", [3, 8, 12, 16, 20], ids=["stage 1", "advance 1", "stage 2", "advance 2", "stage 3"])
def test_resumed_equals_uninterrupted(at: int, make_session: Any, tmp_path: Path) -> None:
    whole = make_session(staged())
    _, rows = rows_of(whole)
    first: list[Row] = []
    interrupt = interrupt_after(at)

    def observe(row: Row) -> None:
        first.append(row)
        interrupt(row)

    stopped = make_session(staged())
    assert train(stopped, checkpoints=tmp_path, observer=observe).stop_reason == "interrupted"
    assert len(first) == at
    saved = checkpoint.load(tmp_path / "last.safetensors")
    assert saved.state["counters"]["advancing"] == (at in (8, 16))
    resumed = make_session(staged())
    assert restore(resumed, saved.tensors, saved.state) == []
    _, second = rows_of(resumed)
    equal(rows, first + second)
    for name, tensor in whole.agent.state_dict().items():
        assert torch.equal(tensor, resumed.agent.state_dict()[name]), name
    assert resumed.judge.record.stage_ends == whole.judge.record.stage_ends


def test_advance_by_score(make_session: Any) -> None:
    """Evaluations are cut at 20 steps, so 15 is reached soon; the first one that reaches it ends the stage."""
    stages = {"short": {"env": {"max_episode_steps": 20}, "advance": {"score": 15}}, "full": {}}
    _, rows = rows_of(make_session(staged(stages)))
    scores = [row["eval/mean_reward"] for row in rows if "eval/mean_reward" in row and row["time/stage"] == 1]
    assert scores
    assert [score >= 15 for score in scores] == [False] * (len(scores) - 1) + [True]
    assert rows[-1]["time/stage"] == 2


def test_advance_by_plateau(make_session: Any) -> None:
    """No evaluation is 1000 better than the first: after three without a new best the stage ends."""
    plateau = {"evals": 3, "min_delta": 1000}
    stages = {"short": {"env": {"max_episode_steps": 20}, "advance": {"plateau": plateau}}, "full": {}}
    _, rows = rows_of(make_session(staged(stages)))
    assert len([row for row in rows if "eval/mean_reward" in row and row["time/stage"] == 1]) == 4
    assert first_of(rows, 2)["time/total_timesteps"] == 4 * 512 + 128


def test_the_first_rule_that_is_met_advances(make_session: Any) -> None:
    stages = {"short": {"env": {"max_episode_steps": 20}, "advance": {"score": 1000, "steps": 256}}, "full": {}}
    _, rows = rows_of(make_session(staged(stages)))
    assert first_of(rows, 2)["time/total_timesteps"] == 256 + 128


def test_a_run_may_end_in_an_earlier_stage(make_session: Any) -> None:
    stages = {"short": {"env": {"max_episode_steps": 20}, "advance": {"score": 1000}}, "full": {}}
    result, rows = rows_of(make_session(staged(stages, stop={"on_solved": True, "episodes": 4}), threshold=1.0))
    assert result.stop_reason == "steps"
    assert not result.solved  # the threshold is the last stage's: an earlier one gives no verdict
    assert rows[-1]["time/stage"] == 1


def test_solved_is_a_verdict_on_the_last_stage(make_session: Any) -> None:
    """30 is out of reach in the first stage, where episodes are cut at 20."""
    stages = {
        "short": {"env": {"max_episode_steps": 20}, "advance": {"steps": 512}},
        "full": {"env": {"max_episode_steps": 100}},
    }
    config = staged(stages, stop={"on_solved": True, "episodes": 20}, train={"total_timesteps": 40_000, "seed": 1})
    result, rows = rows_of(make_session(config, threshold=30.0))
    assert (result.stop_reason, result.solved) == ("solved", True)
    assert rows[-1]["time/stage"] == 2


def test_scores_and_forgetting_are_those_of_an_evaluation_by_hand(make_session: Any, tmp_path: Path) -> None:
    config = staged()
    session = make_session(config)
    _, rows = rows_of(session, checkpoints=tmp_path)
    number = -1
    for row in rows:
        number += "eval/mean_reward" in row
        if row["time/total_timesteps"] == 2048:  # the end of the second stage
            break
    scores = {name: row[f"stage/{name}/mean_reward"] for name in ("short", "noisy")}
    by_hand = by_checkpoint(config, tmp_path / "stage_noisy.safetensors", derive_seed(1, "stage", "noisy"), (0, 1))
    assert scores == by_hand
    ended = rows_at(rows, 1024)["stage/short/mean_reward"]
    assert rows_at(rows, 1024)["forgetting/short"] == 0.0
    assert row["forgetting/noisy"] == 0.0
    assert row["forgetting/short"] == ended - scores["short"]
    # and of a plain evaluation in the last stage
    last = rows[-1]
    evaluations = sum("eval/mean_reward" in one for one in rows)
    seed = derive_seed(1, "eval", evaluations - 1)
    by_hand = by_checkpoint(config, tmp_path / "last.safetensors", seed, (0, 1, 2))
    assert {name: last[f"stage/{name}/mean_reward"] for name in STAGES} == by_hand
    assert last["eval/mean_reward"] == by_hand["full"]
    assert last["forgetting/short"] == ended - by_hand["short"]
    assert "forgetting/full" not in last


def rows_at(rows: list[Row], step: int) -> Row:
    return next(row for row in rows if row["time/total_timesteps"] == step)


def by_checkpoint(config: RunConfig, path: Path, seed: int, stages: tuple[int, ...]) -> dict[str, float]:
    """Mean returns of a saved agent, in envs that this test makes itself."""
    means = {}
    for index in stages:
        env = make_vec(config.in_stage(index).eval_env, 4, "eval")
        net = SavedAgent.build(config, env, checkpoint.load(path).agent).net
        means[list(config.stages)[index]] = evaluate(net, env, 4, seed).mean
        env.close()
    return means


def test_background_evaluation_measures_the_same(make_session: Any) -> None:
    """In another process an evaluation comes later; what it finds at a step is the same."""

    def measured(rows: list[Row]) -> dict[tuple[float, str], float]:
        return {
            (row["eval/step"], name): value
            for row in rows
            if "eval/step" in row
            for name, value in row.items()
            if name.startswith(("stage/", "forgetting/")) and row.get("time/total_timesteps", 0) not in (1024, 2048)
        }

    _, here = rows_of(make_session(staged()))
    _, there = rows_of(make_session(staged(eval={"every": 512, "episodes": 4, "background": True})))
    shared = measured(there).keys() & measured(here).keys()
    assert len(shared) >= 4
    assert {key: measured(there)[key] for key in shared} == {key: measured(here)[key] for key in shared}


def test_other_spaces_are_refused_before_the_first_step() -> None:
    stages = {
        "cart": {"advance": {"steps": 512}},
        "car": {"env": {"id": "MountainCar-v0"}, "advance": {"steps": 512}},
        "acro": {"env": {"id": "Acrobot-v1"}},
    }
    with pytest.raises(UserError) as refused:
        build(staged(stages), None)
    lines = str(refused.value).splitlines()
    assert [line.partition(" has ")[0] for line in lines] == [
        "stages.car.env: MountainCar-v0",
        "stages.car.env: MountainCar-v0",
        "stages.acro.env: Acrobot-v1",
        "stages.acro.env: Acrobot-v1",
    ]
    assert "stages.cart.env: CartPole-v1" in lines[0]


def test_changed_settings_of_a_resumed_run(make_session: Any, tmp_path: Path) -> None:
    """Later stages and rules may change, those that the run has been in may not."""
    stopped = make_session(staged())
    train(stopped, checkpoints=tmp_path, observer=interrupt_after(12))
    saved = checkpoint.load(tmp_path / "last.safetensors")
    longer = STAGES | {"noisy": STAGES["noisy"] | {"advance": {"steps": 2048}}}
    session = make_session(staged(longer))
    assert restore(session, saved.tensors, saved.state) == []
    _, rows = rows_of(session)
    assert first_of(rows, 3)["time/total_timesteps"] == 1024 + 2048 + 128
    assert rows[-1]["stage/short/mean_reward"] > 0  # it is still known that the run was there
    with pytest.raises(UserError, match="has been in short, noisy"):
        restore(make_session(staged({"noisy": STAGES["noisy"], "full": {}})), saved.tensors, saved.state)
    other = STAGES | {"noisy": {"env": {"max_episode_steps": 60}, "advance": {"steps": 1024}}}
    assert restore(make_session(staged(other)), saved.tensors, saved.state) == [
        "episodes in progress start again: the env's settings changed"
    ]


def test_an_env_that_cannot_be_made_names_its_stage() -> None:
    stages = {"cart": {"advance": {"steps": 512}}, "other": {"env": {"kwargs": {"gravitty": 3}}}}
    with pytest.raises(UserError, match=r"stages\.other\.env: .*gravitty"):
        build(staged(stages), None)


def test_an_interruption_while_the_end_of_a_stage_is_measured(
    make_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage's end is measured again, from the start, when the run goes on; no row is lost and none is doubled."""
    _, rows = rows_of(make_session(staged()))
    stopped = make_session(staged())
    measure = Judge.end_stage

    def broken_off(judge: Judge, step: int) -> Row:
        stopped.pulse.stopping = True
        raise BrokenOff

    monkeypatch.setattr(Judge, "end_stage", broken_off)
    result, first = rows_of(stopped, checkpoints=tmp_path)
    assert result.stop_reason == "interrupted"
    monkeypatch.setattr(Judge, "end_stage", measure)
    saved = checkpoint.load(tmp_path / "last.safetensors")
    assert (saved.state["counters"]["unjudged"], saved.state["counters"]["advancing"]) == (True, False)
    resumed = make_session(staged())
    assert restore(resumed, saved.tensors, saved.state) == []
    _, second = rows_of(resumed)
    equal(rows, first + second)


def test_every_stage_waits_for_the_start_level_or_its_own(make_session: Any) -> None:
    """No episode of 20 steps returns 1000, so there is no evaluation; a stage with a level of its own has
    them. The end of a stage and of the run are always scored."""
    eval_ = {"every": 512, "episodes": 4, "start_level": 1000}
    for own in ({}, {"start_level": -1}):
        stages = {"short": {"env": {"max_episode_steps": 20}, "advance": {"steps": 1024}}, "full": own}
        _, rows = rows_of(make_session(staged(stages, eval=eval_, train={"total_timesteps": 2048, "seed": 1})))
        for name in ("eval/mean_reward", "forgetting/short"):
            first, *between, last = [row["time/total_timesteps"] for row in rows if name in row]
            assert (first, last) == (1024, 2048)
            assert len(between) == len(own)  # when the stage has 20 episodes of its own


def test_a_stage_to_warm_up_in_is_never_scored_again(make_session: Any) -> None:
    stages = {
        "warm": {"env": {"max_episode_steps": 20}, "advance": {"steps": 1024}, "forgetting": False},
        "full": {},
    }
    session = make_session(staged(stages, eval={"every": 512, "episodes": 4}, train={"total_timesteps": 2048}))
    _, rows = rows_of(session)
    late = [row for row in rows if row.get("time/total_timesteps", 0) > 1024]
    assert not any(name.startswith("forgetting/") for row in rows for name in row)
    assert not any("stage/warm/mean_reward" in row for row in late)
    assert [row["time/total_timesteps"] for row in rows if "eval/mean_reward" in row] == [
        512,
        1536,
        2048,
    ]  # not at 1024
    assert session.judge.record.stage_ends["warm"].score is None


def test_a_threshold_out_of_the_last_stages_reach_is_refused_before_the_first_step() -> None:
    """Two moves on ice reach the goal with a probability of 2/3 x 2/3 at the most."""
    stages = {
        "a": {"advance": {"steps": 512}},
        "b": {"env": {"kwargs": {"desc": ["SF", "FG"]}, "max_episode_steps": 2}},
    }
    config = small_config(env={"id": "FrozenLake-v1", "kwargs": {"desc": ["SF", "FG"]}}, stages=stages)
    with pytest.raises(UserError, match=r"^stop.threshold: 0.7 is above the best possible mean return"):
        build(config, 0.7)


def test_a_stage_in_which_no_episode_ends_has_no_score() -> None:
    env = {"id": "test/Counting-v0", "kwargs": {"length": None}}
    stages = {"endless": {"advance": {"steps": 512}}, "limited": {"env": {"max_episode_steps": 50}}}
    session = build(small_config(env=env, stages=stages, train={"total_timesteps": 2048}), None)
    try:
        _, rows = rows_of(session)
        assert session.judge.record.stage_ends["endless"].score is None
        assert "stage/limited/mean_reward" in rows[-1]
        assert not any(name.startswith("forgetting/") for row in rows for name in row)
    finally:
        session.close()
