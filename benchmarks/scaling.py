"""Does cost grow as it should? Training rate by number of envs, and memory over a long run.

    python benchmarks/scaling.py

Rates are the best of several short windows taken in turns, so that a busy moment of the machine hits all alike. The
rollout grows with the number of envs; the batch size stays.
"""

from __future__ import annotations

from gymnast import config as configs
from gymnast.training.build import build
from gymnast.training.loop import train

WINDOWS, SECONDS = 5, 0.7
CASES = {
    "CartPole-v1:zoo": ((4, 8, 16, 32, 64, 128, 256), ["algo.batch_size=128", "algo.n_epochs=4"]),
    "LunarLander-v3:zoo": ((4, 8, 16, 32, 64), ["algo.batch_size=256", "algo.n_steps=64"]),
}
QUIET = ["eval.every=0", "stop.on_solved=false", "train.total_timesteps=1_000_000_000", "log.every=100_000"]
LONG_STEPS = (500_000, 4_000_000)


def rate(target: str, settings: list[str], seconds: float) -> float:
    state = build(configs.load(target, [*QUIET, *settings, f"stop.seconds={seconds}"]).config, None)
    try:
        return train(state).fps
    finally:
        state.close()


def resident_mb() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def main() -> None:
    for target, (counts, settings) in CASES.items():
        best = dict.fromkeys(counts, 0.0)
        for _ in range(WINDOWS):
            for n_envs in counts:
                best[n_envs] = max(best[n_envs], rate(target, [*settings, f"env.n_envs={n_envs}"], SECONDS))
        print(f"{target} ({', '.join(settings)}): " + ", ".join(f"{n} envs {fps:,.0f}" for n, fps in best.items()))

    state = build(configs.load("CartPole-v1", [*QUIET, f"train.total_timesteps={LONG_STEPS[-1]}"]).config, None)
    seen: dict[int, float] = {}

    def observe(row: dict[str, float]) -> None:
        for steps in LONG_STEPS:
            if row["time/total_timesteps"] >= steps:
                seen.setdefault(steps, resident_mb())

    train(state, observer=observe)
    state.close()
    print("CartPole-v1 resident memory: " + ", ".join(f"{mb:.1f} MB after {n:,} steps" for n, mb in seen.items()))


if __name__ == "__main__":
    main()
