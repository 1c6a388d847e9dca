"""A Doom process: how it is configured, started and ended.

ViZDoom runs every game in a process of its own. That process would outlive a parent that is killed, end with a Ctrl-C
that is meant for the run, write its settings into the working directory, and print into the output of the command. A
few lines that are executed before it prevent all of that.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError
from gymnast.envs.suites.vizdoom import match
from gymnast.envs.suites.vizdoom.task import MAX_TICS, DoomTask

PROGRAM = "start"
START_SECONDS = 5.0  # until a process has said its number
# prctl(PR_SET_PDEATHSIG, SIGKILL): Linux ends it with whoever started it, however that one ends
START = """#!{python} -IS
import ctypes, os, sys
os.setpgid(0, 0)
os.chdir(os.path.dirname(sys.argv[sys.argv.index("-config") + 1].strip('"')))
open("pid", "w").write(str(os.getpid()))
for stream in (1, 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
os.execv({doom!r}, [{doom!r}, *sys.argv[1:]])
"""


class DoomProcess:
    """A configured `game` (vizdoom.DoomGame) that is not running yet, and the folder that its process works in.

    `scenario`: what the id is registered with. `limit`: of tics, instead of the scenario's.
    """

    def __init__(self, scenario: Mapping[str, Any], task: DoomTask, limit: int | None, colour: bool) -> None:
        import vizdoom

        self.game: Any = vizdoom.DoomGame()
        # what the engine raises when its process is gone
        self.failures: tuple[type[Exception], ...] = (
            vizdoom.ViZDoomErrorException,
            vizdoom.ViZDoomIsNotRunningException,
            vizdoom.ViZDoomUnexpectedExitException,
            vizdoom.MessageQueueException,
            vizdoom.SharedMemoryException,
        )
        try:
            self.game.load_config(os.path.join(vizdoom.scenarios_path, scenario["scenario_config_file"]))
        except vizdoom.FileDoesNotExistException as error:
            raise UserError(f"env.id: {' '.join(str(error).split())}") from error
        game = self.game
        if "doom_map" in scenario:
            game.set_doom_map(scenario["doom_map"])
        if skill := task.doom_skill or scenario.get("doom_skill"):
            game.set_doom_skill(skill)
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_audio_buffer_enabled(False)  # waits for ever where there is no sound card
        game.set_notifications_buffer_enabled(False)
        game.set_automap_buffer_enabled(False)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24 if colour else vizdoom.ScreenFormat.GRAY8)
        game.set_screen_resolution(getattr(vizdoom.ScreenResolution, f"RES_{task.resolution.upper()}"))
        game.set_depth_buffer_enabled(task.depth)
        game.set_labels_buffer_enabled(task.labels)
        if task.hud is not None:
            game.set_render_hud(task.hud)
        game.set_episode_timeout(limit or game.get_episode_timeout() or MAX_TICS)
        self.connection: str | None = None  # of a match: who hosts, who joins
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._missing = _missing_game(game)
        self._program = str(Path(_starter().name, PROGRAM))

    def use(self, buttons: Sequence[str], variables: Sequence[str]) -> None:
        """What of the engine is pressed and read, in this order."""
        import vizdoom

        self.game.set_available_buttons([getattr(vizdoom.Button, name) for name in buttons])
        self.game.set_available_game_variables([getattr(vizdoom.GameVariable, name) for name in variables])

    def start(self) -> None:
        import vizdoom

        if self._missing:
            raise UserError(self._missing)
        self._folder = tempfile.TemporaryDirectory(prefix="gymnast-doom-", ignore_cleanup_errors=True)
        self.game.set_vizdoom_path(self._program)
        self.game.set_doom_config_path(str(Path(self._folder.name, "doom.ini")))
        self.game.clear_game_args()
        if self.connection is not None:
            shutil.copy(Path(vizdoom.root_path, match.BOTS), self._folder.name)
            self.game.add_game_args(f"{self.connection} {match.RULES}")
        self.game.init()

    @property
    def pid_file(self) -> Path:
        """Has the number of the process that runs."""
        assert self._folder is not None
        return Path(self._folder.name, "pid")

    @property
    def is_there(self) -> bool:
        """Whether the process has begun."""
        return self._folder is not None and self.pid_file.exists()

    def kill(self) -> None:
        """From another thread than that of the game, which may be waiting for the process."""
        deadline = time.monotonic() + START_SECONDS
        while self._folder is not None and time.monotonic() < deadline:
            with suppress(OSError, ValueError):  # it has not said its number yet, or is gone already
                os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
                return
            time.sleep(0.01)

    def close(self) -> None:
        self.game.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@cache
def _starter() -> tempfile.TemporaryDirectory[str]:
    """The folder of the program that starts Doom. It is written once: a program that is executed just after it was
    written is refused ("text file busy") if another thread started a process in between."""
    import vizdoom

    folder = tempfile.TemporaryDirectory(prefix="gymnast-doom-", ignore_cleanup_errors=True)
    program = Path(folder.name, PROGRAM)
    program.write_text(START.format(python=sys.executable, doom=vizdoom.exe_path))
    program.chmod(0o700)
    return folder


def _missing_game(game: Any) -> str | None:
    """What to bring, where the game itself is not there: Doom is sold, Freedoom is in the package."""
    import vizdoom

    wanted = Path(game.get_doom_game_path())
    if wanted.exists() or Path(vizdoom.root_path, wanted.name).exists():  # the engine looks in both
        return None
    free = "VizdoomFreedoom2MAP01-S1-v0" if "2" in wanted.name else "VizdoomFreedoom1E1M1-S1-v0"
    return (
        f"env.id: needs {wanted.name}, the game itself, which is sold. Put it into {vizdoom.root_path}, or play "
        f"Freedoom: {free}."
    )
