"""Proximal policy optimisation (Schulman et al., 2017). `docs/ppo.md` explains every line and metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from gymnast.agent.batch import VALUE, Batch, Outputs
from gymnast.config import algos as settings
from gymnast.config.fields import Count, Float, Positive, Rate
from gymnast.core.lazy import np, torch
from gymnast.core.schedule import Schedule
from gymnast.rl.learner import Expression, Learner, Loss, Metrics, explained_variance, kernels, loss_metrics

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.agent.nets.dense_net import DenseNet
    from gymnast.rl.rollout import Rollout

Beta = Annotated[Float, Field(ge=0, lt=1)]
RATE_STEP, LOWEST_RATE, HIGHEST_RATE = 1.5, 1e-5, 1e-2  # of an adapted rate, as in rsl_rl


class PPOConfig(settings.AlgoSettings):
    """Proximal policy optimisation."""

    name: Literal["ppo"] = Field("ppo", description="Algorithm.")
    learning_rate: settings.LearningRate = Schedule.constant(3e-4)
    critic_learning_rate: settings.CriticRate = None
    n_steps: settings.Steps = 2048
    batch_size: Count = Field(64, description="Samples a gradient step; must divide n_envs x n_steps.")
    n_epochs: Count = Field(10, description="Passes over each rollout.")
    gamma: settings.Gamma = 0.99
    gae_lambda: settings.GaeLambda = 0.95
    clip_range: Rate = Field(
        Schedule.constant(0.2), description="How far an update may move action probabilities; may be scheduled."
    )
    clip_range_vf: Rate | None = Field(None, description="The same for the value estimate; null: no clipping.")
    ent_coef: settings.EntCoef = Schedule.constant(0.0)
    vf_coef: settings.VfCoef = Schedule.constant(0.5)
    max_grad_norm: settings.MaxGradNorm = 0.5
    target_kl: Positive | None = Field(
        None, description="Stop an update's epochs early when the KL exceeds 1.5 times this."
    )
    desired_kl: Positive | None = Field(
        None,
        description="Adapt the rate, from learning_rate on: divided by 1.5 after an update whose KL exceeds twice "
        "this, times 1.5 after one below half of it, within 1e-5 to 1e-2; null: not adapted.",
    )
    normalize_advantage: settings.NormalizeAdvantage = "batch"
    value_loss: settings.ValueLoss = "mse"
    huber_delta: settings.HuberDelta = 1.0
    optimizer: Literal["adam", "adamw"] = Field("adam", description="Optimizer.")
    optimizer_eps: settings.OptimizerEps = 1e-5
    betas: tuple[Beta, Beta] = Field(
        (0.9, 0.999), description="How slowly the optimizer's means of gradients and of their squares move."
    )
    weight_decay: settings.WeightDecay = 0.0
    reset_optimizer_on_lr_jump: settings.LrJump = None

    @property
    def optimizer_name(self) -> str:
        return self.optimizer

    @property
    def optimizer_numbers(self) -> dict[str, Any]:
        return {"eps": self.optimizer_eps, "betas": self.betas, "weight_decay": self.weight_decay}

    @property
    def kl_limit(self) -> float | None:
        return 1.5 * self.target_kl if self.target_kl else None

    def problems(self, config: Any) -> list[settings.RuleProblem]:
        found, rate = super().problems(config), self.learning_rate
        if self.desired_kl is not None and rate.lowest != rate.highest:
            text = "a rate that algo.desired_kl adapts has no schedule. Use one number, or drop algo.desired_kl."
            found.append(settings.RuleProblem(("algo.learning_rate", "algo.desired_kl"), text))
        return found

    def passes(self, rollout_steps: int) -> tuple[int, int]:
        return self.n_epochs, self.batch_size


class PPO(Learner):
    """Several epochs of clipped policy-gradient steps on each rollout."""

    Settings = PPOConfig
    metrics = """
        train/clip_fraction: {after: train/approx_kl, style: percent, precision: 1, low: 0, high: 1, warn_high: 0.5,
          meaning: "Share of samples whose ratio left the clip range."}
        train/clip_fraction_vf: {after: train/approx_kl, style: percent, precision: 1, low: 0, high: 1, detail: true,
          meaning: "Share of samples whose value left clip_range_vf."}
        train/ratio_first: {after: train/std, style: fixed, precision: 6, low: 0, warn_low: 0.999,
          warn_high: 1.001, detail: true,
          meaning: "Mean probability ratio on the first minibatch: 1, or acting and learning disagree."}
        train/ratio: {after: train/std, style: fixed, precision: 6, low: 0, detail: true,
          meaning: "Mean probability ratio over all minibatches."}
        train/epochs: {after: train/std, style: fixed, precision: 1, low: 0, detail: true,
          meaning: "Passes over the rollout before target_kl stopped the update."}
        train/kl_stop: {after: train/std, style: percent, precision: 0, low: 0, high: 1, detail: true,
          meaning: "Share of updates that target_kl cut short."}
        train/clip_range: {after: train/learning_rate, style: general, precision: 3, low: 0, detail: true,
          meaning: "PPO's clip range now."}
        train/clip_range_vf: {after: train/learning_rate, style: general, precision: 3, low: 0, detail: true,
          meaning: "PPO's clip range for values now."}
    """
    algo: PPOConfig

    def update(self, rollout: Rollout, progress: float) -> Metrics:
        batch = self.batch(rollout)
        if self.algo.normalize_advantage == "rollout":
            batch = batch.with_columns(advantage=self.normalized(batch["advantage"], batch))
        metrics = {
            **self.schedule(progress),
            **self.epochs(batch, progress),
            "train/explained_variance": explained_variance(batch["value"], batch["returns"]),
        }
        if self.algo.desired_kl is not None:
            self.adapt_rate(float(metrics["train/approx_kl"]), self.algo.desired_kl)
        return metrics

    def adapt_rate(self, kl: float, desired: float) -> None:
        """For the next update, by how far this one has moved the policy."""
        rate = self.rate
        if kl > 2 * desired:
            rate = max(LOWEST_RATE, rate / RATE_STEP)
        elif kl < desired / 2:
            rate = min(HIGHEST_RATE, rate * RATE_STEP)
        self.rate_factor *= rate / self.rate

    def epochs(self, batch: Batch, progress: float) -> Metrics:
        algo, net = self.algo, self.net
        data, steps = net.prepare(batch), []
        losses = self.losses(progress)
        epochs, kl_stop = 0, False
        for _ in range(algo.n_epochs):
            for some in self.minibatches(data, algo.batch_size):
                slopes = losses.slopes(net.forward(some), some)
                # Asking for the number waits for the device, so it is done only where the config sets a limit.
                if algo.kl_limit and float(losses.metric("train/approx_kl", -1)) > algo.kl_limit:
                    kl_stop = True
                    break
                net.backward(slopes)
                steps.append(self.step())
            if kl_stop:
                break
            epochs += 1
        return {
            **losses.metrics(),
            **net.norm_metrics(steps, algo.max_grad_norm),
            "train/ratio_first": losses.metric("train/ratio", 0),
            "train/epochs": float(epochs),
            "train/kl_stop": float(kl_stop),
        }

    def losses(self, progress: float) -> Expression | PPOKernel:
        if self.uses_kernels:
            return PPOKernel(self, progress)
        return Expression(lambda out, batch: self.loss(out, batch, progress), self.extensions)

    def loss(self, out: Outputs, batch: Batch, progress: float) -> Loss:
        """The clipped objective on one minibatch, and its metrics."""
        clip = self.algo.clip_range.value(progress)
        advantage = batch["advantage"]
        if self.algo.normalize_advantage == "batch":
            advantage = self.normalized(advantage, batch)
        log_ratio = out.logp - batch["logp"]
        ratio = log_ratio.exp()
        policy_loss = -torch.minimum(advantage * ratio, advantage * ratio.clamp(1 - clip, 1 + clip)).mean()
        value, value_metrics = self.clip_value(out.values[VALUE], batch["value"], progress)
        loss, metrics = self.total_loss(
            policy_loss, self.value_loss(value, batch["returns"]), out.entropy.mean(), progress
        )
        with torch.no_grad():
            metrics |= value_metrics | {
                "train/approx_kl": (ratio - 1 - log_ratio).mean(),
                "train/clip_fraction": ((ratio - 1).abs() > clip).float().mean(),
                "train/ratio": ratio.mean(),
            }
        return loss, metrics

    def clip_value(self, value: Tensor, old: Tensor, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Keeps the new value within clip_range_vf of the one at collection, where the config asks for it."""
        if self.algo.clip_range_vf is None:
            return value, {}
        limit = self.algo.clip_range_vf.value(progress)
        change = value - old
        beyond = (change.detach().abs() > limit).float().mean()
        return old + change.clamp(-limit, limit), {"train/clip_fraction_vf": beyond}


class PPOKernel:
    """The slopes of `PPO.loss`, compiled, for networks that take arrays; `tests/unit/test_losses.py` holds them to it.

    Metrics come from the sums over all minibatches, which are of one size.
    """

    def __init__(self, ppo: PPO, progress: float) -> None:
        algo = ppo.algo
        self.net, self.size = cast("DenseNet", ppo.net), algo.batch_size
        self.vf_coef, self.ent_coef = algo.vf_coef.value(progress), algo.ent_coef.value(progress)
        limit = -1 if algo.clip_range_vf is None else algo.clip_range_vf.value(progress)
        bounds = algo.clip_range.value(progress), limit, ppo.huber_bound, self.vf_coef
        self.numbers = [np.float32(number) for number in (*bounds, -self.ent_coef / self.size)]
        self.normalizes = algo.normalize_advantage == "batch" and self.size > 1
        self.sums = {} if algo.clip_range_vf is None else {"clip_fraction_vf": kernels.VALUE_CLIPPED}
        self.sums |= {"approx_kl": kernels.KL, "clip_fraction": kernels.CLIPPED, "ratio": kernels.RATIO}
        self.seen: list[tuple[float, ...]] = []  # sums of each minibatch

    def slopes(self, out: Outputs, batch: Batch) -> Outputs:
        advantage, slopes = batch["advantage"], self.net.slopes()
        if self.normalizes:
            kernels.normalize_rows(advantage.reshape(1, -1))
        policy = out.logp, batch["logp"], out.entropy, advantage
        value = out.values[VALUE], batch["value"], batch["returns"]
        into = slopes.logp, slopes.entropy, slopes.values[VALUE]
        self.seen.append(kernels.ppo_slopes(*policy, *value, *self.numbers, *into))
        return slopes

    def metric(self, name: str, step: int) -> float:
        return self.seen[step][self.sums[name.removeprefix("train/")]] / self.size

    def metrics(self) -> Metrics:
        means = (np.array(self.seen).mean(0) / self.size).tolist()
        losses = -means[kernels.GAIN], means[kernels.VALUE_LOSS], means[kernels.ENTROPY]
        found = {f"train/{name}": means[place] for name, place in self.sums.items()}
        return loss_metrics(*losses, self.vf_coef, self.ent_coef) | found
