"""Real tiny runs of every kind, for tests that look at runs."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gymnast import config as configs
from gymnast.core.errors import EnvFailure
from gymnast.report.blocks import markdown
from gymnast.report.page import build_page
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run
from gymnast.training.build import build
from gymnast.training.record import new_run, record
from gymnast.verbs.train import start

# 8 envs x 32 steps = 256 steps a rollout
SMALL = (
    "env.n_envs=8",
    "algo.n_steps=32",
    "algo.batch_size=64",
    "eval.episodes=2",
    "stop.episodes=4",
    "stop.on_solved=false",
    "eval.every=512",
)
ROLLOUT = 256


class Gallery:
    """One folder with: tuned (2 seeds), wild (2 seeds of a learning rate that ruins it), lake (FrozenLake), blind
    (never evaluated), broken (its env crashed), stopped (interrupted), killed. `seen_live`: the page of a run in
    training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tuned = [self.train("CartPole-v1", seed=seed) for seed in (1, 2)]
        self.wild = [self.train("CartPole-v1", "algo.learning_rate=1.0", seed=seed) for seed in (1, 2)]
        self.lake = self.train("FrozenLake-v1", steps=2 * ROLLOUT)
        self.blind = self.train("CartPole-v1", "eval.every=0", steps=4 * ROLLOUT)
        self.broken = self.crash()
        self.seen_live, self.stopped = self.interrupt()
        self.killed = self.kill()

    def train(self, target: str, *settings: str, seed: int = 1, steps: int = 12 * ROLLOUT, **more: Any) -> Run:
        with patch.object(sys, "argv", ["gymnast", "train", target]):
            result = start(target, [*SMALL, *settings], self.folder, seed, steps, quiet=True, **more)
        return Run(self.folder / result.run)

    def crash(self) -> Run:
        """An env that raises in step 40: after a row, in the middle of the second rollout of 32 steps."""
        before = set(self.folder.iterdir())
        with suppress(EnvFailure):
            self.train("tests.envs_for_tests:test/Troubled-v0", "env.kwargs.at=40", "env.engine=sync")
        (path,) = set(self.folder.iterdir()) - before
        return Run(path)

    def interrupt(self) -> tuple[str, Run]:
        """Ctrl-C after the first row; before it, a look at the run while it is trained."""
        overrides = [*SMALL, "train.seed=1", f"train.total_timesteps={12 * ROLLOUT}"]
        config = configs.load("CartPole-v1", overrides).config
        run = new_run(config, "ppo", self.folder)
        pages: list[str] = []

        def look_and_stop(row: dict[str, float]) -> None:
            pages.append(markdown(build_page(RunFacts(run))))
            signal.raise_signal(signal.SIGINT)

        session = build(config, 475.0)
        record(session, run, quiet=True, observer=look_and_stop)
        session.close()
        return pages[0], run

    def kill(self) -> Run:
        """What kill -9 leaves behind: a run.json that says running, and nobody who runs it."""
        source = self.wild[0].path
        path = self.folder / source.name.replace(source.name.split("-")[0], "zzzzz")
        shutil.copytree(source, path)
        (path / "report.md").unlink()
        data = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps({**data, "id": path.name, "status": "running", "summary": {}}))
        return Run(path)


def refs(runs: Sequence[Run]) -> str:
    return ",".join(run.id for run in runs)
