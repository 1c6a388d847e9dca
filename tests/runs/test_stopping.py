"""A run that is asked to end twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.training.build import build
from gymnast.training.record import new_run, record
from gymnast.verbs.runs.change import stop_runs
from tests.runs.report_runs import SMALL


def test_a_run_that_was_interrupted_gets_no_second_signal(tmp_path: Path) -> None:
    """Ctrl-C in its terminal, then `runs stop` elsewhere: a second signal would end it without a checkpoint."""
    config = configs.load("CartPole-v1", [*SMALL, "train.total_timesteps=100000"]).config
    run = new_run(config, "ppo", tmp_path)
    refused: list[str] = []

    def interrupt(row: dict[str, float]) -> None:
        if not refused:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(UserError) as error:
                stop_runs([run])
            refused.append(str(error.value))

    session = build(config, 475.0)
    record(session, run, quiet=True, observer=interrupt)
    session.close()
    assert "is stopping already" in refused[0]
    assert run.read().status == "interrupted"
    assert run.checkpoint_path("last").exists()
    assert not run.stopping_path.exists()
