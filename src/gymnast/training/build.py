"""A run at step 0, from its config."""

from __future__ import annotations

from operator import eq
from typing import TYPE_CHECKING, Any

import torch

from gymnast.agent.nets import TorchNet, choose_net
from gymnast.alerts.advice import Known
from gymnast.alerts.book import AlertBook
from gymnast.alerts.rules import RULES
from gymnast.config import load_facts, lowest_return
from gymnast.core.devices import set_threads
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.core.registry import ALGOS
from gymnast.core.seeds import derive_seed
from gymnast.core.tasks import ALL_SOLVED
from gymnast.envs.make import is_endless, make_training_vec, make_vec
from gymnast.envs.spaces import looks_alike
from gymnast.envs.tabular.oracle import table_of
from gymnast.envs.tasks import TaskEnvs, TaskVecEnv, make_training_tasks
from gymnast.judge.judge import Judge
from gymnast.judge.stages import NO_STAGES, Stage
from gymnast.judge.tasks import TaskJudge, task_thresholds
from gymnast.metrics.meter import Meter
from gymnast.play.step_table import rollout_labels
from gymnast.rl.collector import Collector
from gymnast.rl.extensions import make_extensions
from gymnast.rl.returns import IMPORTANCE
from gymnast.rl.rollout import Rollout, Stream
from gymnast.runs.saved_agent import build_agent, choose_threads
from gymnast.training.state import EnvFactory, TrainState
from gymnast.video import require_packages

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig
    from gymnast.envs.types import VecEnv
    from gymnast.rl.learner import Learner


def build(config: RunConfig, threshold: float | None, factory: EnvFactory | None = None) -> TrainState:
    if config.log.video != "off":
        require_packages(f"log.video: {config.log.video}")
    set_threads(1)  # until there is a network: initial weights are rounded in another way by each number of threads
    if config.stages:
        refuse_unfit_stages(config, factory, threshold)
    first = config.in_stage(0)
    env = make_training_vec(first, factory) if not config.tasks else open_tasks(config, factory)
    extensions = make_extensions(config)
    agent = build_agent(config, env)
    # a term of the loss may read observations, which the compiled network keeps in a form of its own
    net = TorchNet(agent) if any(extension.adds_loss for extension in extensions) else choose_net(agent)
    choose_threads(config, net)
    shuffle = torch.Generator().manual_seed(derive_seed(config.train.seed, "minibatches"))
    learner = ALGOS.get(config.algo.name)(net, config, shuffle, extensions)
    pulse = Pulse()
    uniform = None if config.env.action_masks else net.agent.head.uniform_entropy
    return TrainState(
        config=config,
        net=net,
        collector=make_collector(config, env, learner, pulse),
        learner=learner,
        rollout=make_rollout(config, learner),
        judge=make_judge(first, threshold, net, env, factory, pulse, Stage.of(config, 0)),
        alerts=AlertBook(known_of(config, 0, threshold, uniform), (*RULES, *learner.rules)),
        labels=rollout_labels(net.agent, first.env, env.action_labels),
        factory=factory,
        meter=Meter(thresholds=task_thresholds(config)),
        pulse=pulse,
        open_stage=lambda state, index: open_stage(state, index, threshold, uniform),
    )


def make_collector(config: RunConfig, env: VecEnv, learner: Learner, pulse: Pulse) -> Collector:
    own = env, learner.net, config.train.seed, pulse
    if config.train.layout == "lockstep":
        return Collector(*own)
    from gymnast.rl.central.collectors import AsyncCollector, ExactCollector

    if config.train.central.mode == "exact":
        return ExactCollector(*own)
    return AsyncCollector(*own, lambda: make_rollout(config, learner), config.train.central.max_lag)


def known_of(config: RunConfig, index: int, threshold: float | None, uniform: float | None) -> Known:
    """What alerts lean on, in a stage."""
    here = config.in_stage(index)
    comparable = here.evaluated_on is None and Stage.of(config, index).is_last  # with what training episodes return
    facts = None if config.tasks else load_facts(here.env.id)
    return Known(here, facts, threshold if comparable else None, uniform, stage=index)


def open_stage(state: TrainState, index: int, threshold: float | None, uniform: float | None) -> None:
    """Puts a stage's envs, evaluations and facts in the place of the last one's; the agent and what it learned stay."""
    before, config = state.judge, state.config
    here = config.in_stage(index)
    state.env.close()
    before.close()
    state.collector.env = env = make_training_vec(here, state.factory)
    state.judge = make_judge(here, threshold, state.net, env, state.factory, state.pulse, Stage.of(config, index))
    state.judge.succeed(before)
    state.alerts.begin_stage(known_of(config, index, threshold, uniform))
    state.labels = rollout_labels(state.agent, here.env, env.action_labels)


def refuse_unfit_stages(config: RunConfig, factory: EnvFactory | None, threshold: float | None) -> None:
    """Before the first step: an agent can go through stages only where it sees and does the same in all of them, and
    only to a threshold that the last one allows."""
    if factory is not None:
        raise UserError("stages: are made by id, and this env is a Python object. Train with `gymnast train`.")
    found: dict[str, tuple[Any, Any]] = {}
    for index, name in enumerate(config.stages):
        here = config.in_stage(index)
        envs = {f"{name}.env": here.env, f"{name} with eval.env": here.eval_env}
        for label, cfg in envs.items() if here.eval_env != here.env else [*envs.items()][:1]:
            try:
                env = make_vec(cfg, 1, "train")
            except UserError as error:
                raise UserError(f"stages.{label}: {error}") from None
            found[f"stages.{label}: {cfg.id}"] = env.obs_space, env.action_space
            table = table_of(cfg, env) if cfg == here.eval_env and index == len(config.stages) - 1 else None
            env.close()
            if table is not None and threshold is not None and (problem := table.optimum.problem(threshold, cfg.id)):
                raise UserError(f"stop.threshold: {problem}")
    (first, spaces), *others = found.items()
    unfit = [
        f"{name} has {what} {theirs}, but {first} has {ours}. All stages must have the same."
        for name, other in others
        for what, fits, ours, theirs in zip(("observations", "actions"), (looks_alike, eq), spaces, other, strict=True)
        if not fits(ours, theirs)
    ]
    if unfit:
        raise UserError("\n".join(unfit))


def make_rollout(config: RunConfig, learner: Learner) -> Rollout:
    streams = dict(learner.streams)
    for extension in learner.extensions:
        streams |= extension.streams
    if config.train.central.correction == "vtrace":
        streams[IMPORTANCE] = Stream(torch.float32)
    sizes = config.algo.n_steps, config.env.n_envs
    return Rollout(*sizes, learner.agent, config.env.action_masks, config.agent.sequence_length, streams)


def make_judge(
    config: RunConfig,
    threshold: float | None,
    net: Net,
    env: VecEnv,
    factory: EnvFactory | None,
    pulse: Pulse,
    stage: Stage = NO_STAGES,
) -> Judge:
    """A threshold that nobody can reach, wherever it comes from, is refused before the first step."""
    if config.tasks:
        return make_task_judge(config, net, env, pulse)
    scored = config.eval_env
    factory = factory if scored.id == config.env.id else None
    table = table_of(scored, env) if factory is None else None
    for key, goal in (("stop.threshold", threshold if stage.is_last else None), ("stop.target", config.stop.target)):
        problem = None if table is None or goal is None else table.optimum.problem(goal, scored.id)
        if problem is not None:
            env.close()
            raise UserError(f"{key}: {problem}")
    judge = Judge(
        config,
        threshold,
        net,
        None if net.agent.has_memory else table,  # the exact value is that of a policy without memory
        make_env=lambda: make_vec(scored, config.eval_n_envs, "eval", factory),
        can_leave_process=factory is None,
        endless=is_endless(scored, factory),
        pulse=pulse,
        stage=stage,
        make_earlier=lambda earlier: make_vec(earlier, config.eval_n_envs, "eval"),
        floor=config.stop.lowest_return if factory is not None else lowest_return(scored, config.stop.lowest_return),
    )
    if scored != config.env:
        refuse_other_spaces(judge, env)
    return judge


def open_tasks(config: RunConfig, factory: EnvFactory | None) -> VecEnv:
    if factory is not None:
        raise UserError("tasks: are made from ids, and this env is an object. Register it and name its id.")
    return make_training_tasks(config)


def make_task_judge(config: RunConfig, net: Net, env: VecEnv, pulse: Pulse) -> Judge:
    assert isinstance(env, TaskVecEnv)
    spaces, endless = env.tasks, any(is_endless(cfg, None) for cfg in config.task_envs)
    make_envs: Any = lambda: TaskEnvs(config, spaces)  # noqa: E731
    judge = TaskJudge(config, ALL_SOLVED, net, None, make_envs, endless=endless, pulse=pulse)
    return judge.begin_tasks(task_thresholds(config))


def refuse_other_spaces(judge: Judge, env: VecEnv) -> None:
    """Before the first step: an agent can be scored only where it sees and does the same as in training."""
    scored = judge.env
    if not looks_alike(scored.obs_space, env.obs_space) or scored.action_space != env.action_space:
        judge.close()
        env.close()
        raise UserError(
            f"eval.env: {judge.config.eval_env.id} has observations {scored.obs_space} and actions "
            f"{scored.action_space}, but training has {env.obs_space} and {env.action_space}. Both must be the same."
        )
