"""Does the advice help? Detuned configs are trained, the first alert's patch is applied, and the result is trained.

    python benchmarks/advice.py             all cases, a Markdown table on standard output
    python benchmarks/advice.py --blind     the same without a preset to compare with, as for an env of one's own
    python benchmarks/advice.py --only 3    one case
    python benchmarks/advice.py --healthy   presets as they are: no alert may fire

The advice is followed up to three times: a careful step may not be the last, and one fault may hide another.
The last column: healed, the advice led to a run that is solved; diagnosed, the first alert named a setting that was
spoilt (or, where the env is at fault, what to check); missed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from gymnast import config as configs
from gymnast.alerts.advice import Origin
from gymnast.alerts.alert import Alert
from gymnast.config import RunConfig
from gymnast.core.text import setting
from gymnast.training.build import build
from gymnast.training.loop import Result, train

ROUNDS = 3
CASES = [
    ("CartPole-v1", ["algo.learning_rate=1.0"]),
    ("CartPole-v1", ["algo.learning_rate=3e-6"]),
    ("CartPole-v1", ["algo.gamma=0.5"]),
    ("CartPole-v1", ["algo.clip_range=5"]),
    ("CartPole-v1", ["env.reward.scale=1e4"]),
    ("CartPole-v1", ["algo.max_grad_norm=1e-8"]),
    ("CartPole-v1", ["algo.clip_range=1e-4"]),
    ("CartPole-v1", ["algo.ent_coef=10.0"]),
    ("CartPole-v1", ["env.max_episode_steps=30"]),
    ("CartPole-v1", ["algo.learning_rate=1.0", "algo.gamma=0.5"]),
    ("CartPole-v1:a2c", ["algo.learning_rate=1.0"]),
    ("CartPole-v1:reinforce", ["algo.learning_rate=3.0"]),
    ("LunarLander-v3", ["algo.learning_rate=0.3"]),
    ("LunarLander-v3", ["algo.gamma=0.5"]),
    # Rules and advice were written with the cases above in view; these were added afterwards.
    ("CartPole-v1", ["algo.n_epochs=100"]),
    ("CartPole-v1", ["algo.learning_rate=0.05"]),
    ("CartPole-v1", ["env.reward.scale=1e-6"]),
    ("CartPole-v1:a2c", ["algo.gamma=0.3"]),
    ("CartPole-v1:reinforce", ["algo.learning_rate=1e-6"]),
    # Settings that no rule suspects among them: they are named where they differ from the preset.
    ("CartPole-v1", ["algo.learning_rate=0.3"]),
    ("CartPole-v1", ["algo.gamma=0.1"]),
    ("CartPole-v1", ["algo.ent_coef=5"]),
    ("CartPole-v1", ["algo.learning_rate=1e-7"]),
    ("CartPole-v1", ["env.reward.scale=1000", "agent.critic_hidden=[2]"]),
    ("Pendulum-v1", ["algo.clip_range=0.0005"]),
    ("Pendulum-v1", ["env.wrappers=[{drop_components: {indices: [0, 1]}}]"]),
    ("MountainCar-v0:zoo", ["agent.normalize_obs=false", "env.n_envs=4"]),
    ("MountainCarContinuous-v0", ["agent.log_std_init=-6", "agent.normalize_obs=false"]),
    ("Acrobot-v1", ["agent.hidden=[1]", "agent.activation=relu"]),
    ("CliffWalking-v1", ["algo.gamma=0.3"]),
    ("Taxi-v4", ["algo.learning_rate=0.5"]),
    ("advice:Unpaid-v0", ["train.total_timesteps=65536"]),
]
HEALTHY = [
    "CartPole-v1",
    "CartPole-v1:a2c",
    "CartPole-v1:reinforce",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "FrozenLake-v1",
    "CliffWalking-v1",
    "Taxi-v4",
]


class Unpaid(gym.Env[Any, Any]):
    """Nothing is ever paid: an env of one's own with a fault that no setting mends."""

    observation_space: Any = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space: Any = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return self.np_random.random(2, np.float32), 0.0, False, False, {}


if "Unpaid-v0" not in gym.registry:
    gym.register("Unpaid-v0", Unpaid, max_episode_steps=20)


@dataclass(frozen=True)
class Outcome:
    result: Result
    alerts: list[Alert]

    def text(self) -> str:
        verdict = self.result.verdict
        mean = "" if verdict is None else f" ({verdict.evaluation.mean:.0f})"
        return f"{'**solved**' if self.result.solved else 'not solved'}{mean} at {self.result.env_steps:,}"


def run(config: RunConfig, threshold: float | None, origin: Origin, blind: bool) -> Outcome:
    state = build(config, threshold)
    state.alerts.known.origin = origin
    if blind:
        state.alerts.known.usual = []
    try:
        result = train(state)
    finally:
        state.close()
    return Outcome(result, state.alerts.alerts)


def case(target: str, detuned: list[str], seed: int, blind: bool) -> list[str]:
    """Cells of the table: what was wrong, what the alerts said, and what came of it."""
    settings = [*detuned, f"train.seed={seed}"]

    def trained() -> Outcome:
        resolved = configs.load(target, settings)
        return run(resolved.config, resolved.threshold, Origin(target, tuple(settings)), blind)

    outcome = trained()
    before, first, advised = outcome.text(), outcome.alerts, []
    for _ in range(ROUNDS):
        top = next((alert for alert in outcome.alerts if alert.patch), None)
        if outcome.result.solved or top is None or top.patch is None:
            break
        patch = [f"{key}={setting(value)}" for key, value in top.patch.items()]
        advised.append(f"{top.rule}: `{' '.join(patch)}`")
        settings = [text for text in settings if text.partition("=")[0] not in top.patch] + patch
        outcome = trained()
    told = ", then ".join(advised) or said(first)
    mark = judged(outcome, first, detuned)
    if not advised and outcome.result.solved:
        told, mark = "none needed", "was solved"
    return [target, f"`{' '.join(detuned)}`", before, told, outcome.text(), mark]


def said(alerts: list[Alert]) -> str:
    """The first alert, where none has a patch."""
    return f"{alerts[0].rule}: {alerts[0].cause}" if alerts else "none"


def judged(outcome: Outcome, first: list[Alert], detuned: list[str]) -> str:
    """What the advice was worth, by the last run and by the first run's most urgent alert."""
    if outcome.result.solved:
        return "healed"
    told = f"{first[0].cause} {' '.join(first[0].patch or {})}" if first else ""
    named = any(text.partition("=")[0] in told for text in detuned) or "`gymnast envs audit`" in told
    return "diagnosed" if named else "missed"


def healthy(target: str, seed: int) -> list[str]:
    settings = [f"train.seed={seed}"]
    resolved = configs.load(target, settings)
    outcome = run(resolved.config, resolved.threshold, Origin(target, tuple(settings)), blind=False)
    return [target, outcome.text(), ", ".join(f"{one.rule} ({one.severity})" for one in outcome.alerts) or "none"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="without the preset to compare with")
    parser.add_argument("--healthy", action="store_true", help="presets as they are, with the alerts that fired")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of some cases, from 1")
    options = parser.parse_args()
    if options.healthy:
        print("| preset | result | alerts |\n|---|---|---|")
        for target in HEALTHY:
            print("| " + " | ".join(healthy(target, options.seed)) + " |", flush=True)
        return
    chosen = CASES if options.only is None else [CASES[number - 1] for number in options.only]
    print("| env | detuned | as it was | first alert and its patch | patched | |\n|---|---|---|---|---|---|")
    for number, (target, detuned) in enumerate(chosen, start=1):
        print(f"{number} of {len(chosen)}: {target} {' '.join(detuned)}", file=sys.stderr)
        print("| " + " | ".join(case(target, detuned, options.seed, options.blind)) + " |", flush=True)


if __name__ == "__main__":
    main()
