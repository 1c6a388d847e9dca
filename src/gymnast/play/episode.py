"""An episode as it was played: the one record of what an agent saw, thought and did, and of what came of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.batch import OBS, Batch
from gymnast.agent.tasks import TaskGaussianHead
from gymnast.envs.types import NO_PICTURE, Box, EpisodeRecord, Picture
from gymnast.play.player import play

if TYPE_CHECKING:
    from gymnast.agent.agent import Agent
    from gymnast.agent.nets import Net
    from gymnast.play.stage import Stage
    from gymnast.rl.rollout import Rollout


@dataclass(frozen=True)
class Step:
    """What an env showed, what the agent made of it, and what its action brought. An episode's last has no action."""

    env: int
    t: int
    obs: dict[str, NDArray[Any]]
    mask: NDArray[np.bool_] | None = None
    state: dict[str, NDArray[Any]] = field(default_factory=dict)  # what the agent remembers
    action: Any = None  # a number or a list of numbers, as the env takes it
    probability: float | None = None  # of this action, where it was recorded
    choices: dict[str, list[float]] = field(default_factory=dict)  # `probability` of each, or `mean` and `std`
    value: float | None = None
    reward: float = 0.0
    components: dict[str, float] = field(default_factory=dict)  # named parts of the reward
    variables: dict[str, float] = field(default_factory=dict)  # what the game counted before it
    terminated: bool = False
    truncated: bool = False
    learned: dict[str, float] = field(default_factory=dict)  # return and advantage, of a step that was learned from
    total: float = 0.0  # reward of the episode before this step
    frames: int = 0  # raw env steps of the episode before this step
    picture: Picture = field(default_factory=lambda: NO_PICTURE)
    boxes: Sequence[Box] = ()  # objects in the picture, where they were asked for
    record: EpisodeRecord | None = None  # on the last step


def play_episodes(net: Net, stage: Stage, seed: int, deterministic: bool = True) -> Iterator[Step]:
    """The first episode of each env, one after the other. All are played together, exactly as they are scored."""
    return _in_turn(_play_together(net, stage, seed, deterministic))


def _play_together(net: Net, stage: Stage, seed: int, deterministic: bool) -> Iterator[Step]:
    """In the order of time; each step as soon as it is known what came of it."""
    for env in stage.envs:
        env.begin()
    open_steps: dict[int, Step] = {}
    playing = set(range(len(stage.envs)))
    head = net.agent.head
    count, padded = head.choices_of(stage.task), isinstance(head, TaskGaussianHead)
    for t, moment in enumerate(play(net, stage.engine, seed, deterministic)):
        now, thoughts = moment.now, moment.describe(net)
        records = {record.env: record for record in now.episodes}
        for i in sorted(playing):
            env, over = stage.envs[i], stage.envs[i].ended
            if t:
                ended: dict[str, Any] = {"terminated": bool(now.terminated[i]), "truncated": bool(now.truncated[i])}
                yield replace(open_steps[i], reward=env.reward, components=env.components, **ended)
            seen = {key: rows[i].copy() for key, rows in (now.final_obs if over else now.obs).items()}
            here = Step(i, t, seen, total=env.total, frames=env.frames, picture=env.picture, boxes=env.boxes)
            if over:
                playing.remove(i)
                yield replace(here, record=records[i])
                continue
            open_steps[i] = replace(
                here,
                mask=None if now.mask is None else now.mask[i].copy(),
                state={name: rows[i].cpu().numpy().copy() for name, rows in moment.state.items()},
                action=(moment.actions[i, :count] if padded else moment.actions[i]).tolist(),
                choices={name: rows[i, :count].tolist() for name, rows in thoughts.items() if name != "value"},
                value=float(thoughts["value"][i]),
            )
        if not playing:
            return


def _in_turn(steps: Iterable[Step]) -> Iterator[Step]:
    """A whole episode at a time. Pictures of those whose turn has not come are packed: they would fill the memory."""
    waiting: dict[int, list[tuple[Step, bytes]]] = {}
    turn = 0
    for step in steps:
        if step.env != turn:
            bare = replace(step, picture=np.empty((0, *step.picture.shape[1:]), np.uint8))
            waiting.setdefault(step.env, []).append((bare, zlib.compress(step.picture.tobytes(), 1)))
            continue
        yield step
        over = step.record is not None
        while over:
            turn, over = turn + 1, False
            for bare, packed in waiting.pop(turn, ()):
                pixels = np.frombuffer(zlib.decompress(packed), np.uint8)
                yield replace(bare, picture=pixels.reshape(-1, *bare.picture.shape[1:]))
                over = bare.record is not None


def rollout_steps(agent: Agent, rollout: Rollout, env: int = 0, limit: int = 64) -> list[Step]:
    """The first steps of one env of a rollout that has been learned from.

    `choices` are the agent's as it is now; `probability` and `value` are those of the moment the action was chosen (of
    continuous actions: the density). Rewards are the learner's.
    """
    length = rollout.sequence_length
    if length is not None:  # whole sequences, for a memory to run through
        limit = max(length, limit // length * length)
    streams = {name: stream[:limit, env] for name, stream in rollout.streams.items()}
    states = {name: rows[: limit // (length or 1), env] for name, rows in rollout.states.items()}
    batch = Batch(streams, states).map(lambda column: column.to(agent.device))
    thoughts = {name: rows.cpu().tolist() for name, rows in agent.describe(batch).items() if name != "value"}
    columns = {name: stream.tolist() for name, stream in streams.items() if not name.startswith(OBS)}
    actions = agent.head.to_env(streams["action"].numpy()).tolist()
    probabilities = streams["logp"].exp().tolist()
    return [
        Step(
            env,
            t,
            {key: rows[t, env].numpy() for key, rows in rollout.obs.items()},
            action=action,
            probability=probabilities[t],
            choices={name: rows[t] for name, rows in thoughts.items()},
            value=columns["value"][t],
            reward=columns["reward"][t],
            terminated=columns["terminated"][t],
            truncated=columns["truncated"][t],
            learned={"return": columns["returns"][t], "advantage": columns["advantage"][t]},
        )
        for t, action in enumerate(actions)
    ]
