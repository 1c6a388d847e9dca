"""Does `gymnast autotune` heal? Spoilt configs are trained as they are, tuned, and the file that was found is trained.

    python benchmarks/autotune.py --runs-dir tuned                  all cases, a Markdown table on standard output
    python benchmarks/autotune.py --runs-dir tuned --only 3    one case

Interrupted, the same command goes on: what is in the folder is not trained again. None of these configs is in a test,
and the tuner was written with others in view.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from gymnast.core.files import read_json, write_json
from gymnast.core.text import number
from gymnast.verbs.autotune.run import Autotuned, autotune
from gymnast.verbs.train import start

SEED = 11
# Written down before any of them was tuned. Each was then trained as it is, and configs that are solved all the same
# were left out: CartPole-v1 with gamma 0.7 or ent_coef 0.5, Acrobot-v1 with clip_range 0.002 or max_grad_norm 1e-6,
# FrozenLake-v1 with ent_coef 3.
CASES = [
    ("CartPole-v1", ["algo.learning_rate=0.2"], "600k"),
    ("CartPole-v1:a2c", ["algo.learning_rate=2e-6"], "1200k"),
    ("CartPole-v1", ["algo.learning_rate=1e-5", "algo.gamma=0.8", "algo.gae_lambda=0.1"], "600k"),
    ("CartPole-v1:reinforce", ["algo.learning_rate=2.0"], "1800k"),
    ("CartPole-v0", ["algo.learning_rate=1e-7"], "2M"),  # no preset: defaults for any env
    ("FrozenLake-v1", ["algo.learning_rate=3e-6"], "1200k"),
    ("Pendulum-v1", ["algo.gamma=0.2"], "1200k"),
    ("Pendulum-v1", ["algo.learning_rate=0.1"], "1200k"),
    ("MountainCar-v0", ["algo.gamma=0.8"], "2M"),
    ("LunarLander-v3", ["algo.learning_rate=0.05"], "3M"),
]


def trained(name: str, target: str, overrides: list[str], runs_dir: Path) -> dict[str, Any]:
    """A run to its verdict on the env's threshold; once."""
    path = runs_dir / f"{name}.json"
    if not path.exists():
        result = start(target, [*overrides, "stop.target=null"], runs_dir, seed=SEED, quiet=True)
        write_json(path, {key: result.data[key] for key in ("solved", "eval_mean", "env_steps", "run")})
    found: dict[str, Any] = read_json(path)
    return found


def outcome(data: dict[str, Any]) -> str:
    word = "**solved**" if data["solved"] else "not solved"
    return f"{word} ({number(data['eval_mean'])}) at {number(data['env_steps'])}"


def tried(result: Autotuned) -> str:
    parts = []
    for line in result.decisions:
        change = " ".join(f"{key}={value}" for key, value in line["patch"].items())
        where = "new agent" if line.get("start") == "step 0" else "checkpoint"
        because = line.get("rule") or line["situation"]
        parts.append(f"{because}: `{change}` ({where}) {'kept' if line['kept'] else 'reverted'}")
    return "; ".join(parts) or "nothing"


def case(index: int, target: str, overrides: list[str], budget: str, runs_dir: Path) -> list[str]:
    before = trained(f"case{index}-as-it-is", target, overrides, runs_dir)
    result = autotune(target, overrides, budget=budget, seed=SEED, runs_dir=runs_dir)
    after = trained(f"case{index}-file", str(result.config), [], runs_dir)
    word = "not solved" if not result.solved else "**solved**" if result.reproduced else "**solved**, not from step 0"
    cost = f"{number(result.used_steps)} of {budget}"
    spoilt = f"`{' '.join(overrides)}`"
    return [str(index), target, spoilt, outcome(before), tried(result), word, cost, outcome(after)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs-dir", type=Path, required=True)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of some cases, from 1")
    options = parser.parse_args()
    options.runs_dir.mkdir(parents=True, exist_ok=True)
    print("| | env | spoilt | as it is | tried | autotune | steps used | the file it wrote, from step 0 |")
    print("|---|---|---|---|---|---|---|---|")
    for index, (target, overrides, budget) in enumerate(CASES, start=1):
        if options.only is None or index in options.only:
            print(f"{index} of {len(CASES)}: {target} {' '.join(overrides)}", file=sys.stderr)
            print("| " + " | ".join(case(index, target, overrides, budget, options.runs_dir)) + " |", flush=True)


if __name__ == "__main__":
    main()
