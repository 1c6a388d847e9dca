"""Plain envs that are watched: every picture of an episode, its last one included, with all that belongs to it."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.make import EnvMaker, Factory
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites import missing_package
from gymnast.envs.types import EpisodeRecord
from gymnast.play.player import play

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import EnvConfig

Picture = NDArray[np.uint8]  # [height, width, 3]
DEFAULT_FPS = 30.0  # of an env that does not say


@dataclass(frozen=True)
class Shot:
    """One picture: the state before step `t`, and what the agent makes of it. An episode's last one has no action."""

    picture: Picture
    episode: int
    t: int
    reward: float  # of the step that led here, as the env gave it
    total: float  # of the episode so far
    frames: int  # raw env steps so far
    action: Any = None  # a number or a list of numbers, as the env takes it
    value: float | None = None
    probabilities: list[float] | None = None  # of discrete actions; None: continuous ones
    record: EpisodeRecord | None = None  # on the last picture


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Takes a picture after every reset and step of one episode. The engine resets an env as soon as it ends."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._recorder = recorder_of(env)
        self.begin()

    def begin(self) -> None:
        """The next reset starts the episode that is watched."""
        self.ended = False
        self.taken: list[tuple[Picture, float, int]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._take()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._take()
        self.ended = self.ended or bool(result[2] or result[3])
        return result

    def _take(self) -> None:
        if not self.ended:
            self.taken.append((self._picture(), self._recorder.raw_return, self._recorder.frames))

    def _picture(self) -> Picture:
        name = self.spec.id if self.spec else type(self.unwrapped).__name__
        try:
            shown: Any = self.env.render()
        except gym.error.DependencyNotInstalled as error:
            raise UserError(missing_package(name, self.spec, error)) from error
        if not isinstance(shown, np.ndarray) or shown.ndim not in (2, 3):
            raise UserError(f"{name} draws no pictures: it can be trained and scored, not watched.")
        if shown.dtype.kind == "f":
            shown = np.clip(shown * 255, 0, 255)
        colours = shown if shown.ndim == 3 else np.repeat(shown[:, :, None], 3, axis=2)
        return np.ascontiguousarray(colours[:, :, :3], dtype=np.uint8)


class Stage:
    """As many plain envs as episodes, made as evaluation makes them; each is watched for its first episode.

    They are stepped together, exactly as an evaluation of that many episodes, so their returns are the same.
    """

    def __init__(self, config: EnvConfig, episodes: int, factory: Factory | None = None) -> None:
        self._envs: list[Watched] = []
        maker = EnvMaker(config, "eval", factory, "rgb_array")

        def make() -> Watched:
            self._envs.append(Watched(maker()))
            return self._envs[-1]

        self.engine = SyncEngine(make, episodes, name=config.id, action_masks=config.action_masks)

    @property
    def fps(self) -> float:
        """Raw env steps a second."""
        return float(self._envs[0].metadata.get("render_fps") or DEFAULT_FPS)

    def action_names(self) -> list[str] | None:
        """What the env itself calls its actions."""
        meanings = getattr(self._envs[0].unwrapped, "get_action_meanings", None)
        return None if meanings is None else [str(name).lower() for name in meanings()]

    def shots(self, net: Net, seed: int, deterministic: bool = True) -> Iterator[Shot]:
        """Every picture of every episode, one episode after the other."""
        for env in self._envs:
            env.begin()
        waiting: list[deque[tuple[Shot, bytes, tuple[int, ...]]]] = [
            deque() for _ in self._envs
        ]  # of episodes whose turn has not come
        turn = 0
        totals, steps, over = [0.0] * len(self._envs), [0] * len(self._envs), [False] * len(self._envs)
        for moment in play(net, self.engine, seed, deterministic):
            records = {record.env: record for record in moment.now.episodes}
            thoughts, actions = moment.describe(net), moment.actions
            values, chances = thoughts["value"], thoughts.get("probability")
            for i, env in enumerate(self._envs):
                if over[i]:
                    continue
                picture, total, frames = env.taken.pop()
                shot = Shot(picture, i, steps[i], total - totals[i], total, frames)
                if env.ended:
                    shot, over[i] = replace(shot, record=records[i]), True
                else:
                    chance = None if chances is None else chances[i].tolist()
                    shot = replace(shot, action=actions[i].tolist(), value=float(values[i]), probabilities=chance)
                totals[i], steps[i] = total, steps[i] + 1
                if i == turn:
                    yield shot
                else:
                    waiting[i].append(
                        (replace(shot, picture=picture[:0]), zlib.compress(picture.tobytes(), 1), picture.shape)
                    )
            while turn < len(over) and over[turn]:
                turn += 1
                if turn < len(over):
                    for shot, packed, shape in waiting[turn]:
                        yield replace(shot, picture=np.frombuffer(zlib.decompress(packed), np.uint8).reshape(shape))
                    waiting[turn].clear()
            if turn == len(over):
                return

    def close(self) -> None:
        self.engine.close()
