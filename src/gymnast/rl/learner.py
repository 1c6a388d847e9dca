"""What the algorithms share: targets, schedules, losses on any network, extensions, and how they are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from gymnast.agent.batch import OBS, VALUE, Batch, Outputs
from gymnast.config.algos import AlgoSettings
from gymnast.core.files import number_from_json
from gymnast.core.lazy import LazyModule, np, torch
from gymnast.core.tasks import TASK
from gymnast.rl.returns import IMPORTANCE, centred, gae, returns_of

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from gymnast.agent.nets import Net
    from gymnast.agent.nets.dense_net import DenseNet
    from gymnast.alerts.rules import Rule
    from gymnast.config import RunConfig
    from gymnast.core.pulse import Pulse
    from gymnast.rl.extensions import Extension
    from gymnast.rl.rollout import Rollout, Stream

kernels: Any = LazyModule("gymnast.agent.nets.kernels")
Metrics = dict[str, "Tensor | float"]  # tensors where asking for the number would wait for a device

Loss = tuple["Tensor", dict[str, "Tensor"]]  # with its metrics, by name


class Learner:
    """Updates an agent from rollouts. A subclass is an algorithm: it says how in `update`, without a host sync inside.

    `Settings` are its section of the config. `metrics` describes the metrics that it alone reports, in YAML as the
    metric catalogue does, each `after` another one. `rules` are its own alerts. `streams` are what its rollouts store
    in addition to the usual streams.
    """

    Settings: ClassVar[type[AlgoSettings]]
    metrics: ClassVar[str] = ""
    rules: ClassVar[tuple[Rule, ...]] = ()
    streams: ClassVar[dict[str, Stream]] = {}
    algo: Any  # the settings: an instance of `Settings`

    def __init__(self, net: Net, config: RunConfig, generator: Generator, extensions: Sequence[Extension] = ()) -> None:
        self.net, self.agent, self.algo = net, net.agent, config.algo
        self.reward, self.clip_reward = config.env.reward, config.agent.clip_reward
        self.seed, self.generator, self.extensions = config.train.seed, generator, list(extensions)
        self.rate = 0.0  # of this update
        self.critic_rate: float | None = None  # None: the same
        self.rate_factor = 1.0  # what an algorithm that adapts its rate has made of it
        self.last_rate: float | None = None  # of the previous one
        self.optimizer_resets = 0
        self.reward_carry = torch.zeros(config.env.n_envs, dtype=torch.float64)
        self.reward_scale = torch.tensor(self.agent.reward_scales)  # of all envs, or of each one
        self.task_rows = [slice(None)]  # whose rewards are normalised together
        if shares := config.task_shares:
            self.reward_scale = self.reward_scale.repeat_interleave(torch.tensor(shares))
            self.task_rows = [slice(sum(shares[:n]), sum(shares[: n + 1])) for n in range(len(shares))]
        net.use_optimizer(self.algo.optimizer_name, **self.algo.optimizer_numbers)

    # The four calls of the loop

    def targets(self, rollout: Rollout) -> Metrics:
        """The learner's reward (scaled, clipped, normalised; scores are recorded elsewhere), advantages and returns."""
        metrics = self.learner_reward(rollout)
        for extension in self.extensions:
            metrics |= extension.reward(rollout)
        self.advantages(rollout)
        return metrics

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        """Learns from a rollout; returns scalars named as in the metric catalogue."""
        raise NotImplementedError

    def after(self, rollout: Rollout, pulse: Pulse | None = None) -> Metrics:
        """Statistics of observations and of hidden layers move, and extensions learn, once the rollout is used up. From
        the first rollout a tracker learns what moves: `pulse` says how far it is."""
        obs = {key: leaf.flatten(0, 1) for key, leaf in rollout.obs.items()}
        metrics: Metrics = {}
        if (tracker := self.agent.tracker) is not None and not tracker.has_learned:
            from gymnast.core.seeds import derive_seed  # imports NumPy, which reading a config must not

            numbers, found = tracker.learn_kept(derive_seed(self.seed, "tracker"), pulse)
            metrics |= found
            obs = dict.fromkeys(obs, numbers)
            self.reset_optimizer()  # moments of layers that saw nothing make first steps large
        if self.agent.normalizer is not None:  # it stands still while a rollout is collected and learned from
            self.agent.normalizer.update(obs)
        self.agent.measure(obs)
        for extension in self.extensions:
            metrics |= extension.step(rollout)
        return metrics

    def reset_optimizer(self) -> None:
        self.net.load_state({})
        self.optimizer_resets += 1

    def forget_episodes(self) -> None:
        """The envs start again: episodes under way will not go on."""
        self.reward_carry.zero_()

    # Targets

    def learner_reward(self, rollout: Rollout) -> Metrics:
        reward = rollout["reward"]
        self.reward_carry[rollout["starts"][0]] = 0.0  # an actor may have died between two rollouts, and its episodes
        reward.mul_(self.reward_scale)
        cut: Tensor | None = None
        if self.reward.clip is not None:
            cut = reward.abs() > self.reward.clip
            reward.clamp_(-self.reward.clip, self.reward.clip)
        if self.agent.cfg.normalize_reward:
            normalizers: Any = self.agent.reward_normalizers or [self.agent.reward_normalizer]
            for one, rows in zip(normalizers, self.task_rows, strict=True):
                own = one.update_and_scale(reward[:, rows], rollout.ended[:, rows], self.reward_carry[rows])
                reward[:, rows] = own
            at_limit = reward.abs() >= self.clip_reward
            cut = at_limit if cut is None else cut | at_limit
        return {} if cut is None else {"rollout/reward_cut_fraction": int(cut.count_nonzero()) / rollout.size}

    def advantages(self, rollout: Rollout) -> None:
        """An algorithm that needs other estimates writes its own."""
        ends = rollout["terminated"], rollout["truncated"]
        values = rollout[VALUE], rollout.last_values[VALUE], rollout[f"final_{VALUE}"]
        importance = rollout.streams.get(IMPORTANCE)
        advantage, returns = gae(rollout["reward"], *values, *ends, self.algo.gamma, self.algo.gae_lambda, importance)
        if importance is not None and self.algo.normalize_advantage != "off":  # which finds hardly a mean to subtract
            for rows in self.task_rows:
                advantage[:, rows] = centred(advantage[:, rows], importance[:, rows])
        rollout["advantage"].copy_(advantage)
        rollout["returns"].copy_(returns)

    # Losses

    def schedule(self, progress: float) -> Metrics:
        """Sets the learning rate for this update; reports every scheduled value, and resets of the optimizer."""
        values = {name: schedule.value(progress) for name, schedule in self.algo.schedules().items()}
        values["learning_rate"] *= self.rate_factor
        rate, before = values["learning_rate"], self.last_rate
        limit = self.algo.reset_optimizer_on_lr_jump
        if limit is not None and before and rate and max(rate / before, before / rate) > limit:
            self.reset_optimizer()
        self.rate = self.last_rate = rate
        self.critic_rate = values.get("critic_learning_rate")
        resets = {"train/optimizer_resets": float(self.optimizer_resets)}
        return {f"train/{name}": value for name, value in values.items()} | resets

    def value_loss(self, value: Tensor, target: Tensor) -> Tensor:
        if self.algo.value_loss == "huber":
            return torch.nn.functional.huber_loss(value, target, delta=self.algo.huber_delta)
        return torch.nn.functional.mse_loss(value, target)

    @property
    def huber_bound(self) -> float:
        """The error from which the value loss is linear, as kernels take it: negative for the squared error."""
        return float(self.algo.huber_delta) if self.algo.value_loss == "huber" else -1.0

    def total_loss(self, policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, progress: float) -> Loss:
        """Policy, value and entropy terms weighed together, with each term's metrics, raw and as weighed."""
        vf_coef, ent_coef = self.algo.vf_coef.value(progress), self.algo.ent_coef.value(progress)
        metrics = loss_metrics(policy_loss, value_loss, entropy, vf_coef, ent_coef)
        return metrics["train/loss"], {name: value.detach() for name, value in metrics.items()}

    def plain_loss(self, out: Outputs, batch: Batch, progress: float) -> Tensor:
        """The loss that every algorithm starts from, for looking at its gradients."""
        advantage = self.weighed(batch["advantage"], batch)
        value_loss = self.value_loss(out.values[VALUE], batch["returns"])
        if not self.algo.trains_critic:
            value_loss = torch.zeros_like(value_loss)
        return self.total_loss(-(advantage * out.logp).mean(), value_loss, out.entropy.mean(), progress)[0]

    def weighed(self, advantage: Tensor, batch: Batch) -> Tensor:
        """What weighs the log-probabilities of a whole batch: normalised, unless the config says off."""
        return advantage if self.algo.normalize_advantage == "off" else self.normalized(advantage, batch)

    def normalized(self, advantage: Tensor, batch: Batch) -> Tensor:
        """Of several tasks each by itself: together, the one with the largest rewards would decide alone."""
        tasks = self.agent.tasks
        return normalized(advantage) if tasks is None else normalized_by(advantage, batch[OBS + TASK], len(tasks.names))

    def policy_gradient(self, batch: Batch, weight: Tensor, target: Tensor | None, progress: float) -> Metrics:
        """One step on -mean(weight * logp), the value loss (none without a target) and the entropy."""
        columns = {"weight": weight} if target is None else {"weight": weight, "target": target}
        data = self.net.prepare(batch.with_columns(**columns))
        losses = policy_gradient_losses(self, progress)
        self.net.backward(losses.slopes(self.net.forward(data), data))
        norms = [self.step()]
        return losses.metrics() | self.net.norm_metrics(norms, self.algo.max_grad_norm)

    def step(self) -> Any:
        """Moves the weights along the gradient that the network has."""
        return self.net.step(self.rate, self.algo.max_grad_norm, self.critic_rate)

    def batch(self, rollout: Rollout) -> Batch:
        """Every sample of a rollout, with all that losses read."""
        return rollout.batch(["action", "logp", "value", "advantage", "returns", *self.extension_columns])

    @property
    def extension_columns(self) -> list[str]:
        """What the terms that extensions add to the loss may read: streams, values and what those are taught."""
        return [
            name
            for extension in self.extensions
            if extension.adds_loss
            for name in (*extension.streams, *extension.values, *map(returns_of, extension.values))
        ]

    def kl_since(self, batch: Batch) -> Tensor:
        """How far the policy has moved from the one that gave `logp` (Schulman's low-variance estimate)."""
        log_ratio = self.net.score(self.net.prepare(batch)).logp - batch["logp"]
        return (log_ratio.exp() - 1 - log_ratio).mean()

    def minibatches(self, data: Batch, size: int) -> Iterator[Batch]:
        """Every sample of prepared data exactly once, in a new random order each time it is called."""
        return self.net.shuffled(data, torch.randperm(data.units, generator=self.generator), size)

    @property
    def uses_kernels(self) -> bool:
        """Whether a kernel may write the slopes: an extension's term of the loss is an expression."""
        return self.net.compiled and not self.adds_loss

    @property
    def adds_loss(self) -> bool:
        return any(extension.adds_loss for extension in self.extensions)

    # State

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values that `load_state` needs to go on exactly."""
        moments = self.net.save_state()
        tensors = {f"optimizer/{name}": tensor for name, tensor in moments.items()}
        tensors |= {"rng": self.generator.get_state(), "reward_carry": self.reward_carry}
        values: dict[str, Any] = {
            "moments": [name for name in moments if not name.endswith("/step")],
            "rate": self.last_rate,
            "rate_factor": self.rate_factor,
            "optimizer_resets": self.optimizer_resets,
        }
        for extension in self.extensions:
            own, more = extension.save_state()
            tensors |= {f"{extension.name}/{name}": tensor for name, tensor in own.items()}
            values[extension.name] = more
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any], optimizer: bool, episodes: bool) -> None:
        """`optimizer`, `episodes`: whether its moments are taken over, and whether episodes under way go on."""
        self.generator.set_state(tensors["rng"])
        for extension in self.extensions:
            if extension.name in values:
                extension.load_state(group(tensors, extension.name), values[extension.name])
        if optimizer:
            self.net.load_state(group(tensors, "optimizer"))
            self.last_rate = None if values["rate"] is None else number_from_json(values["rate"])
            self.optimizer_resets = int(values["optimizer_resets"])
            self.rate_factor = number_from_json(values.get("rate_factor", 1.0))  # not in older checkpoints
        if episodes:
            self.reward_carry.copy_(tensors["reward_carry"])


class Expression:
    """The losses of an update, each an expression of a network's outputs. Autograd on the outputs alone gives the
    slopes, whatever the network is."""

    def __init__(self, loss: Callable[[Outputs, Batch], Loss], extensions: Sequence[Extension] = ()) -> None:
        self.loss = loss
        self.extensions = [extension for extension in extensions if extension.adds_loss]
        self.seen: list[dict[str, Tensor]] = []

    def slopes(self, out: Outputs, batch: Batch) -> Outputs:
        def leaf(output: Any) -> Tensor:
            return torch.as_tensor(output).detach().requires_grad_()

        leaves = Outputs(leaf(out.logp), leaf(out.entropy), {name: leaf(value) for name, value in out.values.items()})
        batch = batch.map(torch.as_tensor)
        loss, metrics = self.loss(leaves, batch)
        for extension in self.extensions:
            loss = loss + extension.loss(leaves, batch)
        self.seen.append(metrics)
        inputs = [leaves.logp, leaves.entropy, *leaves.values.values()]
        logp, entropy, *values = torch.autograd.grad(loss, inputs, allow_unused=True)
        return Outputs(logp, entropy, dict(zip(leaves.values, values, strict=True)))

    def metric(self, name: str, step: int) -> Tensor:
        return self.seen[step][name]

    def metrics(self) -> Metrics:
        from gymnast.agent.nets.torch_net import mean_metrics

        return mean_metrics(self.seen)


class PolicyGradientKernel:
    """The slopes of `policy_gradient_losses`, compiled; `tests/unit/test_losses.py` holds them to it."""

    def __init__(self, learner: Learner, progress: float) -> None:
        self.net, self.huber_bound, algo = cast("DenseNet", learner.net), learner.huber_bound, learner.algo
        self.vf_coef, self.ent_coef = algo.vf_coef.value(progress), algo.ent_coef.value(progress)
        self.found: Metrics = {}

    def slopes(self, out: Outputs, batch: Batch) -> Outputs:
        weight, slopes = batch["weight"], self.net.slopes()
        returns = batch.columns.get("target", weight[:0])
        numbers = map(np.float32, (self.huber_bound, self.vf_coef, -self.ent_coef / len(batch)))
        into = slopes.logp, slopes.entropy, slopes.values[VALUE]
        value_loss = kernels.policy_gradient_slopes(weight, out.values[VALUE], returns, *numbers, *into)
        policy_loss, entropy = (float(a.mean(dtype=np.float64)) for a in (-(weight * out.logp), out.entropy))
        self.found = loss_metrics(policy_loss, value_loss, entropy, self.vf_coef, self.ent_coef)
        return slopes if "target" in batch.columns else slopes._replace(values={VALUE: None})

    def metrics(self) -> Metrics:
        return self.found


def policy_gradient_losses(learner: Learner, progress: float) -> Expression | PolicyGradientKernel:
    """-mean(weight * logp), the value loss (none without a target) and the entropy."""
    if learner.uses_kernels:
        return PolicyGradientKernel(learner, progress)

    def loss(out: Outputs, batch: Batch) -> Loss:
        target = batch.columns.get("target")
        value_loss = out.logp.new_zeros(()) if target is None else learner.value_loss(out.values[VALUE], target)
        return learner.total_loss(-(batch["weight"] * out.logp).mean(), value_loss, out.entropy.mean(), progress)

    return Expression(loss, learner.extensions)


def loss_metrics(policy_loss: Any, value_loss: Any, entropy: Any, vf_coef: float, ent_coef: float) -> dict[str, Any]:
    return {
        "train/loss": policy_loss + vf_coef * value_loss - ent_coef * entropy,
        "train/policy_gradient_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/entropy_loss": -entropy,
        "train/entropy": entropy,
        "train/value_loss_scaled": vf_coef * value_loss,
        "train/entropy_loss_scaled": -ent_coef * entropy,
    }


def normalized(advantage: Tensor) -> Tensor:
    """Zero mean, unit standard deviation; of equal numbers all 0, where rounding would make 1 or -1 of each. A single
    sample has no standard deviation and is left as it is."""
    if len(advantage) < 2:
        return advantage
    low, high = torch.aminmax(advantage)
    scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return torch.where(low == high, torch.zeros_like(scaled), scaled)  # NaN equals nothing: it is passed on


def normalized_by(advantage: Tensor, task: Tensor, count: int) -> Tensor:
    """The same for each task by itself. A task with a single sample gets 0: that
    has no standard deviation, and as it is it may be of any size."""
    member = torch.nn.functional.one_hot(task, count).to(advantage.dtype)
    samples = member.sum(0)
    centred = advantage - ((advantage @ member) / samples.clamp(min=1.0))[task]
    std = ((centred.square() @ member) / (samples - 1.0).clamp(min=1.0)).sqrt()
    low, high = (
        advantage.new_full((count,), start).scatter_reduce(0, task, advantage, which)
        for start, which in ((torch.inf, "amin"), (-torch.inf, "amax"))
    )
    scaled = centred / (std[task] + 1e-8)
    return torch.where((low == high)[task], torch.zeros_like(scaled), scaled)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor | float:
    """1: values predict returns exactly; 0: no better than their mean; below: worse. NaN where returns do not vary."""
    error, variance = torch.stack((returns - value, returns)).var(1)
    explained = torch.where(variance > 0, 1 - error / variance, torch.nan)
    return float(explained) if explained.device.type == "cpu" else explained


def group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors saved under `prefix/`, by their own names."""
    return {key.removeprefix(f"{prefix}/"): value for key, value in tensors.items() if key.startswith(f"{prefix}/")}
