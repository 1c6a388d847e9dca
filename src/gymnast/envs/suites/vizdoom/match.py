"""A deathmatch: several players in one game, who come back after they die. What each of them kills is the score.

The map of the scenario has no places for other players, so that a match is fought on the small map of the package's
own competition, where everybody has a rocket launcher. The buttons stay those of the scenario.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Event
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError

if TYPE_CHECKING:
    from gymnast.envs.suites.vizdoom.env import DoomEnv

SCENARIO = "deathmatch.cfg"
MAP_FILE, MAP = "cig.wad", "map01"
BOTS = "bots.cfg"  # names and skills of the package's bots
RULES = (
    "-deathmatch +sv_forcerespawn 1 +sv_respawnprotect 1 +sv_spawnfarthest 1 +viz_respawn_delay 1 "
    f"+viz_bots_path {BOTS}"  # in the folder that the process works in: the engine takes no spaces in a path
)
# One player of this kind: the engine opens no connection at all, and no port
ALONE = "-host 1"


def prepare(game: Any, scenario: Mapping[str, Any]) -> None:
    """Has a game that is not running fight on the map of a match."""
    import vizdoom

    if scenario["scenario_config_file"] != SCENARIO:
        raise UserError(
            "env.id: only VizdoomDeathmatch-v1 has a map for bots (env.kwargs.bots) or another player. Use that env."
        )
    game.set_doom_scenario_path(os.path.join(vizdoom.scenarios_path, MAP_FILE))
    game.set_doom_map(MAP)


def is_won(game: Any, frags: float) -> bool:
    """Whether the player has more frags than anybody else."""
    state, own = game.get_server_state(), int(game.get_game_variable(_player_number()))
    others = [
        count
        for number, (is_there, count) in enumerate(zip(state.players_in_game, state.players_frags, strict=True))
        if is_there and number != own
    ]
    return frags > max(others, default=0)


def _player_number() -> Any:
    import vizdoom

    return vizdoom.GameVariable.PLAYER_NUMBER


class Link:
    """Between two envs that play one match, in two threads: both make the same tics, one by one, at the same time.

    Engines that make several tics at once get stuck sooner or later: the guest's adapts its clock to the host's.
    """

    def __init__(self, host: DoomEnv, guest: DoomEnv) -> None:
        self._host, self._guest, self._tics = host, guest, 0
        self._gate = Barrier(2)
        self._guest_starts = Event()  # its last game is closed
        self._is_cut = False

    def tics(self, env: DoomEnv, wanted: int) -> int:
        """How many a step has: as many as the host wants."""
        if env is self._host:
            self._tics = wanted
        self.meet()
        return self._tics

    def meet(self) -> None:
        """Waits for the other one. If that one is gone, the own process is being killed: its game will notice, and
        must, before it can be closed."""
        with suppress(BrokenBarrierError):
            self._gate.wait()

    def start(self, env: DoomEnv) -> None:
        """Before the process of an env is started. The host's comes second: two threads that fork at the same time can
        block each other for ever, in handlers that libraries of linear algebra bring."""
        if env is self._guest:
            self._is_cut = False
            self._guest_starts.set()
            return
        self._guest_starts.wait()
        self._guest_starts.clear()
        self._gate.reset()
        while not self._guest.has_process:
            if self._is_cut:
                raise EnvFailure("the other player did not start.")
            time.sleep(0.01)

    def cut(self) -> None:
        """Nobody waits any longer."""
        self._is_cut = True
        self._guest_starts.set()
        self._gate.abort()


def connect(host: DoomEnv, guest: DoomEnv) -> Callable[[], None]:
    """Two envs play one match from their next episodes on. Their engines wait for each other in every tic. Returns what
    ends both, wherever they are."""
    link, port = Link(host, guest), free_port()
    host.join_match(f"-host 2 -port {port}", link)
    guest.join_match(f"-join 127.0.0.1:{port}", link)
    guest.game.set_episode_timeout(0)  # the host's time limit ends the match

    def end() -> None:
        link.cut()
        host.kill()
        guest.kill()

    return end


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
