"""A cluster with a token. Ray reads the token once a process, so everything here is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gymnast.core.ray_cluster import LOOPBACK
from tests.cluster.conftest import CLUSTER
from tests.processes import running

pytest.importorskip("ray")
pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]


def environment(token: str) -> dict[str, str]:
    return {**os.environ, **LOOPBACK, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def test_only_the_right_token_is_let_in(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with running([sys.executable, "-c", CLUSTER], env=environment("right" * 8), **pipes) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdin is not None
        address = cluster.stdout.readline().strip()
        answers = {}
        for token in ("right", "wrong"):
            command = [sys.executable, "-m", "gymnast", "ray", "status", address]
            answers[token] = subprocess.run(
                command, env=environment(token * 8), cwd=ROOT, capture_output=True, text=True, check=False
            )
        cluster.stdin.close()
        cluster.wait(60)
    assert answers["right"].returncode == 0, answers["right"].stderr
    assert "1 of 1 cores are free" in answers["right"].stdout
    assert answers["wrong"].returncode == 2
    (line,) = answers["wrong"].stderr.splitlines()
    assert line.startswith(f"gymnast: --on {address}: the cluster refuses this connection, as with a wrong token.")
