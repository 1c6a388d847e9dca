"""Does the advice help? Detuned configs are trained, the first alert's patch is applied, and the result is trained.

    python benchmarks/advice.py             all cases, a Markdown table on standard output
    python benchmarks/advice.py --blind     the same without a preset to compare with, as for an env of one's own
    python benchmarks/advice.py --only 3    one case

The advice is followed up to three times: a careful step may not be the last, and one fault may hide another.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

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
]


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
    before, advised = outcome.text(), []
    for _ in range(ROUNDS):
        top = next((alert for alert in outcome.alerts if alert.patch), None)
        if outcome.result.solved or top is None or top.patch is None:
            break
        patch = [f"{key}={setting(value)}" for key, value in top.patch.items()]
        advised.append(f"{top.rule}: `{' '.join(patch)}`")
        settings = [text for text in settings if text.partition("=")[0] not in top.patch] + patch
        outcome = trained()
    return [target, f"`{' '.join(detuned)}`", before, ", then ".join(advised) or "none", outcome.text()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="without the preset to compare with")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of some cases, from 1")
    options = parser.parse_args()
    chosen = CASES if options.only is None else [CASES[number - 1] for number in options.only]
    print("| env | detuned | as it was | first alert and its patch | patched |\n|---|---|---|---|---|")
    for number, (target, detuned) in enumerate(chosen, start=1):
        print(f"{number} of {len(chosen)}: {target} {' '.join(detuned)}", file=sys.stderr)
        print("| " + " | ".join(case(target, detuned, options.seed, options.blind)) + " |", flush=True)


if __name__ == "__main__":
    main()
