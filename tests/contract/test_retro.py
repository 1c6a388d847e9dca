"""Console games: the package's own env frame by frame, Airstriker, and a double of Super Mario Bros (`tests/mario.py`)
that runs in the real emulator with the real integration."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast import config as configs
from gymnast.config import EnvConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.make import choose_engine, make_env, make_vec
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites import suite_of
from gymnast.envs.suites.retro.console import Console
from gymnast.envs.suites.retro.referee import Referee
from gymnast.envs.suites.retro.task import RetroTask
from gymnast.envs.types import LEARNER_END
from gymnast.metrics.meter import Meter
from gymnast.verbs.envs.import_rom import import_rom
from tests import mario
from tests.processes import wait_for

retro = pytest.importorskip("stable_retro")
AIRSTRIKER, MARIO = "Retro/Airstriker-Genesis", "Retro/SuperMarioBros-Nes"
WALK = ["NOOP", "RIGHT", "RIGHT+A", "LEFT"]


@pytest.fixture(scope="module")
def cartridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("retro")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GYMNAST_RETRO", str(folder))
        mario.install(folder)
        yield folder


@pytest.fixture
def made() -> Iterator[Any]:
    envs: list[gym.Env[Any, Any]] = []

    def make(env_id: str = MARIO, role: Any = "train", shaping: dict[str, float] | None = None, **kwargs: Any) -> Any:
        if env_id == MARIO:
            kwargs = {"actions": WALK, "score": "win", **kwargs}
        env = make_env(EnvConfig(id=env_id, kwargs=kwargs, shaping=shaping or {}), role)
        envs.append(env)
        return env

    yield make
    for env in envs:
        env.close()


def played(env: gym.Env[Any, Any], actions: list[int], seed: int = 0) -> list[tuple[Any, ...]]:
    """Until the actions or the episode end."""
    steps: list[tuple[Any, ...]] = [env.reset(seed=seed)]
    for action in actions:
        steps.append(env.step(action))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


NOOP, RIGHT, JUMP, LEFT = range(4)


def position(step: tuple[Any, ...]) -> int:
    return int(step[-1]["xscrollHi"]) * 256 + int(step[-1]["xscrollLo"])


def test_frames_are_those_of_the_package(made: Any) -> None:
    """A frame a step, every combination of buttons: pictures, rewards, ends and variables of its own env."""
    ours = made(AIRSTRIKER, "eval", frame_skip=1, life_loss="go_on")
    game = ours.unwrapped
    shooting = [game.get_action_meanings().index(label) for label in ("NOOP", "LEFT", "RIGHT", "B")]
    luck = np.random.default_rng(0)
    actions = [*luck.integers(len(game.combos), size=60).tolist(), *luck.choice(shooting, 150).repeat(4).tolist()]
    ours.reset(seed=0)
    seen = []
    for action in actions:
        _, reward, over, _, info = ours.step(action)
        seen.append((game.console.screen.sum(), reward, over, {name: info[name] for name in ("lives", "score")}))
    combos, buttons = game.combos, len(game.console.buttons)
    ours.close()
    theirs = retro.RetroEnv(
        "Airstriker-Genesis-v0", render_mode="rgb_array", use_restricted_actions=retro.Actions.FILTERED
    )
    theirs.reset()
    for action, (screen, reward, over, info) in zip(actions, seen, strict=True):
        bits = np.array([combos[action] >> bit & 1 for bit in range(buttons)], np.int8)
        assert theirs.get_action_meaning(bits) == [
            theirs.buttons[bit] for bit in range(buttons) if combos[action] >> bit & 1
        ]  # and it filters nothing out of ours
        image, paid, done, _, variables = theirs.step(bits)
        assert (image.sum(), paid, done) == (screen, reward, over)
        assert {name: variables[name] for name in info} == info
    theirs.close()
    assert sum(step[1] for step in seen) > 0, "something was hit"


def test_combinations_of_buttons(made: Any) -> None:
    """Opposite directions are never built; a button that is not there is named."""
    labels = made(AIRSTRIKER).unwrapped.get_action_meanings()
    assert len(labels) == len(set(labels)) == 3 * 3 * 14
    assert not any({"LEFT", "RIGHT"} <= set(one.split("+")) or {"UP", "DOWN"} <= set(one.split("+")) for one in labels)
    assert {"NOOP", "UP+LEFT", "RIGHT+B"} <= set(labels)
    with pytest.raises(UserError, match=r"actions = .*'LEFT\+RIGHT' cannot be pressed: it has opposite directions"):
        made(AIRSTRIKER, actions=["NOOP", "LEFT+RIGHT"])
    with pytest.raises(
        UserError, match=r"actions: 'RIGHT\+JUMP': this console has no button 'JUMP'.* Known: B, A, MODE"
    ):
        made(AIRSTRIKER, actions=["RIGHT+JUMP"])


def test_labels_say_what_the_buttons_do(cartridge: Path, made: Any) -> None:
    """RIGHT goes two pixels a frame, RIGHT+A over the hole at 96; nothing else moves."""
    env = made()
    assert env.unwrapped.get_action_meanings() == WALK
    assert position(played(env, [RIGHT] * 5)[-1]) == 5 * 4 * 2
    assert position(played(env, [NOOP, LEFT] * 3)[-1]) == 0
    assert position(played(env, [JUMP] * 20)[-1]) == 20 * 4 * 2


def seen_after(made: Any, frames: int, **kwargs: Any) -> int:
    """The brightness of the last picture, after so many frames to the right."""
    return int(played(made(frame_skip=1, **kwargs), [RIGHT] * frames)[-1][0][-1, 40, 40])


def test_pictures(cartridge: Path, made: Any) -> None:
    """Grey by the weights of an eye, red green and blue as they are, the brighter of two frames, any size and crop."""
    sizes = {"screen_size": [30, 40], "crop_rows": [20, 200], "stack": 2}
    for observation, channels in (("grey", 1), ("rgb", 3)):
        env = made(observation=observation, **sizes)
        shown = played(env, [RIGHT] * 7)[-1][0]
        assert shown.shape == env.observation_space.shape == (2 * channels, 30, 40)
        # 7 decisions of 4 frames: at 56, where the frame before was at 54; every 16 pixels are one colour
        red, green, blue = env.unwrapped.console.screen[100, 100].astype(int)
        grey = (77 * red + 150 * green + 29 * blue + 128) >> 8
        expected = [red, green, blue] if channels == 3 else [grey]
        assert [shown[-channels + one, 15, 20] for one in range(channels)] == expected
        env.close()
    # from 30 to 32 the colour changes: with frame skip 1 the brighter of both frames is seen, or the last one
    before, after = (seen_after(made, n, max_pool=False) for n in (15, 16))
    assert before != after
    assert seen_after(made, 16, max_pool=True) == max(before, after)
    with pytest.raises(UserError, match=r"crop_rows = \[20, 300\]: the screen has 224 rows"):
        made(crop_rows=[20, 300])


def test_frame_skips(cartridge: Path, made: Any) -> None:
    """Fixed, varying, late and sticky; and all of it in training alone, where the config says so."""
    assert position(played(made(frame_skip=1), [RIGHT] * 6)[-1]) == 12
    varying = [position(step) for step in played(made(frame_skip=[1, 6]), [JUMP] * 25)[1:]]
    moved = np.diff([0, *varying])
    assert set(moved) <= {2, 4, 6, 8, 10, 12}
    assert len(set(moved)) > 3
    assert varying == [position(step) for step in played(made(frame_skip=[1, 6]), [JUMP] * 25)[1:]]
    assert varying != [position(step) for step in played(made(frame_skip=[1, 6]), [JUMP] * 25, seed=1)[1:]]
    # the first frame of the first RIGHT still has nothing pressed, that of the NOOP after it still RIGHT
    late = made(late_action_probability=1.0)
    assert [position(step) for step in played(late, [RIGHT, RIGHT, NOOP, NOOP])[1:]] == [6, 14, 16, 16]
    assert position(played(made(repeat_action_probability=1.0), [RIGHT] * 5)[-1]) == 0  # nothing was held at first
    training = {"frame_skip": [1, 2], "repeat_action_probability": 0.5}
    assert position(played(made(role="eval", training=training), [RIGHT] * 5)[-1]) == 40
    assert position(played(made(training=training), [RIGHT] * 5)[-1]) < 20


def digest(env: Any, seed: int) -> bytes:
    """Of all that one game shows, with the same buttons as the others."""
    luck = np.random.default_rng(0)
    steps = played(env, luck.integers(env.action_space.n, size=60).tolist(), seed)
    return hashlib.sha256(b"".join(step[0].tobytes() for step in steps)).digest()


@pytest.mark.parametrize(
    "chances,least",
    [({}, 1), ({"noop_max": 30}, 5), ({"repeat_action_probability": 0.25}, 8), (None, 8)],
    ids=["neither", "idle frames", "sticky buttons", "the preset"],
)
def test_seeds_make_other_games(made: Any, chances: dict[str, Any] | None, least: int) -> None:
    """An emulator draws no numbers: without chance in the task all seeds are one game. The same seed stays the same,
    in evaluation as in training."""
    preset = configs.load(AIRSTRIKER).config.env.kwargs
    assert {"noop_max", "repeat_action_probability"} <= preset.keys()
    kwargs = preset | ({} if chances is None else {"noop_max": 0, "repeat_action_probability": 0.0} | chances)
    env, other = made(AIRSTRIKER, "eval", **kwargs), made(AIRSTRIKER, "train", **kwargs)
    games = [digest(env, seed) for seed in range(8)]
    assert len(set(games)) == 1 if least == 1 else len(set(games)) >= least
    assert [digest(other, seed) for seed in (0, 5)] == [games[0], games[5]]


def test_idle_frames(cartridge: Path, made: Any) -> None:
    """They are no frames of the episode, and the game's clock says how many they were."""
    env = made(noop_max=30)
    clocks = set()
    for seed in range(12):
        _, info = env.reset(seed=seed)
        clocks.add(int(info["time"]))
        assert recorder_of(env).frames == 0
    assert len(clocks) > 1  # a tick takes 24 frames


def test_savestates(cartridge: Path, made: Any) -> None:
    """One by name; of several each episode draws one, by its seed."""
    assert made(state="Level2-1").reset(seed=0)[1]["levelHi"] == 1
    env = made(state=["Level1-1", "Level3-1"])
    drawn = [env.reset(seed=seed)[1]["levelHi"] for seed in range(20)]
    assert set(drawn) == {0, 2}
    assert drawn == [env.reset(seed=seed)[1]["levelHi"] for seed in range(20)]
    with pytest.raises(UserError, match=r"state = Level1-9: .* has no such savestate. Did you mean .*Known: Level1-1"):
        made(state="Level1-9")


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"cut" * 99)[:20], gzip.compress(b"of another emulator")],
    ids=["no gzip", "cut", "of another emulator"],  # gzip writes the time: every process would give other ids
)
def test_a_file_that_is_no_savestate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Any, content: bytes
) -> None:
    """The emulator alone would ignore it, and the game would start as if it had just been switched on."""
    monkeypatch.setenv("GYMNAST_RETRO", str(tmp_path))
    (tmp_path / "Airstriker-Genesis-v0").mkdir()
    (tmp_path / "Airstriker-Genesis-v0" / "mine.state").write_bytes(content)
    with pytest.raises(UserError, match=r"^env.kwargs: state = mine: .* is no savestate of this emulator"):
        made(AIRSTRIKER, state="mine")


def test_a_level_that_is_won_and_a_life_that_is_lost_end_the_episode(cartridge: Path, made: Any) -> None:
    """The score is 1 for a win. What is paid in 160 frames to 320: 318 of progress (at 320 another level begins), 6
    ticks of 24 frames, one level, 1,000 points."""
    weights = {"progress": 1.0, "time": 0.1, "death": 25.0, "level": 50.0, "points": 0.025}
    env = made(shaping=weights)
    steps = played(env, [JUMP] * 60)
    record = recorder_of(env)
    assert len(steps) - 1 == 40
    assert steps[-1][2:4] == (True, False)
    assert (record.raw_return, record.frames) == (1.0, 160)
    assert record.components == {
        "env": 1.0,
        "progress": 318.0,
        "time": -0.6,
        "death": 0.0,
        "level": 50.0,
        "points": 25.0,
    }
    assert record.shaped_return == pytest.approx(sum(record.components.values()))
    assert sum(step[1] for step in steps[1:]) == pytest.approx(record.shaped_return)
    assert steps[-1][-1]["is_success"] is True
    # into the hole at 96: 94 of progress, 2 ticks, a life
    steps = played(env, [RIGHT] * 60)
    assert (steps[-1][2], len(steps) - 1, record.raw_return) == (True, 12, 0.0)
    assert record.components == {
        "env": 0.0,
        "progress": 94.0,
        "time": -0.2,
        "death": -25.0,
        "level": 0.0,
        "points": 0.0,
    }
    assert steps[-1][-1]["is_success"] is False
    scored = made(shaping=weights, role="eval")  # scores and rewards are the env's own, the parts are shown
    steps = played(scored, [JUMP] * 60)
    assert sum(step[1] for step in steps[1:]) == 1.0
    assert recorder_of(scored).components["progress"] == 318.0
    assert recorder_of(scored).shaped_return is None


def test_time_that_is_exchanged_for_points_costs_nothing() -> None:
    """As Mario does it behind the flag: 300 ticks in 300 frames, 5 points each. Before it a tick costs 1, also one in
    the frame of a coin."""
    task = RetroTask().of_game("SuperMarioBros-Nes-v0")
    now = {"xscrollHi": 0, "xscrollLo": 0, "levelHi": 0, "levelLo": 0, "lives": 2, "time": 302, "score": 0}
    referee = Referee(task, list(now))
    referee.start(now)

    def paid(**changes: int) -> float:
        now.update(changes)
        referee.follow(now, 0.0)
        return referee.parts["time"]

    assert [paid(time=301), paid(), paid(time=300, score=20), paid()] == [-1, 0, -1, 0]
    assert sum(paid(time=299 - tick, score=25 + 5 * tick) for tick in range(300)) == -1  # the first cannot be known
    assert paid(levelLo=1, time=400) == 0
    assert [paid(time=399), paid(time=398)] == [-1, -1]  # without points it is time


def test_other_ends(cartridge: Path, made: Any) -> None:
    # 40 frames of 60 without a step forward end it, as a time limit does
    steps = played(made(no_progress=60), [JUMP] * 5 + [LEFT] * 60)
    assert len(steps) - 1 == 5 + 15
    assert steps[-1][2:4] == (False, True)
    # a life: goes on, as an end for the learner only in training, and the game is over without any
    going = played(made(life_loss="go_on"), [RIGHT] * 60)
    assert [step[-1]["lives"] for step in (going[0], going[-1])] == [2, -1]
    assert len(going) - 1 == 3 * 12
    learner = made(life_loss="learner")
    assert learner.metadata[LEARNER_END]
    assert [n for n, step in enumerate(played(learner, [RIGHT] * 60)[1:], 1) if step[-1][LEARNER_END]] == [12, 24]
    assert not made(life_loss="learner", role="eval").metadata[LEARNER_END]
    # levels: two are won in 81 decisions
    long = made(level_end=False)
    played(long, [JUMP] * 85)
    assert recorder_of(long).raw_return == 2.0


def test_a_game_without_known_variables_needs_them(made: Any) -> None:
    with pytest.raises(UserError, match=r"score = win: needs variables\.level"):
        made(AIRSTRIKER, score="win")
    with pytest.raises(
        UserError, match=r"variables.position: this game has no variable 'x'. Known: gameover, lives, score"
    ):
        made(AIRSTRIKER, variables={"position": ["x"]})
    suite = suite_of(AIRSTRIKER)
    assert list(suite.shaping_parts(AIRSTRIKER, {})) == ["time", "death", "points"]
    assert list(suite.shaping_parts(MARIO, {})) == ["progress", "time", "death", "level", "points"]


def test_games_of_one_process_take_turns(cartridge: Path, made: Any) -> None:
    """Two of one game and one of another, step by step in turn, are what they are alone."""
    actions = np.random.default_rng(0).integers(3, size=4).tolist()
    three = [made(shaping={"progress": 1.0}, life_loss="go_on"), made(state="Level2-1"), made(AIRSTRIKER)]
    alone = []
    for env in three:
        alone.append(played(env, actions))
    for seed, env in enumerate(three):
        env.reset(seed=seed)
    for number, action in enumerate(actions, 1):
        for env, expected in zip(three, alone, strict=True):
            if number >= len(expected):
                continue
            observation, *rest = env.step(action)
            np.testing.assert_array_equal(observation, expected[number][0])
            assert rest == list(expected[number][1:])
    for env in three:
        env.close()
    assert Console._env is None  # the last one switched it off


@pytest.mark.timeout(300)
def test_every_env_has_a_process_of_its_own(cartridge: Path) -> None:
    """The engine enforces it, and a worker that is killed ends in one line, with no process left."""
    cfg = EnvConfig(id=MARIO, kwargs={"actions": WALK, "score": "win"}, shaping={"progress": 1.0})
    assert choose_engine(cfg, 3)[0] == "process"
    with pytest.raises(UserError, match=r"env.engine: sync cannot run this env: a process may hold one"):
        choose_engine(cfg.model_copy(update={"engine": "sync"}), 3)
    vec: Any = make_vec(cfg, 3, "train")
    vec.reset(0)
    records = []
    for _ in range(40):
        batch = vec.step(np.array([JUMP, RIGHT, JUMP]))
        records += batch.episodes
    assert [(one.env, one.raw_return, one.success) for one in records] == [
        *((1, 0.0, False),) * 3,
        (0, 1.0, True),
        (2, 1.0, True),
    ]
    meter = Meter()
    meter.episodes(records)
    row = meter.row()
    assert row["rollout/success_rate"] == row["rollout/ep_rew_mean"] == 0.4
    assert row["rollout/component/progress"] == pytest.approx((3 * 94 + 2 * 318) / 5)
    # in the middle of episodes: put back, and the same from there
    vec.step(np.array([JUMP, JUMP, RIGHT]))
    state, after = vec.save_state(), []
    for again in (False, True):
        if again:
            vec.load_state(state)
        steps = [vec.step(np.array([JUMP, NOOP, JUMP])).obs["obs"].copy() for _ in range(14)]
        after.append(np.stack(steps))
    np.testing.assert_array_equal(*after)
    pids = [process.pid for process in vec._processes]
    assert len(set(pids)) == 3
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(EnvFailure, match=r"Retro/SuperMarioBros-Nes: the worker of envs 1 to 1 .* killed"):
        vec.step(np.zeros(3, np.int64))
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the workers' end")


@pytest.mark.timeout(300)
def test_branches(cartridge: Path) -> None:
    from tests.contract.test_branching import check_that_branches_go_on, session_of

    session = session_of(MARIO, "env.kwargs.repeat_action_probability=0.2")
    assert session.game.has_copies
    check_that_branches_go_on(session)
    session.close()


def test_import_of_roms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known by the hash, whatever the file is called; in an archive too; what is not known stays where it is."""
    free = Path(retro.data.get_romfile_path("Airstriker-Genesis-v0"))
    roms, into = tmp_path / "roms", tmp_path / "mine"
    (roms / "deep").mkdir(parents=True)
    shutil.copy(free, roms / "deep" / "whatever.bin")
    (roms / "notes.txt").write_text("not a ROM")
    with zipfile.ZipFile(roms / "old.zip", "w") as archive:
        archive.write(free, "inside.md")
    monkeypatch.setenv("GYMNAST_RETRO", str(into))
    monkeypatch.setattr("gymnast.envs.suites.retro.roms.has_rom", lambda game: (into / game).exists())
    found = {row["file"]: (row["env"], row["status"]) for row in import_rom(roms).data["files"]}
    assert found == {
        "deep/whatever.bin": (AIRSTRIKER, "imported"),
        "notes.txt": (None, "unknown"),
        "old.zip": (None, "unknown"),
        "old.zip: inside.md": (AIRSTRIKER, "imported"),
    }
    assert (into / "Airstriker-Genesis-v0" / "rom.md").read_bytes() == free.read_bytes()
    assert {row["status"] for row in import_rom(roms / "deep").data["files"]} == {"imported already"}
    with pytest.raises(UserError, match=r"import-rom: .*nowhere is not a folder"):
        import_rom(tmp_path / "nowhere")


def test_import_of_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged, encrypted or packed in an unknown way: a line each, and the ROMs after them are found."""
    monkeypatch.setenv("GYMNAST_RETRO", str(tmp_path / "mine"))
    roms = tmp_path / "roms"
    roms.mkdir()
    whole = roms / "WHOLE.ZIP"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(retro.data.get_romfile_path("Airstriker-Genesis-v0"), "rom.md")
    index = whole.read_bytes().find(b"PK\x01\x02")  # what the archive lists of its only file
    changes = {"damaged": {200: 0, 201: 0, 202: 0}, "secret": {6: 1, index + 8: 1}, "packed": {8: 97, index + 10: 97}}
    for name, bytes_of in changes.items():
        data = bytearray(whole.read_bytes())
        for place, value in bytes_of.items():
            data[place] = value
        (roms / f"{name}.zip").write_bytes(data)
    (roms / "no.zip").write_bytes(b"PK\x03\x04 and nothing more")
    with open(roms / "disc.iso", "wb") as file:
        file.truncate(2**33)  # 8 GB, none of which is read
    (roms / "locked.nes").write_bytes(b"NES")
    read = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == "locked.nes":
            raise PermissionError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    found = {row["file"]: row["status"] for row in import_rom(roms).data["files"]}
    archives = dict.fromkeys(("WHOLE.ZIP", "damaged.zip", "secret.zip", "packed.zip", "no.zip", "disc.iso"), "unknown")
    inside = dict.fromkeys(("damaged.zip: rom.md", "secret.zip: rom.md", "packed.zip: rom.md"), "unreadable")
    assert found == {
        **archives,
        **inside,
        "locked.nes": "unreadable",
        "WHOLE.ZIP: rom.md": "imported already",
    }


def test_without_the_rom_one_line_says_how_to_bring_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYMNAST_RETRO", str(tmp_path))
    with pytest.raises(
        UserError, match=r"^env.id: Retro/SuperMarioBros-Nes: its ROM .*`gymnast envs import-rom DIR`"
    ) as why:
        make_env(EnvConfig(id=MARIO))
    assert "\n" not in str(why.value)
    suite = suite_of(MARIO)
    assert suite.lacks(MARIO) == "gymnast envs import-rom DIR"
    assert suite.lacks(AIRSTRIKER) is None
