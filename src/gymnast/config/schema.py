"""The run config: every key, its type, range, default and meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SerializeAsAny, model_validator
from pydantic_core import PydanticCustomError

from gymnast.config.algos import AlgoSettings, settings_of
from gymnast.config.fields import Count, Float, Int, Named, Natural, Positive, Section, Size
from gymnast.config.resources import ResourcesConfig
from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import ALGOS, ENGINES


class WrapperSpec(Named):
    """A wrapper by name."""

    kind = "a wrapper"


def _known_engine(name: str) -> str:
    known = ["auto", *ENGINES.names()]
    if name not in known:
        raise ValueError(f"must be one of {', '.join(known)}.{did_you_mean(name, known)}")
    return name


def _labels(combination: Any) -> Any:
    if not isinstance(combination, list) or not combination:
        raise ValueError("must be a list of labels, as in [[left, right]].")
    return combination


Combination = Annotated[list[str], BeforeValidator(_labels)]  # of actions, by their labels
EngineName = Annotated[str, AfterValidator(_known_engine)]  # one of the registry's, so that an engine is one line there


class RewardConfig(Section):
    """What the learner sees of the reward; scores are never touched."""

    scale: Positive = Field(1.0, description="The learner's reward is the env's times this.")
    clip: Positive | None = Field(None, description="Then cut to -clip..clip; null: not cut.")


class EnvConfig(Section):
    id: str = Field(description="Environment id.", min_length=1)
    n_envs: Size = Field(
        8, description="Copies of the env stepped together; auto: what `gymnast speed --tune` found best here."
    )
    engine: EngineName = Field(
        "auto",
        description="What steps them; auto picks the fastest that supports the env and its wrappers."
        f" By name: {', '.join(ENGINES.names())}.",
    )
    kwargs: dict[str, Any] = Field({}, description="Passed to the env's constructor.")
    wrappers: list[WrapperSpec] = Field([], description="Wrappers, innermost first.")
    max_episode_steps: Count | None = Field(
        None, description="Replaces the env's own time limit, in raw env steps; null: keep it."
    )
    action_masks: bool = Field(False, description="Only allow the actions in the env's info['action_mask'].")
    forbid: list[Combination] = Field(
        [], description="Combinations of actions, by their labels, that the agent may never choose: [[left, right]]."
    )
    reward: RewardConfig = Field(RewardConfig(), description="The learner's view of the reward.")
    shaping: dict[str, Float] = Field(
        {}, description="Weights of the env's extra rewards, by name; for the learner, never in scores."
    )
    step_timeout: Positive = Field(60.0, le=86_400, description="Seconds until a silent worker counts as hung.")


SMALLEST_PICTURE = {
    "nature_cnn": 36,
    "small_cnn": 8,
    "impala_cnn": 8,
    "board_cnn": 3,
}  # pixels a side; fewer leave the last layer none


def encoder_for(side: int) -> str:
    """The encoder that fits pictures whose shorter side has so many pixels."""
    return next((name for name in ("nature_cnn", "small_cnn") if side >= SMALLEST_PICTURE[name]), "mlp")


class AgentConfig(Section):
    encoder: str = Field(
        "mlp",
        description="Network that reads the observation: mlp; for pictures nature_cnn (from 36 x 36), small_cnn (from "
        "8 x 8, a tenth of the arithmetic) or impala_cnn (from 8 x 8, residual); for boards of bits board_cnn.",
    )
    track: Annotated[Int, Field(ge=1, le=16)] | None = Field(
        None,
        description="How many objects to find in grey pictures: from the first rollout the agent learns, without "
        "labels, which moving pixels belong together. From then on agent.encoder=mlp gets their places, movements and "
        "distances. For a few objects in front of a background that stays; null: the encoder gets the pictures.",
    )
    hidden: list[Size] = Field([64, 64], description="Sizes of the hidden layers, of actor and critic.")
    critic_hidden: list[Size] | None = Field(
        None, description="Sizes of the critic's hidden layers, where they differ; computed by torch; null: the same."
    )
    activation: Literal["tanh", "relu", "elu", "gelu", "silu", "leaky_relu"] = Field(
        "tanh", description="Non-linearity between layers."
    )
    layer_norm: bool = Field(False, description="Normalise every hidden layer, convolutions included, by sample.")
    batch_norm: bool = Field(
        False, description="The same by unit, with running statistics that move between rollouts alone."
    )
    ortho_init: bool = Field(True, description="Orthogonal initial weights, with a nearly uniform first policy.")
    shared: bool = Field(False, description="One trunk, and one memory, for actor and critic.")
    discrete_encoding: Literal["one_hot", "embedding"] = Field(
        "one_hot", description="How discrete observations enter the network."
    )
    embedding_dim: Size = Field(32, description="Size of a learned embedding.")
    memory: Literal["lstm", "gru"] | None = Field(
        None, description="A recurrent layer behind the hidden ones; null: the agent sees one step at a time."
    )
    memory_size: Size = Field(64, description="Units of the recurrent layer.")
    forget_bias: Float = Field(
        0.0, description="First bias of an LSTM's forget gates, with ortho_init: 1 makes it remember longer at first."
    )
    sequence_length: Count = Field(
        16, description="Steps through which a memory is trained at once; divides algo.n_steps and algo.batch_size."
    )
    normalize_obs: bool = Field(
        False,
        description="Scale observations by their running mean and standard deviation, from the second rollout on; not "
        "bytes, which enter as 0..1, nor categories.",
    )
    clip_obs: Positive = Field(10.0, description="Cut of normalised observations.")
    normalize_pictures: bool = Field(
        False,
        description="Subtract the running mean of every pixel of a picture and divide by the standard deviation of all "
        "pixels, from the second rollout on.",
    )
    normalize_reward: bool = Field(False, description="Scale rewards by the running standard deviation of the return.")
    clip_reward: Positive = Field(10.0, description="Cut of normalised rewards.")
    std: Literal["state_independent", "state_dependent", "sde"] = Field(
        "state_independent",
        description="Standard deviation of continuous actions: a parameter, an output, or noise that lasts (gSDE).",
    )
    sde_sample_freq: Count | None = Field(
        None, description="Steps that the noise of `std: sde` lasts; null: a whole rollout, or an evaluated episode."
    )
    sde_expln: bool = Field(
        False, description="With `std: sde`, let the standard deviation grow slower than exponentially above 1."
    )
    log_std_init: Float = Field(
        0.0, ge=-20, le=20, description="Logarithm of the first standard deviation of continuous actions."
    )
    squash: bool = Field(False, description="Squash continuous actions into their bounds with tanh.")
    rescale_actions: bool = Field(True, description="Map -1..1 to the bounds of continuous actions.")


def _place(where: str) -> str:
    if not re.fullmatch(r"local|ray|(ray://)?[^\s/:]+:[0-9]+", where):
        raise ValueError("must be local, ray, HOST:PORT or ray://HOST:PORT.")
    return where


class CentralConfig(Section):
    """Where envs are stepped, and how far they may run ahead of learning; of `train.layout: central` alone."""

    mode: Literal["exact", "async"] = Field(
        "exact",
        description="exact: all actors step together, the same numbers as lockstep; async: actions are chosen for "
        "whichever actors are ready, while the learner learns.",
    )
    n_actors: Size | None = Field(
        None, description="Actors that step env.n_envs in equal parts; null: one a core, at most one an env."
    )
    where: Annotated[str, AfterValidator(_place)] = Field(
        "local",
        description="Where actors run: local (processes of this machine), ray (the cluster of RAY_ADDRESS, or one on "
        "this machine), or a cluster by its address, HOST:PORT or ray://HOST:PORT.",
    )
    max_lag: Annotated[Natural, Field(le=16)] = Field(
        1,
        description="async: updates that a policy may be old when the learner learns from its steps; 0: actors wait "
        "while the learner learns.",
    )
    correction: Literal["none", "vtrace"] = Field(
        "none",
        description="async: none compares with the old policy, which PPO's clipping limits; vtrace weighs advantages "
        "and returns by how likely the present policy is to do the same.",
    )

    @property
    def compares_with_older(self) -> bool:
        """Whether the policy that PPO starts from may not be the one that made the steps."""
        return self.mode == "async" and self.correction == "none" and self.max_lag > 0


class TrainConfig(Section):
    total_timesteps: Count = Field(100_000, description="Env steps to train for, summed over envs.")
    seed: Natural = Field(0, description="Root of every random number of the run.")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="Where the network lives.")
    threads: Annotated[Count, Field(le=1024)] | None = Field(
        None,
        description="Threads of the network's arithmetic; null: all cores for convolutions, one each for a wide "
        "actor and a wide critic, one for small layers.",
    )
    checkpoint_every: Count | None = Field(None, description="Env steps between kept checkpoints; null: keep none.")
    checkpoint_seconds: Positive = Field(
        60.0, description="How old the last checkpoint may grow; the first is saved after the first update."
    )
    layout: Literal["lockstep", "central"] = Field(
        "lockstep",
        description="lockstep: env.engine steps all envs for every choice of actions; central: actors, on any machine, "
        "step envs, and actions are chosen in one place.",
    )
    central: CentralConfig = Field(CentralConfig(), description="The actors of `layout: central`.")
    resources: ResourcesConfig = Field(
        ResourcesConfig(), description="What a run reserves where --on sends it, in addition to cores."
    )


ANY_ENV = ("sync", "process")  # engines that step every env


class EvalEnvConfig(Section):
    """What differs from `env`; null: as there. Another id starts from its own kwargs and time limit, and from its own
    engine where `env` has one that is for some envs only."""

    id: Annotated[str, Field(min_length=1)] | None = Field(None, description="Environment id.")
    engine: EngineName | None = Field(None, description="What steps it.")
    kwargs: dict[str, Any] | None = Field(None, description="Passed to its constructor, instead of env.kwargs.")
    wrappers: list[WrapperSpec] | None = Field(None, description="Wrappers, instead of env.wrappers.")
    max_episode_steps: Count | None = Field(None, description="Replaces its time limit, in raw env steps.")

    def applied(self, env: EnvConfig) -> EnvConfig:
        changes = {key: value for key, value in self if value is not None}
        if changes.get("id", env.id) != env.id:
            engine = env.engine if env.engine in ANY_ENV else "auto"
            changes = {"engine": engine, "kwargs": {}, "max_episode_steps": None} | changes
        return env.model_copy(update=changes)


class PartEnvConfig(EvalEnvConfig):
    """The env of a task or a stage: its kwargs change those of `env` key by key."""

    kwargs: dict[str, Any] | None = Field(None, description="These keys differ from env.kwargs.")

    def applied(self, env: EnvConfig) -> EnvConfig:
        found = super().applied(env)
        if found.id != env.id or self.kwargs is None:
            return found
        return found.model_copy(update={"kwargs": env.kwargs | self.kwargs})


class TaskConfig(Section):
    """One of several tasks that a run trains at once."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = Field(description="What metrics call it.")
    env: PartEnvConfig = Field(
        PartEnvConfig(),
        description="What differs from `env`. Another id starts from its own kwargs, wrappers and time limit.",
    )
    weight: Positive = Field(1.0, description="Its share of env.n_envs, and so of every batch, relative to the others.")
    reward_scale: Positive | None = Field(
        None, description="The learner's reward is the env's times this; null: env.reward.scale."
    )
    threshold: Float | None = Field(None, description="Mean return that counts as solved; null: the env's own.")
    lowest_return: Float | None = Field(
        None, description="The lowest return that an episode can have; null: the env's own where it is known."
    )


def shares_of(n_envs: int, weights: Sequence[float]) -> list[int]:
    """Envs by weight: what rounding down leaves over goes to the largest remainders."""
    exact = [n_envs * weight / sum(weights) for weight in weights]
    shares = [math.floor(share + 1e-9) for share in exact]
    by_rest = sorted(range(len(exact)), key=lambda i: shares[i] - exact[i])
    return [share + (i in by_rest[: n_envs - sum(shares)]) for i, share in enumerate(shares)]


class EvalConfig(Section):
    env: EvalEnvConfig | None = Field(
        None,
        description="What differs in the env that agents are scored in, for evaluations, verdicts, videos and "
        "`gymnast eval`; null: nothing.",
    )
    every: Natural | None = Field(None, description="Env steps between evaluations; null: a 20th of the run; 0: never.")
    episodes: Count = Field(20, description="Episodes an evaluation.")
    n_envs: Size | None = Field(None, description="Envs to evaluate in; null: as many as episodes, at most 32.")
    warmup: Natural = Field(0, description="Env steps before the first evaluation.")
    start_level: Float | None = Field(
        None, description="No evaluation before the training return reached this, in any stage."
    )
    policy: Literal["greedy", "stochastic", "both"] = Field("greedy", description="How actions are chosen.")
    background: bool | Literal["auto"] = Field(
        False,
        description="In another process, on frozen copies: same numbers, but known later, so that the step at which a "
        "solved run stops depends on the machine; auto: from the run's 10th second on.",
    )


class PlateauConfig(Section):
    evals: Count = Field(description="Stop after this many evaluations without a new best.")
    min_delta: Annotated[Float, Field(ge=0)] = Field(0.0, description="What counts as better.")


class StopConfig(Section):
    on_solved: bool = Field(True, description="Stop when a verdict says solved or, with a target, that it is reached.")
    threshold: Float | None = Field(None, description="Mean return that counts as solved; null: the env's own.")
    target: Float | None = Field(None, description="A mean return above the threshold to train for; null: none.")
    lowest_return: Float | None = Field(
        None,
        description="The lowest return that an episode can have, which makes verdicts safe against rare disasters; "
        "null: the env's own where it is known, else somewhat below the lowest of the run.",
    )
    episodes: Annotated[Int, Field(ge=2)] = Field(
        100,
        description="Fresh episodes of the score that is reported; and the fewest of a verdict where the lowest return "
        "is not known.",
    )
    max_episodes: Annotated[Int, Field(ge=2)] = Field(
        1000, description="A verdict takes further episodes while the answer is open, up to this many."
    )
    judge: Literal["greedy", "stochastic"] = Field("greedy", description="How the verdict's actions are chosen.")
    watch: Literal["eval", "train"] = Field("eval", description="Whose score calls for a verdict.")
    seconds: Positive | None = Field(
        None,
        description="Stop after this long; null: never. Nothing is learned from a rollout under way; an evaluation "
        "under way and the last score may take a tenth of it more, or 10 seconds.",
    )
    plateau: PlateauConfig | None = Field(None, description="Stop when evaluations no longer improve; null: never.")


class AdvanceConfig(Section):
    """The first of these that comes true ends a stage."""

    score: Float | None = Field(None, description="An evaluation's mean return reaches this; null: no such rule.")
    steps: Count | None = Field(None, description="So many env steps were made in this stage; null: no such rule.")
    plateau: PlateauConfig | None = Field(
        None, description="The stage's evaluations no longer improve; null: no such rule."
    )


class StageConfig(Section):
    env: PartEnvConfig = Field(PartEnvConfig(), description="What differs from `env` in this stage.")
    advance: AdvanceConfig | None = Field(
        None, description="What ends this stage, so that the next one begins; null: it is the last one."
    )
    start_level: Float | None = Field(
        None, description="No evaluation of this stage before its training return reached this; null: eval.start_level."
    )
    forgetting: bool = Field(
        True,
        description="Evaluate the agent in this stage at its end and in later ones; false: it is a warm-up.",
    )


class LogConfig(Section):
    every: Count | None = Field(
        None, description="Env steps between rows; null: a 100th of the run, never less than one rollout."
    )
    diagnostics: Natural | None = Field(
        None,
        description="Env steps between diagnostics of the network, which are also made at the end; null: a 20th of the "
        "run, never less than 20,000; 0: never.",
    )
    sinks: list[str] = Field(
        ["console", "jsonl"], description="Where rows go: console, jsonl, csv, wandb, trackio, tensorboard."
    )
    video: Literal["off", "best"] | Count = Field(
        "off", description="Videos: off, best (each new best agent), or env steps between further ones."
    )


def _algo(value: Any) -> AlgoSettings:
    """The settings of the algorithm that is named, ppo where none is; each algorithm's file has its own."""
    if isinstance(value, AlgoSettings):
        return value
    if not isinstance(value, dict):
        raise PydanticCustomError("model_type", "must be a mapping")
    name = value.get("name", "ppo")
    if not isinstance(name, str) or ALGOS.problem(name):
        raise PydanticCustomError("unknown_algo", "unknown algorithm", {"name": name})
    return settings_of(name).model_validate({"name": name, **value})


class RunConfig(Section):
    """All of a run's settings. Sizes that follow from them are properties, never fields."""

    env: EnvConfig = Field(description="The environment.")
    agent: AgentConfig = Field(AgentConfig(), description="The network and what it sees.")
    algo: Annotated[SerializeAsAny[AlgoSettings], PlainValidator(_algo)] = Field(
        default_factory=lambda: _algo({}), description="The algorithm."
    )
    train: TrainConfig = Field(TrainConfig(), description="The run.")
    eval: EvalConfig = Field(EvalConfig(), description="Evaluation while training.")
    stop: StopConfig = Field(StopConfig(), description="When to stop.")
    log: LogConfig = Field(LogConfig(), description="What is written where.")
    stages: dict[str, StageConfig] = Field(
        {},
        description="A curriculum: the same agent goes through these envs, by name and in this order; {}: no stages.",
    )
    tasks: list[TaskConfig] = Field(
        [],
        description="Several tasks for one agent, each {name, env, weight, reward_scale, threshold}; none: only env.",
    )

    @model_validator(mode="after")
    def _rules_hold(self) -> RunConfig:
        from gymnast.config.rules import rule_problems

        if problems := rule_problems(self):
            text = " ".join(f"{problem.keys[0]}: {problem.text}" for problem in problems)
            raise PydanticCustomError("rules", "{text}", {"text": text, "problems": problems})
        return self

    @property
    def rollout_steps(self) -> int:
        """Env steps between two updates."""
        return self.env.n_envs * self.algo.n_steps

    @property
    def eval_every(self) -> int:
        """Env steps between evaluations; 0: never."""
        return max(1, self.train.total_timesteps // 20) if self.eval.every is None else self.eval.every

    @property
    def eval_n_envs(self) -> int:
        return min(self.eval.episodes, 32) if self.eval.n_envs is None else self.eval.n_envs

    @property
    def eval_env(self) -> EnvConfig:
        """The env that agents are scored in: that of training, with what `eval.env` says on top."""
        return self.env if self.eval.env is None else self.eval.env.applied(self.env)

    def in_stage(self, index: int) -> RunConfig:
        """The settings of a stage as those of a run without stages: its env, and the run's goals in the last one only.

        A run without stages is one stage.
        """
        if not self.stages:
            return self
        stage, stop = list(self.stages.values())[index], self.stop
        if stage.advance is not None:  # what is open in a stage's evaluations is when to go on
            stop = stop.model_copy(update={"threshold": None, "target": None, "plateau": stage.advance.plateau})
        level = self.eval.start_level if stage.start_level is None else stage.start_level
        own = {"stop": stop, "eval": self.eval.model_copy(update={"start_level": level})}
        return self.model_copy(update=own | {"env": stage.env.applied(self.env), "stages": {}})

    @property
    def evaluated_on(self) -> str | None:
        """How the env of the scores is named beside them, where it is not the one of training."""
        if self.eval_env == self.env:
            return None
        given = self.model_dump(mode="json")["eval"]["env"]
        parts = [f"{key} {value}" for key, value in given.items() if value is not None and key != "id"]
        return f"{self.eval_env.id}{' with ' if parts else ''}{', '.join(parts)} (eval.env)"

    @property
    def task_shares(self) -> list[int]:
        """How many of env.n_envs each task gets."""
        return shares_of(self.env.n_envs, [task.weight for task in self.tasks])

    @property
    def task_envs(self) -> list[EnvConfig]:
        """The env of each task, with its share of the copies. Another id leaves behind what is meant for `env`."""
        found = []
        for task, share in zip(self.tasks, self.task_shares, strict=True):
            other = task.env.id not in (None, self.env.id)
            without: dict[str, Any] = {"wrappers": [], "shaping": {}, "forbid": []} if other else {}
            base = self.env.model_copy(update={"n_envs": share} | without)
            found.append(task.env.applied(base))
        return found

    @property
    def task_scales(self) -> list[float]:
        """What the learner multiplies each task's rewards by."""
        usual = self.env.reward.scale
        return [usual if task.reward_scale is None else task.reward_scale for task in self.tasks]

    def task_number(self, name: str | None) -> int | None:
        """The place of a task that is asked for by name, the first where none is; None: the run has no tasks."""
        names = [task.name for task in self.tasks]
        if name is None:
            return 0 if names else None
        if name not in names:
            known = f" Known: {', '.join(names)}." if names else " This run has no tasks; leave it out."
            raise UserError(f"--task {name}: unknown.{did_you_mean(name, names)}{known}")
        return names.index(name)

    @property
    def parts(self) -> list[RunConfig]:
        """One config for each env that the run trains in: those of its tasks or stages, or itself."""
        if self.tasks:
            return [self.of_task(number) for number in range(len(self.tasks))]
        return [self.in_stage(index) for index in range(len(self.stages))] or [self]

    def of_task(self, number: int) -> RunConfig:
        """The config as if this task were all there is."""
        return self.model_copy(update={"env": self.task_envs[number], "tasks": []})

    @property
    def log_every(self) -> int:
        """Env steps between rows; a row needs an update, so never less than one rollout."""
        wanted = self.train.total_timesteps // 100 if self.log.every is None else self.log.every
        return max(wanted, self.rollout_steps)

    @property
    def diagnostics_every(self) -> int:
        """Env steps between diagnostics of the network: one costs the smallest agent 300 env steps."""
        return max(self.train.total_timesteps // 20, 20_000) if self.log.diagnostics is None else self.log.diagnostics
