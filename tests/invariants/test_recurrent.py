"""Agents with a memory: what acts step by step is what learns from sequences, and a memory ends with its episode."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gymnast import PPO, make_vec_env
from gymnast.agent.agent import Agent
from gymnast.agent.batch import Batch
from gymnast.agent.heads import CategoricalHead
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.envs.make import make_vec
from gymnast.judge.evaluate import evaluate
from gymnast.play.episode import rollout_steps
from gymnast.play.player import play
from gymnast.play.step_table import step_table
from gymnast.runs import checkpoint
from gymnast.training.diagnostics import diagnose
from gymnast.training.loop import train
from gymnast.training.state import TrainState
from tests.envs_for_tests import Varied, full_id
from tests.invariants.conftest import collect, small_config
from tests.invariants.test_resume import resumes_exactly

LENGTH = 8  # of a sequence; rollouts are 4 envs x 32 steps
MEMORY = {"memory_size": 12, "sequence_length": LENGTH}
KINDS = [{"memory": kind, "shared": shared} for kind in ("lstm", "gru") for shared in (False, True)]
ACTIONS = [("Discrete", False), ("Discrete", True), ("MultiDiscrete", False), ("MultiDiscrete", True), ("Box", False)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
every_action = pytest.mark.parametrize(("action", "masks"), ACTIONS)


def varied(make_session: Any, kind: dict[str, Any], action: str = "Discrete", masks: bool = False) -> TrainState:
    """A run on short episodes of many lengths, by an agent whose every weight counts."""
    env = {"kwargs": {"action": action}, "action_masks": masks}
    session: TrainState = make_session(small_config("ppo", full_id("Varied-v0"), agent=MEMORY | kind, env=env))
    assert isinstance(session.net, TorchNet)
    shake(session.agent)
    return session


def shake(agent: Agent) -> None:
    """A new agent chooses nearly alike whatever it remembers; this one does not."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)


def scored(session: TrainState, batch: Batch) -> tuple[Tensor, Tensor]:
    out = session.net.score(session.net.prepare(batch))
    return out.logp, out.values["value"]


class Hand:
    """An agent run by hand: torch's own layer, one env and one step at a time; a memory of None is one that starts."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.bodies = agent.actor_body, agent.actor_body if agent.critic_body is None else agent.critic_body
        assert agent.actor_memory is not None
        self.cells = agent.actor_memory.cell, (agent.critic_memory or agent.actor_memory).cell

    def value(self, obs: Any, memory: Any) -> tuple[float, Any]:
        features, memory = self._through(1, obs, memory)
        return float(self.agent.critic_out(features)), memory

    def outputs(self, obs: Any, memory: Any) -> tuple[Tensor, Any]:
        """Of the actor's last layer: logits, or the mean of a Gaussian."""
        features, memory = self._through(0, obs, memory)
        return self.agent.actor_out(features)[0], memory

    def _through(self, which: int, obs: Any, memory: Any) -> tuple[Tensor, Any]:
        features = self.bodies[which]({"obs": torch.as_tensor(obs, dtype=torch.float32)[None]})
        out: tuple[Tensor, Any] = self.cells[which](features, memory)
        return out


@every_kind
@every_action
def test_acting_step_by_step_equals_the_sequences(
    action: str, masks: bool, kind: dict[str, Any], make_session: Any
) -> None:
    session = varied(make_session, kind, action, masks)
    for _ in range(3):
        collect(session)
    rollout = session.rollout
    assert not rollout["starts"][::LENGTH].all()  # some sequences go on with an episode
    assert rollout["starts"][1::LENGTH].any()  # and some hold an episode's start
    assert rollout["terminated"].any()
    assert rollout["truncated"].any()
    batch = rollout.batch(["action", "logp", "value"])
    assert batch.units == len(batch) // LENGTH
    logp, value = scored(session, batch)
    assert logp.std() > 0.1
    torch.testing.assert_close(logp, batch["logp"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(value, batch["value"], rtol=1e-6, atol=1e-6)


@every_kind
def test_values_are_those_of_the_memory_at_that_step(
    kind: dict[str, Any], make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every step, of the observation that a time limit cut off, and of the last one: a forward pass by hand."""
    session = varied(make_session, kind)
    final: list[Any] = []
    step = session.env.step

    def keep_final(actions: Any) -> Any:
        now = step(actions)
        final.append(now.final_obs["obs"].copy())
        return now

    monkeypatch.setattr(session.env, "step", keep_final)
    hand, memories, forgetful = Hand(session.agent), [None] * 4, []
    with torch.no_grad():
        for _ in range(2):
            final.clear()
            collect(session)
            rollout = session.rollout
            obs = rollout.obs["obs"]
            for t, env in itertools.product(range(rollout.n_steps), range(4)):
                if rollout["starts"][t, env]:
                    memories[env] = None
                value, memories[env] = hand.value(obs[t, env], memories[env])
                assert float(rollout["value"][t, env]) == pytest.approx(value, abs=1e-5)
                cut = hand.value(final[t][env], memories[env])[0] if rollout["truncated"][t, env] else 0.0
                assert float(rollout["final_value"][t, env]) == pytest.approx(cut, abs=1e-5)
                if cut:
                    forgetful.append(abs(cut - hand.value(final[t][env], None)[0]))
            for env in range(4):
                memory = None if rollout.ended[-1, env] else memories[env]
                value, _ = hand.value(session.collector.now.obs["obs"][env], memory)
                assert float(rollout.last_values["value"][env]) == pytest.approx(value, abs=1e-5)
    assert np.median(forgetful) > 0.01  # it matters what is remembered


@every_kind
def test_nothing_is_remembered_beyond_an_episode_and_all_within(kind: dict[str, Any], make_session: Any) -> None:
    """A changed observation changes its own step and those after it in its episode, in its sequence, and no other."""
    session = varied(make_session, kind)
    for _ in range(2):
        collect(session)
    batch = session.rollout.batch(["action"])
    episode = batch["starts"].long().cumsum(0)
    same_sequence = torch.arange(len(batch)) // LENGTH
    before = scored(session, batch)
    for place in range(LENGTH):
        changed = batch["obs.obs"].clone()
        changed[place::LENGTH] += 0.5  # that step of every sequence
        after = scored(session, batch.with_columns(**{"obs.obs": changed}))
        where = torch.arange(place, len(batch), LENGTH)[same_sequence]
        expected = (torch.arange(len(batch)) >= where) & (episode == episode[where])
        for one, other in zip(before, after, strict=True):
            assert torch.equal(one != other, expected)


@every_kind
def test_the_stored_memory_counts_until_the_first_start(kind: dict[str, Any], make_session: Any) -> None:
    session = varied(make_session, kind)
    for _ in range(2):
        collect(session)
    batch = session.rollout.batch(["action"])
    other = Batch(batch.columns, {name: state + 0.3 for name, state in batch.state.items()})
    goes_on = batch["starts"].view(-1, LENGTH).cumsum(1) == 0
    assert goes_on.any()
    for one, changed in zip(scored(session, batch), scored(session, other), strict=True):
        assert torch.equal(one != changed, goes_on.flatten())


@every_kind
def test_an_env_that_starts_acts_as_if_there_was_nothing_before(kind: dict[str, Any], make_session: Any) -> None:
    agent = varied(make_session, kind, "Box").agent
    obs = {"obs": torch.rand(4, 3, generator=torch.Generator().manual_seed(1))}
    starts = torch.tensor([True, False, True, False])
    used = {name: rows + 0.3 for name, rows in agent.initial_state(4).items()}
    fresh, later = agent.act(obs), agent.act(obs, used, starts)
    for one, other in ((fresh.action[:, 0], later.action[:, 0]), (fresh.values["value"], later.values["value"])):
        assert torch.equal(one == other, starts)
    assert torch.equal(agent.values(obs, used, starts)["value"], later.values["value"])
    for name, rows in later.state.items():
        assert torch.equal((rows == fresh.state[name]).all(1), starts), name


@every_kind
@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ("CartPole-v1", {"normalize_obs": True, "normalize_reward": True}),
        ("Pendulum-v1", {"std": "sde", "sde_sample_freq": 4}),
        (full_id("ImageObservation-v0"), {}),
        (full_id("DictObservation-v0"), {}),
    ],
)
def test_the_ratio_is_one_on_the_first_minibatch(env: str, agent: Any, kind: dict[str, Any], make_session: Any) -> None:
    config = small_config("ppo", env, agent=MEMORY | kind | agent, train={"total_timesteps": 768}, eval={"every": 0})
    rows: list[dict[str, float]] = []
    train(make_session(config), observer=rows.append)
    assert len(rows) == 6
    for row in rows:
        assert row["train/ratio_first"] == pytest.approx(1.0, abs=1e-5)
        assert np.isfinite(row["train/loss"])
        assert row["train/approx_kl"] > 0


@pytest.mark.parametrize("masks", [False, True])
def test_an_epoch_visits_every_sample_once_in_whole_sequences(
    masks: bool, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = varied(make_session, KINDS[0], masks=masks)
    collect(session)
    session.learner.targets(session.rollout)
    seen: list[Batch] = []
    forward = session.net.forward

    def keep(batch: Batch) -> Any:
        seen.append(batch)
        return forward(batch)

    monkeypatch.setattr(session.net, "forward", keep)
    session.learner.update(session.rollout, 0.0)
    assert [len(batch) for batch in seen] == [64] * 4  # two epochs of two minibatches: 128 samples in 64s
    whole = session.rollout.batch(["logp"])
    numbers = {tuple(row): i for i, row in enumerate(whole["obs.obs"].tolist())}  # observations are random: all differ
    assert len(numbers) == 128
    orders = []
    for epoch in (seen[:2], seen[2:]):
        order = [numbers[tuple(row)] for batch in epoch for row in batch["obs.obs"].tolist()]
        assert sorted(order) == list(range(128))
        sequences = np.array(order).reshape(-1, LENGTH)
        assert (np.diff(sequences, axis=1) == 1).all()
        assert (sequences[:, 0] % LENGTH == 0).all()
        for name, states in whole.state.items():
            kept = torch.cat([batch.state[name] for batch in epoch])
            assert torch.equal(kept, states[sequences[:, 0] // LENGTH]), name
        orders.append(order)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ({"id": full_id("Varied-v0"), "action_masks": True}, KINDS[0]),
        ({"id": full_id("Varied-v0"), "kwargs": {"action": "Box"}}, KINDS[1] | {"std": "sde", "sde_sample_freq": 5}),
        ({"id": "CartPole-v1"}, KINDS[2] | {"normalize_obs": True, "normalize_reward": True}),
        ({"id": "CartPole-v1", "engine": "cartpole"}, KINDS[3]),
    ],
    ids=str,
)
def test_resumed_equals_uninterrupted(algo: str, env: Any, agent: Any, tmp_path: Path, make_session: Any) -> None:
    budget = {"total_timesteps": 2048}
    config = small_config(algo, env=env, agent=MEMORY | agent, train=budget, eval={"every": 512, "policy": "both"})
    resumes_exactly(config, tmp_path, make_session)
    tensors = checkpoint.load(tmp_path / "last.safetensors").tensors
    going_on = ~tensors["collector/starts"]
    assert going_on.any()  # it was stopped in the middle of episodes
    assert (tensors["collector/state/actor.h"][going_on] != 0).any(1).all()


@every_kind
def test_predict_is_acting_step_by_step(kind: dict[str, Any], tmp_path: Path) -> None:
    """stable-baselines3's loop: the state goes round, and `episode_start` is what the envs said."""
    settings = MEMORY | kind | {"n_steps": 32, "batch_size": 32, "n_envs": 4}
    model = PPO(lambda: Varied(action="Box"), **settings)
    shake(model.policy)
    model.save(tmp_path / "model")
    hand, memories = Hand(model.policy), [None] * 4
    envs = make_vec_env(lambda: Varied(action="Box"), 4, seed=3)
    low, high = envs.action_space.low, envs.action_space.high  # type: ignore[attr-defined]
    for player in (model, PPO.load(tmp_path / "model")):
        obs, starts = envs.reset(), np.ones(4, bool)
        previous: Any = None
        ends = forgetful = 0
        for _ in range(30):
            actions, state = player.predict(obs, previous, starts, deterministic=True)
            with torch.no_grad():
                for env in range(4):
                    mean, memories[env] = hand.outputs(obs[env], None if starts[env] else memories[env])
                    assert actions[env] == pytest.approx(np.clip(mean.numpy(), low, high), abs=1e-5)
            one: Any = {name: rows[:1] for name, rows in previous.items()} if previous else None
            alone, _ = player.predict(obs[0], one, starts[0], deterministic=True)  # an observation without a batch
            assert alone == pytest.approx(actions[0], abs=1e-5)
            forgetful += not np.allclose(player.predict(obs, deterministic=True)[0], actions)
            previous = state
            obs, _, starts, _ = envs.step(actions)
            ends += int(starts.sum())
        assert ends > 10
        assert forgetful > 10
    envs.close()


def test_predict_without_a_memory_passes_the_state_through() -> None:
    model = PPO(lambda: Varied(), n_steps=32, batch_size=32)
    assert model.predict(np.zeros(3), deterministic=True)[1] is None


@every_kind
@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete"])
def test_masked_actions_are_never_sampled_and_have_no_gradient(
    action: str, kind: dict[str, Any], make_session: Any
) -> None:
    session = varied(make_session, kind, action, masks=True)
    assert isinstance(session.agent.head, CategoricalHead)
    sizes = session.agent.head.sizes
    for _ in range(2):
        collect(session)
        rollout = session.rollout
        chosen = rollout["action"].reshape(*rollout["action"].shape[:2], len(sizes))
        for part, allowed in enumerate(rollout["mask"].split(sizes, 2)):
            assert allowed.gather(2, chosen[..., part : part + 1]).all()
            assert not allowed.all()
    logits: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, out: Tensor) -> None:
        out.retain_grad()
        logits.append(out)

    handle = session.agent.actor_out.register_forward_hook(keep)
    batch = rollout.batch(["action"])
    out = session.agent.evaluate(batch)
    handle.remove()
    (out.logp.sum() + out.entropy.sum()).backward()
    gradient = logits[0].grad
    assert gradient is not None
    assert (gradient[~batch.mask] == 0).all()
    several = (batch.mask.sum(1) > len(sizes))[:, None] & batch.mask  # where there is a choice, there is a gradient
    assert (gradient[several] != 0).float().mean() > 0.5


@every_kind
def test_evaluation_forgets_between_episodes(kind: dict[str, Any], make_session: Any) -> None:
    """Every episode shows the same observations: only a memory of the one before could make a difference."""
    session = make_session(small_config("ppo", full_id("Paid-v0"), agent=MEMORY | kind | {"rescale_actions": False}))
    shake(session.agent)
    env = make_vec(session.config.env, 2, "eval")
    scores = evaluate(session.net, env, 7, seed=3)
    hand, memory, returns = Hand(session.agent), None, []
    with torch.no_grad():
        for _ in range(2):  # the second with what the first left behind
            total = 0.0
            for t in range(5):
                mean, memory = hand.outputs([t], memory)
                total += float(mean)
            returns.append(total)
    env.close()
    assert scores.lengths.tolist() == [5] * 7
    assert scores.returns == pytest.approx([returns[0]] * 7, abs=1e-5)
    assert returns[1] != pytest.approx(returns[0], abs=1e-2)


@every_kind
def test_what_is_shown_of_an_agent_at_play_has_its_memory(kind: dict[str, Any], make_session: Any) -> None:
    session = varied(make_session, kind)
    hand, actors, critics = Hand(session.agent), [None] * 4, [None] * 4
    with torch.no_grad():
        for moment in itertools.islice(play(session.net, session.env, seed=1), 20):
            shown = moment.describe(session.net)
            for env, obs in enumerate(moment.now.obs["obs"]):
                if moment.starts[env]:
                    actors[env] = critics[env] = None
                logits, actors[env] = hand.outputs(obs, actors[env])
                value, critics[env] = hand.value(obs, critics[env])
                assert float(shown["value"][env]) == pytest.approx(value, abs=1e-5)
                assert shown["probability"][env].tolist() == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)
                assert int(moment.actions[env]) == int(logits.argmax())


@every_kind
def test_tables_and_diagnostics_run_through_the_memory(kind: dict[str, Any], make_session: Any) -> None:
    """Before anything is learned, the agent as it is now is the agent that acted."""
    session = varied(make_session, kind)
    for _ in range(2):
        collect(session)
    session.learner.targets(session.rollout)
    table = step_table(rollout_steps(session.agent, session.rollout, env=2, limit=20), session.labels)
    assert len(table) == 16  # whole sequences
    for named in table:
        assert named[f"p {named['action']}"] == pytest.approx(named["probability"], abs=1e-6)
    record = diagnose(session)
    json.dumps(record)
    assert record["gradients"].keys() == dict(session.agent.named_parameters()).keys()
