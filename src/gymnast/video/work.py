"""Videos in a worker: an agent's tensors go there, a file is written, and its episode's score comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.play.episode import play_episodes
from gymnast.play.player import command_seed
from gymnast.play.stage import Stage
from gymnast.runs.saved_agent import SavedAgent
from gymnast.video.writer import VideoWriter

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


def make_videos(channel: Channel, config: dict[str, Any]) -> None:
    checked = configs.validate(config)
    stage = Stage(checked, 1)
    saved = SavedAgent.build(checked, stage.engine)
    labels = stage.labels(saved.agent)
    seed, greedy = command_seed(checked.train.seed), checked.stop.judge == "greedy"
    channel.ready()
    for job, tensors in channel:
        saved.load(tensors)
        about = {"step": job["step"], "policy": checked.stop.judge, "seed": seed}
        with VideoWriter(Path(job["path"])) as video:
            (episode,) = video.add(play_episodes(saved.net, stage, seed, greedy), stage.fps, labels, about)
        channel.result({"return": episode["return"], "length": episode["length"]})
