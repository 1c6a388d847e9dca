"""What is played can be read back by Minari, number for number and pixel for pixel."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.envs.make import make_env
from gymnast.play.dataset import save_dataset
from gymnast.play.game import Game
from gymnast.play.session import PlaySession
from gymnast.runs.saved_agent import SavedAgent

minari = pytest.importorskip("minari")

TARGETS = ["CartPole-v1", "FrozenLake-v1", "Pendulum-v1", "Blackjack-v1", "MinAtar/Breakout-v1", "ALE/Pong-v5"]


@pytest.mark.parametrize("target", TARGETS)
def test_minari_reads_what_was_played(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configs.load(target).config
    game = Game(config, pictures=False)
    session = PlaySession(game, lambda name: None, SavedAgent.build(config, game.vec).net)
    traces = []
    for seed in (3, 4):
        trace = session.begin(seed, "random")
        for t in range(9):  # some of them end before, and most are left before their end
            if trace.outcome is None:
                session.advance("human", session.choose(session.now, t, seed, "random", None)[1])
        traces.append(trace)
    made = save_dataset(traces, game, tmp_path, "play")
    assert (made["episodes"], made["steps"]) == (2, sum(trace.length for trace in traces))
    assert save_dataset(traces, game, tmp_path, "play")["id"] != made["id"]  # nothing is replaced

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = minari.load_dataset(made["id"])
    env = make_env(config.eval_env, "eval")
    assert dataset.spec.observation_space == env.observation_space
    assert dataset.spec.action_space == env.action_space
    for trace, episode in zip(traces, dataset.iterate_episodes(), strict=True):
        expected = [env.reset(seed=trace.seed)[0]]
        for action, reward, ended in zip(episode.actions, episode.rewards, episode.terminations, strict=True):
            seen, given, terminated, _, _ = env.step(action if np.ndim(action) else int(action))
            expected.append(np.array(seen) if not isinstance(seen, tuple) else seen)
            assert (given, terminated) == (reward, ended)
        if isinstance(env.observation_space, gym.spaces.Tuple):
            columns = list(zip(*expected, strict=True))
            for column, stored in zip(columns, episode.observations, strict=True):
                np.testing.assert_array_equal(np.array(column), stored)
        else:
            np.testing.assert_array_equal(np.array(expected), episode.observations)
        assert episode.terminations[-1] or episode.truncations[-1]
        assert np.all(np.asarray(episode.infos["human"]) == 1)
    env.close()
    game.close()


def test_nothing_played_is_nothing_saved(tmp_path: Path) -> None:
    game = Game(configs.load("CartPole-v1").config, pictures=False)
    with pytest.raises(UserError, match="nothing was played"):
        save_dataset([], game, tmp_path, "play")
    game.close()
