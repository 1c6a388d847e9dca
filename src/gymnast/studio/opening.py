"""What a session opens: a run's agent in the env of its scores, or an env alone. Runs in the session's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.trust import allow
from gymnast.envs.suites import suite_of
from gymnast.play.game import Game
from gymnast.play.opponent import Opponent
from gymnast.runs import checkpoint
from gymnast.runs.references import Run
from gymnast.runs.saved_agent import SavedAgent
from gymnast.studio.allowed import checkpoint_inside
from gymnast.verbs.train import resolve_config

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.config import RunConfig


class Opened:
    """The config, the env and the agents of a session. `ref`: RUN or RUN@CHECKPOINT; `env`: ENV or ENV:VARIANT.

    `against`: who plays against it in the same game, a run's agent or random actions; None: nobody. `trust`: what the
    runs name is imported, wherever they were made.
    """

    def __init__(
        self,
        runs_dir: Path,
        ref: str | None,
        env: str | None,
        changes: Mapping[str, Any],
        against: str | None = None,
        trust: bool = False,
    ) -> None:
        overrides = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
        self.runs_dir = runs_dir
        for named in {ref, against} - {None, "random"} if trust else ():
            allow(checkpoint_inside(runs_dir, str(named))[1])
        self.run: Run | None = None
        self.checkpoint: str | None = None
        self._paths: dict[str, Path] = {}
        if ref is not None:
            self.run, path = checkpoint_inside(runs_dir, ref)
            self._paths = {path.stem: path for path in self.run.checkpoints()}
            self.checkpoint = path.stem
            saved = checkpoint.load(path)
            saved.require_env()
            self.config: RunConfig = configs.override(saved.in_stage(), ["stop.target=null", *overrides])
        elif env is not None:
            if env.split(":")[0].endswith((".yaml", ".yml")):
                raise UserError(f"env {env!r}: name an env, as in CartPole-v1 or CartPole-v1:ppo, not a file.")
            self.config = for_people(resolve_config(env, overrides).config, changes)
        else:
            raise UserError("open: give ref (a run) or env (an environment).")
        self.game = Game(self.config)
        self.against = against
        if against is not None:
            self.game.opponent = self._opponent(against)
        self.untrained: Net = SavedAgent.build(self.config, self.game.vec).net
        self._nets: dict[str, Net] = {}

    def _opponent(self, against: str) -> Opponent:
        if against == "random":
            return Opponent(self.game, Game(self.config, pictures=False), None)
        saved = checkpoint.load(checkpoint_inside(self.runs_dir, against)[1])
        saved.require_env()
        config = configs.override(saved.in_stage(), ["stop.target=null"])
        own = Game(config, pictures=False)
        return Opponent(self.game, own, SavedAgent.build(config, own.vec, saved.agent).net)

    @property
    def checkpoints(self) -> list[str]:
        return list(self._paths)

    def agent(self, name: str | None) -> Net | None:
        """Of a checkpoint; None: of the one that was opened, if it was one."""
        name = name or self.checkpoint
        if name is None:
            return None
        if name not in self._paths:
            raise UserError(f"checkpoint {name!r}: the run has {', '.join(self._paths) or 'none'}.")
        if name not in self._nets:
            tensors = checkpoint.load(self._paths[name]).agent
            self._nets[name] = SavedAgent.build(self.config, self.game.vec, tensors).net
        return self._nets[name]


def for_people(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """An env for somebody who plays without a trained agent, unless the setting was asked for."""
    own = suite_of(config.env.id).for_people(config.env.kwargs)
    wanted = {f"env.kwargs.{name}": value for name, value in own.items()}
    settings = [f"{key}={json.dumps(value)}" for key, value in wanted.items() if key not in changes]
    return configs.override(config, settings) if settings else config
