"""From a spoilt setting to the command that mends it, as a user sees it."""

from __future__ import annotations

import shlex
from pathlib import Path

from gymnast.alerts.alert import read_alerts
from tests.cli.conftest import Command


def test_a_spoilt_run_says_what_is_wrong_and_its_command_mends_it(gymnast: Command, tmp_path: Path) -> None:
    runs = ("--runs-dir", tmp_path)
    spoilt = gymnast("train", "CartPole-v1", "--set", "algo.learning_rate=1.0", "--steps", "20480", *runs)
    assert spoilt.code == 0, spoilt.err
    (folder,) = tmp_path.iterdir()
    alerts = read_alerts(folder / "alerts.json")
    assert alerts
    assert [alert.urgency for alert in alerts] == sorted(alert.urgency for alert in alerts)

    # while it trains: a line each; a cause is explained once
    lines = [line for line in spoilt.out.splitlines() if line.startswith("! ")]
    assert len(lines) == len(alerts)
    assert "".join(lines).count("usual for CartPole-v1 is lin_0.003") == 1
    # at the end: how often, why, and what to try
    first = alerts[0]
    end = " ".join(spoilt.out.partition("NOT SOLVED")[2].replace("│", " ").split())
    assert f"{first.rule} {first.message}" in end
    assert f"{first.count} row" in end
    assert f"cause {first.cause}" in end
    assert (
        first.command
        == "gymnast train CartPole-v1 --set train.total_timesteps=20480 --set algo.learning_rate=lin_0.003"
    )
    assert f"try {first.command}" in end

    # later: the same
    shown = gymnast("runs", "show", "@last", *runs)
    assert f"{first.rule}  {first.message}" in shown.out
    as_data = gymnast("runs", "show", "@last", "--json", *runs).json["alerts"]
    assert as_data == [alert.to_json() for alert in alerts]

    mended = gymnast(*shlex.split(first.command)[1:], "--quiet", "--json", *runs)
    assert mended.code == 0, mended.err
    assert mended.json["alerts"] == []
