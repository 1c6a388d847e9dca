"""Everything a training run is made of at one moment: saved whole, restored exactly. Each part saves itself."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from pydantic import TypeAdapter
from torch import Tensor

from gymnast.agent.nets import TorchNet, choose_net
from gymnast.alerts.book import AlertBook
from gymnast.core.errors import UserError
from gymnast.core.files import number_from_json
from gymnast.core.pulse import Pulse
from gymnast.core.schedule import Every
from gymnast.core.seeds import derive_seed
from gymnast.core.text import cut
from gymnast.core.typed import Count, typed
from gymnast.envs.engines.replay import heard_by
from gymnast.judge.judge import Judge
from gymnast.judge.snapshot import Snapshot
from gymnast.judge.verdict import EvalRequest
from gymnast.metrics.clock import Clock
from gymnast.metrics.meter import Meter
from gymnast.play.episode import rollout_steps
from gymnast.play.step_table import Labels, step_table, to_csv
from gymnast.rl.collector import Collector
from gymnast.rl.learner import Learner, group
from gymnast.rl.rollout import Rollout
from gymnast.runs.saved_agent import load_agent

if TYPE_CHECKING:
    from gymnast.agent.agent import Agent
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.types import VecEnv

REPLAY_SECONDS = 5.0  # between two lines about it
EnvFactory = Callable[[], gym.Env[Any, Any]]


@dataclass
class Counters:
    """How far the run is; all of it is part of a checkpoint."""

    env_steps: Count = 0  # agent decisions, summed over envs: the one clock
    vec_steps: Count = 0
    updates: Count = 0
    frames: Count = 0  # raw env steps of finished episodes
    unjudged: bool = False  # an interruption broke off the evaluation that follows the last update: it is still to come
    stage: Count = 0  # from 0
    stage_began: Count = 0  # env steps
    advancing: bool = False  # this stage is over: the next round begins the next one


COUNTERS, NEXT = TypeAdapter(Counters), TypeAdapter(dict[str, Count])


@dataclass
class TrainState:
    """The moving parts. The loop alone moves them."""

    config: RunConfig
    net: Net
    collector: Collector
    learner: Learner
    rollout: Rollout
    judge: Judge
    alerts: AlertBook
    labels: Labels
    factory: EnvFactory | None = None
    counters: Counters = field(default_factory=Counters)
    meter: Meter = field(default_factory=Meter)
    clock: Clock = field(default_factory=Clock)
    pulse: Pulse = field(default_factory=Pulse)
    about: dict[str, Any] = field(default_factory=dict)  # what its builder wants to find in every checkpoint
    open_stage: Callable[[TrainState, int], None] = lambda state, index: None  # puts another stage's envs in place

    def __post_init__(self) -> None:
        self.plan()

    @property
    def agent(self) -> Agent:
        return self.net.agent

    @property
    def env(self) -> VecEnv:
        return self.collector.env

    @property
    def progress(self) -> float:
        return min(1.0, self.counters.env_steps / self.config.train.total_timesteps)

    @property
    def out_of_budget(self) -> str | None:
        """The stop rule that applies now, other than solved."""
        if self.counters.env_steps >= self.config.train.total_timesteps:
            return "steps"
        if self.clock.last >= self.pulse.until:
            return "seconds"
        return "plateau" if self.judge.on_plateau and self.judge.stage.is_last else None

    @property
    def stage_over(self) -> bool:
        """Whether this stage's rule to advance is met; the last one has none, it ends with the run."""
        stages = list(self.config.stages.values())
        rule = stages[self.counters.stage].advance if stages else None
        if rule is None:
            return False
        made, best = self.counters.env_steps - self.counters.stage_began, self.judge.record.best_score
        by_steps = rule.steps is not None and made >= rule.steps
        by_score = rule.score is not None and best is not None and best >= rule.score
        return by_steps or by_score or self.judge.on_plateau

    @property
    def ending(self) -> bool:
        """Whether the run or its stage ends with this round: nothing is left to the background."""
        return self.out_of_budget is not None or self.stage_over

    def advance(self) -> None:
        """The next stage begins: other envs, with episodes and evaluations of their own. The agent, all it has learned,
        schedules and the clock go on."""
        counters = self.counters
        counters.stage, counters.stage_began, counters.advancing = counters.stage + 1, counters.env_steps, False
        self.enter_stage()
        self.meter.forget_episodes()
        self.judge.plan(counters.env_steps)

    def enter_stage(self) -> None:
        self.open_stage(self, self.counters.stage)
        self.restart_episodes(derive_seed(self.config.train.seed, "stage", self.counters.stage))

    @contextmanager
    def judging(self, warn: Callable[[str], None]) -> Iterator[None]:
        """While training: the judge may be that of another stage in the end."""
        self.judge.open(warn)
        try:
            yield
        finally:
            self.judge.background.close()

    def plan(self) -> None:
        """When rows, evaluations and the like are due next, by the config and from where the run stands."""
        config = self.config
        self.rows, self.kept = Every(config.log_every), Every(config.train.checkpoint_every or 0)
        self.diagnoses = Every(config.diagnostics_every)
        for every in (self.rows, self.kept, self.diagnoses):
            every.done(self.counters.env_steps)
        self.judge.plan(self.counters.env_steps)

    def renew_net(self) -> None:
        """Chooses the network again where the agent has changed since: a layer was frozen, or put in by someone."""
        if self.net.holds():
            return
        moments, algo = self.net.save_state(), self.config.algo
        net = TorchNet(self.agent) if self.learner.adds_loss else choose_net(self.agent)
        self.net = self.collector.net = self.learner.net = self.judge.net = net
        self.net.use_optimizer(algo.optimizer_name, **algo.optimizer_numbers)
        self.net.load_state(moments)

    def restart_episodes(self, seed: int) -> None:
        """Every env starts again; nothing of the episodes that were under way is learned from as if they went on."""
        self.collector.restart(seed)
        self.learner.forget_episodes()

    def forget_run(self) -> None:
        """Another run of the same agent begins: counters, metrics, alerts and scores start again."""
        self.alerts.forget(fresh=self.counters.env_steps == 0)
        self.counters, self.meter, self.clock = Counters(), Meter(self.meter.window, self.meter.thresholds), Clock()
        self.judge.forget()

    def close(self) -> None:
        self.collector.close()
        self.judge.close()


def save_state(state: TrainState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and plain values that `restore` needs."""
    tensors, values = save_moment(state)
    judged, record = state.judge.save_state()
    if state.counters.unjudged:  # what the rest of the round reports on
        tensors |= {f"rollout/{name}": tensor for name, tensor in state.rollout.memory.items()}
    return tensors | {f"judge/{name}": tensor for name, tensor in judged.items()}, values | {"judge": record}


def save_moment(state: TrainState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The run as it is now, without earlier agents: the best so far, and those that still wait for evaluation."""
    learned, learner = state.learner.save_state()
    parts = {"agent": state.agent.state_dict(), "learner": learned, "collector": state.collector.save_state()}
    tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    values = {
        "config": state.config.model_dump(mode="json"),
        "engine": state.env.engine,
        "threshold": state.judge.threshold,
        "counters": asdict(state.counters),
        "next": {"row": state.rows.next, "kept": state.kept.next, "diagnosis": state.diagnoses.next},
        "learner": learner,
        "meter": state.meter.state(),
        "alerts": state.alerts.state(),
        "elapsed": state.clock.elapsed,
        "about": state.about,
        "judge": asdict(state.judge.record) | {"waiting": []},
    }
    return tensors, values


def snapshot(state: TrainState, request: EvalRequest, row: dict[str, float]) -> Snapshot:
    """A copy of this moment that training does not touch."""
    tensors, values = save_moment(state)
    copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    return Snapshot(request, copies, copy.deepcopy(values), dict(row), last_steps(state))


def last_steps(state: TrainState) -> str:
    """The first steps of the last rollout, as a table."""
    return to_csv(step_table(rollout_steps(state.agent, state.rollout), state.labels))


def restore(
    state: TrainState,
    tensors: dict[str, Tensor],
    values: dict[str, Any],
    optimizer: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Puts a run where a checkpoint left off. Returns what could not be continued exactly, in words. `say`: takes what
    is said while it lasts."""
    try:
        with heard_by(Replay(state.env.n_envs, say).one_more):
            return _restore(state, tensors, values, optimizer)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # each part takes its own state, and whatever one of them stumbles over is a state that does not fit
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"the checkpoint's state does not fit this run ({cut(reason, 200)}). Use another one."
        ) from error


class Replay:
    """Says every few seconds how many unfinished episodes are still to be replayed."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self.total, self.done, self.said_at, self.say = total, 0, perf_counter(), say

    def one_more(self) -> None:
        self.done += 1
        if self.done < self.total and perf_counter() - self.said_at >= REPLAY_SECONDS:
            self.said_at = perf_counter()
            self.say(f"replaying unfinished episodes: {self.total - self.done} of {self.total} left")


def _restore(state: TrainState, tensors: dict[str, Tensor], values: dict[str, Any], optimizer: bool) -> list[str]:
    notes = [] if optimizer else ["the optimizer starts again, as asked"]
    load_agent(state.agent, group(tensors, "agent"))
    state.counters = typed(COUNTERS, values["counters"])
    # validated, because a config saved by an older version lacks the settings that are new
    saved = type(state.config).model_validate(values["config"])
    stage = state.counters.stage
    been = list(saved.stages)[: stage + 1]
    if list(state.config.stages)[: stage + 1] != been:
        has = f"has been in {', '.join(been)}: keep these, in this order" if been else "has none: keep it so"
        raise UserError(f"stages: the run {has}, or start a new one with --init-from.")
    if stage:
        state.enter_stage()
    following = typed(NEXT, values["next"])
    state.rows.next, state.kept.next, state.diagnoses.next = (following[k] for k in ("row", "kept", "diagnosis"))
    state.meter.load(values["meter"])
    state.alerts.load(values["alerts"])
    state.clock.elapsed = number_from_json(values["elapsed"])
    was, here = saved.in_stage(stage), state.config.in_stage(stage)
    same_env = was.env == here.env and was.tasks == here.tasks
    same_scores = same_env and was.eval.env == here.eval.env
    state.judge.load_state(group(tensors, "judge"), values["judge"], same_scores)
    if state.counters.unjudged and saved == state.config:
        for name, tensor in group(tensors, "rollout").items():
            state.rollout.memory[name].copy_(tensor)
    else:  # other settings: what was due by the old ones is not
        state.counters.unjudged, state.judge.record.due = False, None
    episodes = same_env and state.env.exact_resume and values["engine"] == state.env.engine
    state.learner.load_state(group(tensors, "learner"), values["learner"], optimizer, episodes)
    with warnings.catch_warnings(record=True) as inexact:  # of an env that does not repeat its episode
        warnings.simplefilter("always")
        state.collector.load_state(group(tensors, "collector"), episodes)
    notes += [str(warning.message) for warning in inexact]
    if not episodes:
        why = f"the {state.env.engine} engine cannot continue them" if same_env else "the env's settings changed"
        notes.append(f"episodes in progress start again: {why}")
        state.restart_episodes(derive_seed(state.config.train.seed, "resumed", state.counters.updates))
    return notes
