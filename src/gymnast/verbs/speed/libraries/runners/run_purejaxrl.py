"""Trains with PureJaxRL's `ppo.py`, which PYTHONPATH leads to: one compiled training after another, until the steps are
done. What a user of it does: `jax.jit(make_train(config))`, then call it with a key.

Run by path, in whatever interpreter has JAX, so nothing of Gymnast is imported.
"""

from __future__ import annotations

import json
import os
import sys
import time

TRAINING = 131_072  # steps of one, about: making its network is 1 % of it then


def main() -> None:
    text, seed, device, steps = sys.argv[1:]
    settings = json.loads(text)
    threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    if threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if device != "auto":
        os.environ["JAX_PLATFORMS"] = device
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")  # an error's last line is what is wrong

    import jax
    from ppo import make_train  # type: ignore[import-not-found]

    rollout = settings["NUM_ENVS"] * settings["NUM_STEPS"]
    length = settings["TOTAL_TIMESTEPS"] = rollout * max(1, min(int(steps), TRAINING) // rollout)
    began = time.perf_counter()
    train = jax.jit(make_train(settings)).lower(jax.random.PRNGKey(int(seed))).compile()
    print(f"compiled in {time.perf_counter() - began:.2f} s", flush=True)
    done = 0
    while done < int(steps):
        jax.block_until_ready(train(jax.random.PRNGKey(int(seed) + done // length)))
        done += length
        print(f"steps {done}", flush=True)


if __name__ == "__main__":
    main()
