"""Everything a training run is made of at one moment: built from a config, saved whole, restored exactly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
import torch
from torch import Tensor

from gymnast.agent import Agent
from gymnast.alerts.advice import Known
from gymnast.alerts.book import AlertBook
from gymnast.config import load_facts
from gymnast.core.devices import pick_device, set_threads
from gymnast.core.errors import UserError
from gymnast.core.registry import ALGOS, ENCODERS
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_training_vec, make_vec
from gymnast.envs.tabular.oracle import Table, find_table
from gymnast.envs.types import ObsSpace, StepBatch, VecEnv
from gymnast.judge.verdict import Look
from gymnast.metrics.clock import Clock
from gymnast.metrics.meter import Meter
from gymnast.play.step_table import Labels, labels_of, rollout_steps, step_table
from gymnast.rl.learner import Learner
from gymnast.rl.rollout import Rollout
from gymnast.video import require_packages

if TYPE_CHECKING:
    from gymnast.config import RunConfig

EnvFactory = Callable[[], gym.Env[Any, Any]]


@dataclass
class Counters:
    """How far the run is; all of it is part of a checkpoint."""

    env_steps: int = 0  # agent decisions, summed over envs: the one clock
    vec_steps: int = 0
    updates: int = 0
    frames: int = 0  # raw env steps of finished episodes
    evaluations: int = 0
    next_evaluation: int = 0  # env steps
    next_row: int = 0
    next_kept: int = 0  # checkpoint that stays
    next_verdict: int = 0
    next_diagnosis: int = 0
    verdicts: int = 0
    best_score: float | None = None
    best_at: int = 0  # env steps
    since_best: int = 0  # evaluations
    solved: bool = False


@dataclass(frozen=True)
class Frozen:
    """A moment of a run that is still to be looked at: all that a checkpoint of it needs, and its row of metrics."""

    look: Look
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    row: dict[str, float]
    steps: str  # as a table

    @property
    def agent(self) -> dict[str, Tensor]:
        return group(self.tensors, "agent")


@dataclass
class Session:
    """The moving parts. `train` is the only one that moves them."""

    config: RunConfig
    threshold: float | None
    env: VecEnv
    agent: Agent
    learner: Learner
    rollout: Rollout
    generator: torch.Generator
    now: StepBatch
    starts: Tensor
    alerts: AlertBook
    labels: Labels
    reward_carry: Tensor  # discounted return so far of each env's episode, for the reward normaliser
    factory: EnvFactory | None = None
    counters: Counters = field(default_factory=Counters)
    meter: Meter = field(default_factory=Meter)
    clock: Clock = field(default_factory=Clock)
    best_agent: dict[str, Tensor] | None = None
    frozen: list[Frozen] = field(default_factory=list)  # what the background has not reported on yet, oldest first
    about: dict[str, Any] = field(default_factory=dict)  # what its builder wants to find in every checkpoint
    table: Table | None = None  # the env's transitions, where it has a table of them
    _eval_env: VecEnv | None = None

    @property
    def progress(self) -> float:
        return min(1.0, self.counters.env_steps / self.config.train.total_timesteps)

    @property
    def eval_env(self) -> VecEnv:
        """Built on first use, exactly as the training env is, less wrappers that call themselves training-only."""
        if self._eval_env is None:
            self._eval_env = make_vec(self.config.env, self.config.eval_n_envs, "eval", self.factory)
        return self._eval_env

    def close(self) -> None:
        self.env.close()
        if self._eval_env is not None:
            self._eval_env.close()


def build(config: RunConfig, threshold: float | None, factory: EnvFactory | None = None) -> Session:
    """A run at step 0."""
    if config.log.video != "off":
        require_packages(f"log.video: {config.log.video}")
    device = pick_device(config.train.device)
    choose_threads(config)
    seed = config.train.seed
    env = make_training_vec(config, factory)
    agent = build_agent(config, env, device)
    generator = torch.Generator(device).manual_seed(derive_seed(seed, "actions"))
    shuffle = torch.Generator().manual_seed(derive_seed(seed, "minibatches"))
    learner = ALGOS.get(config.algo.name)(agent, config.algo, shuffle)
    facts = load_facts(config.env.id)
    uniform = None if config.env.action_masks else agent.head.uniform_entropy
    session = Session(
        config=config,
        threshold=threshold,
        env=env,
        agent=agent,
        learner=learner,
        rollout=Rollout(config.algo.n_steps, config.env.n_envs, agent, config.env.action_masks),
        generator=generator,
        now=env.reset(derive_seed(seed, "train")),
        starts=torch.ones(config.env.n_envs, dtype=torch.bool),
        alerts=AlertBook(Known(config, facts, threshold, uniform)),
        labels=labels_of(agent, facts),
        reward_carry=torch.zeros(config.env.n_envs, dtype=torch.float64),
        factory=factory,
        table=find_table(config.env) if factory is None and is_small(env) else None,
    )
    refuse_unreachable(session)
    plan(session)
    return session


def is_small(env: HasSpaces) -> bool:
    """Whether an env could have a table of its states at all: looking for one makes the env once more."""
    leaves = list(env.obs_space.values())
    return isinstance(env.action_space, gym.spaces.Discrete) and len(leaves) == 1 and len(leaves[0].shape or ()) <= 1


def refuse_unreachable(session: Session) -> None:
    """A threshold that nobody can reach, wherever it comes from, is told before the first step."""
    if session.table is None or session.threshold is None:
        return
    if problem := session.table.optimum.problem(session.threshold, session.config.env.id):
        session.close()
        raise UserError(f"stop.threshold: {problem}")


def choose_threads(config: RunConfig) -> None:
    """The config's number, or what pays for its network: convolutions keep all cores busy, small layers one."""
    set_threads(config.train.threads, getattr(ENCODERS.get(config.agent.encoder), "is_large", False))


def plan(session: Session) -> None:
    """When rows, evaluations and kept checkpoints are due next, by the config and from where the run stands."""
    config, counters = session.config, session.counters
    counters.next_evaluation = max(next_multiple(counters.env_steps, config.eval_every), config.eval.warmup)
    counters.next_row = next_multiple(counters.env_steps, config.log_every)
    counters.next_diagnosis = next_multiple(counters.env_steps, config.diagnostics_every)
    counters.next_kept = next_multiple(counters.env_steps, config.train.checkpoint_every or 0)


def next_multiple(now: int, step: int) -> int:
    """The first multiple of `step` after `now`."""
    return (now // step + 1) * step if step else 0


def new_episodes(session: Session, seed: int) -> None:
    """Every env begins anew; nothing of the episodes that were under way is learned from as if they went on."""
    session.now = session.env.reset(seed)
    session.starts = torch.ones(session.env.n_envs, dtype=torch.bool)
    session.reward_carry = torch.zeros(session.env.n_envs, dtype=torch.float64)
    session.learner.forget_episodes()


class HasSpaces(Protocol):
    """What an agent must know of its env: spaces as the learner sees them."""

    obs_space: ObsSpace
    action_space: gym.Space[Any]


def build_agent(config: RunConfig, env: HasSpaces, device: torch.device) -> Agent:
    """An untrained agent for an env. Its weights depend on the seed alone."""
    if config.env.action_masks and not isinstance(
        env.action_space, gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
    ):
        raise UserError(f"env.action_masks: true makes no sense for actions in {env.action_space}. Set it to false.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.train.seed, "weights"))
        return Agent(env.obs_space, env.action_space, config.agent, config.algo.gamma).to(device)


def save_session(session: Session) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and plain values that `restore_session` needs."""
    tensors, state = save_moment(session)
    for i, frozen in enumerate(session.frozen):
        tensors |= {f"frozen/{i}/{name}": tensor for name, tensor in frozen.tensors.items()}
    state["frozen"] = [
        {"look": asdict(frozen.look), "state": frozen.state, "row": frozen.row, "steps": frozen.steps}
        for frozen in session.frozen
    ]
    return tensors, state


def freeze(session: Session, look: Look, row: dict[str, float]) -> Frozen:
    """A copy of this moment that training does not touch."""
    tensors, state = save_moment(session)
    copies = {name: tensor.detach().clone() for name, tensor in tensors.items() if not name.startswith("best/")}
    steps = step_table(session.agent, rollout_steps(session.rollout), session.labels).to_csv()
    return Frozen(look, copies, copy.deepcopy(state), dict(row), steps)


def save_moment(session: Session) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The run as it is now, without the earlier moments that are still to be looked at."""
    optimizer, learner = session.learner.save_state()
    tensors: dict[str, Any] = {f"agent/{name}": tensor for name, tensor in session.agent.state_dict().items()}
    tensors |= {f"learner/{name}": tensor for name, tensor in optimizer.items()}
    tensors |= {f"env/{name}": torch.from_numpy(array) for name, array in session.env.save_state().items()}
    if session.best_agent is not None:
        tensors |= {f"best/{name}": tensor for name, tensor in session.best_agent.items()}
    tensors |= {
        "rng/actions": session.generator.get_state(),
        "rng/minibatches": session.learner.generator.get_state(),
        "starts": session.starts,
        "reward_carry": session.reward_carry,
    }
    state = {
        "config": session.config.model_dump(mode="json"),
        "engine": session.env.engine,
        "threshold": session.threshold,
        "counters": vars(session.counters).copy(),
        "learner": learner,
        "meter": session.meter.state(),
        "alerts": session.alerts.state(),
        "elapsed": session.clock.elapsed,
        "about": session.about,
    }
    return tensors, state


def group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors saved under `prefix/`, by their own names."""
    return {key.removeprefix(f"{prefix}/"): value for key, value in tensors.items() if key.startswith(f"{prefix}/")}


def restore_session(
    session: Session, tensors: dict[str, Tensor], state: dict[str, Any], optimizer: bool = True
) -> list[str]:
    """Puts a session where a checkpoint left off. Returns what could not be continued exactly, in words."""
    notes: list[str] = []
    load_agent(session.agent, group(tensors, "agent"))
    if optimizer:
        session.learner.load_state(group(tensors, "learner"), state["learner"])
    else:
        notes.append("the optimizer starts anew, as asked")
    session.generator.set_state(tensors["rng/actions"])
    session.learner.generator.set_state(tensors["rng/minibatches"])
    session.counters = Counters(**state["counters"])
    session.meter.load(state["meter"])
    if "alerts" in state:  # not in a checkpoint of an older version
        session.alerts.load(state["alerts"])
    session.clock.elapsed = state["elapsed"]
    # validated, because a config saved by an older version lacks the settings that are new
    same_env = type(session.config.env).model_validate(state["config"]["env"]) == session.config.env
    if same_env:
        session.best_agent = group(tensors, "best") or None
        session.frozen = [
            Frozen(Look(**saved["look"]), group(tensors, f"frozen/{i}"), saved["state"], saved["row"], saved["steps"])
            for i, saved in enumerate(state.get("frozen", []))
        ]
    else:  # a score in another env says nothing about this one
        session.counters.best_score, session.counters.since_best = None, 0
    if same_env and session.env.exact_resume and state["engine"] == session.env.engine:
        session.now = session.env.load_state({key: value.numpy() for key, value in group(tensors, "env").items()})
        session.starts.copy_(tensors["starts"])
        session.reward_carry.copy_(tensors["reward_carry"])
    else:
        why = f"the {session.env.engine} engine cannot continue them" if same_env else "the env's settings changed"
        notes.append(f"episodes in progress start anew: {why}")
        new_episodes(session, derive_seed(session.config.train.seed, "resumed", session.counters.updates))
    return notes


def load_agent(agent: Agent, tensors: dict[str, Tensor]) -> None:
    """All of an agent's weights and statistics; a mismatch is a user's mistake, told with the way out."""
    mine = agent.state_dict()
    wrong = [
        name
        for name in mine.keys() | tensors.keys()
        if name not in mine or name not in tensors or mine[name].shape != tensors[name].shape
    ]
    if wrong:
        raise UserError(
            f"the checkpoint's agent does not fit this config: {', '.join(sorted(wrong)[:3])}"
            f"{' ...' if len(wrong) > 3 else ''} differ. Keep agent and env as they were, or start with --init-from."
        )
    agent.load_state_dict(tensors)


def init_agent_from(agent: Agent, tensors: dict[str, Tensor]) -> tuple[list[str], list[str]]:
    """Copies what fits by name and shape from another agent; returns the names taken and those left as they were."""
    mine = agent.state_dict()
    taken = [name for name in mine if name in tensors and mine[name].shape == tensors[name].shape]
    agent.load_state_dict({name: tensors[name] for name in taken}, strict=False)
    return taken, [name for name in mine if name not in taken]
