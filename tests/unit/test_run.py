"""Run folders: made whole by many processes at once, named by short references, locked while trained."""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.runs import archive
from gymnast.runs.archive import import_run, zip_run
from gymnast.runs.references import (
    Run,
    create_run,
    default_runs_dir,
    delete_run,
    list_runs,
    resolve,
    resolve_checkpoint,
)


def make(runs_dir: Path, env: str = "CartPole-v1", seed: int = 1, config: str = "", **summary: Any) -> Run:
    """A finished run."""
    run = create_run(
        runs_dir,
        env=env,
        variant="ppo",
        algo="ppo",
        seed=seed,
        config_yaml=config or f"algo:\n  name: ppo\ntrain:\n  seed: {seed}\n",
        command=["gymnast", "train", env],
        versions={"gymnast": "0.1.0"},
    )
    run.finish("finished", summary=summary)
    return run


def touch_checkpoint(run: Run, *names: str) -> None:
    for name in names:
        run.checkpoint_path(name).write_bytes(b"")


def make_in_other_process(runs_dir: str) -> list[str]:
    return [make(Path(runs_dir), seed=seed).id for seed in range(5)]


def python(code: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


START_AND_WAIT = """
    import sys, time
    from gymnast.runs.references import create_run
    facts = dict(env="CartPole-v1", algo="ppo", seed=1, config_yaml="")
    run = create_run(sys.argv[1], **facts)
    print(run.id, flush=True)
    time.sleep(60)
"""


def test_the_folder_is_whole_and_says_what_it_is(tmp_path: Path) -> None:
    run = create_run(
        tmp_path / "deep" / "runs",
        env="ALE/Pong-v5",
        variant="zoo",
        algo="ppo",
        seed=7,
        config_yaml="env:\n  id: ALE/Pong-v5\n",
        command=["gymnast", "train"],
        versions={"torch": "2.13"},
    )
    token, rest = run.id.split("-", 1)
    assert rest == "ale-pong-v5-ppo-s7"
    assert len(token) == 5
    assert token[0].isalpha()  # never a number
    assert not set(token) & set("aeioul015s")
    names = {path.name for path in run.path.iterdir()}
    assert names == {"run.json", "config.yaml", "checkpoints", "log.txt", "lock"}
    info = run.read()
    assert (info.env, info.variant, info.algo, info.seed) == ("ALE/Pong-v5", "zoo", "ppo", 7)
    assert (info.status, info.pid, info.versions) == ("running", os.getpid(), {"torch": "2.13"})
    assert run.config_path.read_text() == "env:\n  id: ALE/Pong-v5\n"
    assert [path.name for path in run.path.parent.iterdir()] == [run.id]  # no hidden leftovers


def test_a_run_whose_folder_cannot_be_made_complete_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gymnast.runs.folder.write_json", stops)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_update_merges_the_summary_and_refuses_unknown_fields(tmp_path: Path) -> None:
    run = make(tmp_path, score=1.5)
    run.update(summary={"env_steps": 10, "fps": float("nan")})
    summary = run.read().summary
    assert (summary["score"], summary["env_steps"]) == (1.5, 10)
    assert math.isnan(summary["fps"])
    with pytest.raises(TypeError, match="scor"):
        run.update(scor=3)
    json.loads((run.path / "run.json").read_text(), parse_constant=pytest.fail)  # strict JSON


def test_many_processes_create_runs_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(8, mp_context=get_context("spawn")) as pool:
        ids = [run for runs in pool.map(make_in_other_process, [str(tmp_path)] * 8) for run in runs]
    runs = list_runs(tmp_path)
    assert len(set(ids)) == 40
    assert {run.id for run in runs} == set(ids)
    assert runs.warnings == []
    assert len({run.token for run in runs}) == 40  # the token alone is a reference
    created = [run.created for run in runs]
    assert created == sorted(created, reverse=True)


def test_no_tag_is_lost_where_many_are_given_at_once(tmp_path: Path) -> None:
    """Each process waits for the others to be ready, and then gives ten tags one by one."""
    run = make(tmp_path)
    code = """
        import sys, time
        from pathlib import Path
        from gymnast.runs.references import Run
        from gymnast.verbs.runs.change import tag_runs
        run, name = Run(Path(sys.argv[1])), sys.argv[2]
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(10):
            tag_runs([run], [f"{name}{number}"])
    """
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(run.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abcd"
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.communicate("go\n", timeout=100)
    assert sorted(run.read().tags) == [f"{name}{number}" for name in "abcd" for number in range(10)]


def test_a_taken_token_is_not_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("bbbbb" + "bbbbb" + "ccccc")  # the second run draws the first one's token, then another
    monkeypatch.setattr("gymnast.runs.folder.secrets.choice", lambda _: next(letters))
    first, second = make(tmp_path, seed=1), make(tmp_path, seed=2)
    assert (first.id[:5], second.id[:5]) == ("bbbbb", "ccccc")


def test_broken_folders_become_warnings(tmp_path: Path) -> None:
    good = make(tmp_path)
    for name, content in {"half": '{"id": ', "list": "[]", "types": '{"pid": "x", "status": "running"}'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").touch()
    runs = list_runs(tmp_path)
    assert [run.id for run in runs] == [good.id]
    assert len(runs.warnings) == 3
    assert all("\n" not in line for line in runs.warnings)
    assert list_runs(tmp_path / "nowhere") == []


def test_a_killed_process_leaves_a_killed_run_that_can_be_trained_again(tmp_path: Path) -> None:
    with python(START_AND_WAIT, str(tmp_path)) as process:
        assert process.stdout is not None
        run = Run.open(tmp_path / process.stdout.readline().strip())
        assert run.read().status == "running"
        with pytest.raises(UserError, match="another process"):
            run.start()
        with pytest.raises(UserError, match="still being trained"):
            delete_run(run)
        process.send_signal(signal.SIGKILL)
    assert json.loads((run.path / "run.json").read_text())["status"] == "running"  # nobody could write anything else
    assert run.read().status == "killed"
    run.start()
    assert run.read().status == "running"
    with pytest.raises(UserError, match="another process"):
        Run.open(run.path).start()
    run.finish("interrupted")
    assert run.read().status == "interrupted"
    Run.open(run.path).start()


def test_a_worker_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = """
        import os, sys, time
        from gymnast.runs.references import create_run
        facts = dict(env="CartPole-v1", algo="ppo", seed=1, config_yaml="")
        run = create_run(sys.argv[1], **facts)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(run.id, child, flush=True)
        time.sleep(60)
    """
    with python(code, str(tmp_path)) as process:
        assert process.stdout is not None
        name, worker = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            os.kill(int(worker), 0)  # the worker still lives
            run = Run.open(tmp_path / name)
            assert run.read().status == "killed"
            run.start()
        finally:
            os.kill(int(worker), signal.SIGKILL)


def test_references(tmp_path: Path) -> None:
    pole_low = make(tmp_path, score=100.0)
    pole_high = make(tmp_path, score=500.0)
    lake = make(tmp_path, env="FrozenLake-v1", score=0.7)
    newest = make(tmp_path, env="CartPole-v1", score=float("nan"))
    touch_checkpoint(newest, "last")
    touch_checkpoint(pole_high, "best", "last", "step_9000", "step_20000")

    def named(ref: str) -> str:
        return resolve(ref, tmp_path).id

    assert named("@last") == newest.id
    assert named("@best") == pole_high.id  # of the newest run's env; NaN is no score
    assert named("@best:FrozenLake-v1") == lake.id
    assert named(pole_low.id) == named(pole_low.id[:5]) == named(str(pole_low.path)) == pole_low.id
    assert named(f"{pole_high.id[:5]}/step_20000") == pole_high.id

    def chosen(ref: str, prefer: str = "best") -> tuple[str, str]:
        run, path = resolve_checkpoint(ref, tmp_path, prefer=prefer)
        assert path.parent.parent.resolve() == run.path.resolve()
        return run.id, path.stem

    assert chosen("@best") == (pole_high.id, "best")
    assert chosen("@best", prefer="last") == (pole_high.id, "last")
    assert chosen("@best:CartPole-v1/step_9000") == (pole_high.id, "step_9000")
    assert chosen("@last") == (newest.id, "last")  # there is no best
    assert chosen(str(pole_high.checkpoint_path("step_20000"))) == (pole_high.id, "step_20000")
    assert chosen(f"{pole_high.path}/last") == (pole_high.id, "last")
    assert [path.stem for path in pole_high.checkpoints()] == ["best", "last", "step_9000", "step_20000"]


def test_relative_paths_are_references_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path / "runs")
    touch_checkpoint(run, "best")
    monkeypatch.chdir(run.checkpoints_dir)
    assert resolve_checkpoint("best.safetensors", "elsewhere")[0].id == run.id
    monkeypatch.chdir(tmp_path)
    assert resolve(f"runs/{run.id}", "elsewhere").id == run.id


def test_bad_references_say_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(ref: str) -> str:
        with pytest.raises(UserError) as caught:
            resolve_checkpoint(ref, tmp_path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert error("@last") == f"no runs yet in {tmp_path}: start one with `gymnast train CartPole-v1`."
    letters = iter("bcdfg" + "bcdfh")
    monkeypatch.setattr("gymnast.runs.folder.secrets.choice", lambda _: next(letters))
    first, second = make(tmp_path), make(tmp_path)
    assert first.id in error("bcdf")
    assert second.id in error("bcdf")
    assert "Did you mean 'bcdfg'" in error("bcdfgg")
    assert "@best:ENV" in error("@bst")
    assert "Did you mean 'CartPole-v1'" in error("@best:CartPol-v1")
    assert "no run of CartPole-v1 has a score yet" in error("@best")
    assert "no checkpoint yet" in error("bcdfg")
    touch_checkpoint(first, "last")
    assert "no checkpoint 'step_5'. It has: last." in error("bcdfg/step_5")
    (tmp_path / "stray.safetensors").touch()
    stray = tmp_path / "stray.safetensors"  # a model that was saved from Python, as far as its name says
    assert resolve_checkpoint(str(stray), tmp_path)[1] == stray
    with pytest.raises(UserError, match="not inside a run's folder"):
        resolve(str(stray), tmp_path)
    with pytest.raises(UserError, match=r"no run\.json"):
        Run.open(tmp_path)


def test_delete_only_ever_removes_a_run(tmp_path: Path) -> None:
    run, other = make(tmp_path), make(tmp_path)
    delete_run(run)
    assert [path.name for path in tmp_path.iterdir()] == [other.id]
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").touch()
    link = tmp_path / "link"
    link.symlink_to(other.path)
    for path in (precious, link):
        with pytest.raises(UserError, match="nothing was deleted"):
            delete_run(Run(path))
    assert (precious / "thesis.txt").exists()
    assert other.path.exists()


def test_zip_holds_everything_but_temporary_files(tmp_path: Path) -> None:
    run = make(tmp_path / "runs")
    touch_checkpoint(run, "last")
    (run.checkpoints_dir / ".last.safetensors.tmp").touch()
    run.heartbeat_path.touch()  # of this moment, which is over when somebody unpacks it
    run.log("solved")
    first = zip_run(run, tmp_path).path
    assert first == tmp_path / f"{run.id}.zip"
    with zipfile.ZipFile(first) as file:
        names = [name.removeprefix(f"{run.id}/") for name in file.namelist()]
    assert names == ["checkpoints/last.safetensors", "config.yaml", "log.txt", "run.json"]
    again = zip_run(run, run.path / "copy.zip").path  # into the run itself: not a snake that eats its tail
    assert again.read_bytes() == first.read_bytes()
    with pytest.raises(UserError, match="no folder"):
        zip_run(run, tmp_path / "missing" / "a.zip")


def test_a_zip_becomes_the_same_run_again(tmp_path: Path) -> None:
    run = make(tmp_path / "runs")
    touch_checkpoint(run, "last")
    run.update(status="running", host="elsewhere")
    file = zip_run(run, tmp_path).path
    copy = import_run(file, tmp_path / "others").run
    assert copy.path == tmp_path / "others" / run.id
    assert [path.name for path in (tmp_path / "others").iterdir()] == [run.id]  # nothing else is left behind
    assert copy.config_path.read_bytes() == run.config_path.read_bytes()
    assert resolve_checkpoint("@last", tmp_path / "others")[1].stem == "last"
    assert copy.read().status == "killed"  # it was running when it was zipped; the copy is trained by nobody
    with pytest.raises(UserError, match=r"there is a run .* already"):
        import_run(file, tmp_path / "others")
    with pytest.raises(UserError, match=r"unpack the run in it with `gymnast runs import .*\.zip` first"):
        resolve(str(file), tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/etc/run.json", "is not a run that"),
        ("../k/run.json", "is not a run that"),
        ("k/../../evil", "would be written outside"),
        ("k/..\\evil", "would be written outside"),
        ("k/link", "would be written outside"),
        ("other/evil", "is not a run that"),
    ],
)
def test_a_zip_writes_nothing_outside_its_folder(tmp_path: Path, name: str, said: str) -> None:
    file = tmp_path / "deep" / "bad.zip"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as made:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (stat.S_IFLNK if name == "k/link" else stat.S_IFREG) << 16
        made.writestr(entry, "/etc/passwd")
        made.writestr("k/run.json", "{}")
    with pytest.raises(UserError, match=said):
        import_run(file, tmp_path / "deep" / "runs")
    assert list(tmp_path.rglob("*")) == [file.parent, file]


def test_a_zip_that_would_fill_the_disk_or_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = zip_run(make(tmp_path / "runs"), tmp_path).path
    monkeypatch.setattr(archive, "LARGEST", 10)
    with pytest.raises(UserError, match="unpacked it has more than"):
        import_run(file, tmp_path / "others")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(UserError, match="cannot be read as a zip file"):
        import_run(file, tmp_path / "others")


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GYMNAST_RUNS", raising=False)
    assert default_runs_dir() == Path("runs")
    monkeypatch.setenv("GYMNAST_RUNS", "/somewhere")
    assert default_runs_dir() == Path("/somewhere")


def test_nothing_heavy_is_imported() -> None:
    heavy = "torch gymnasium numpy rich ruamel"
    code = f"import sys, gymnast.runs.references; print([m for m in '{heavy}'.split() if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_best_compares_scores_of_one_kind(tmp_path: Path) -> None:
    """A relative score of several tasks, -4, is above the return of -86 of an Acrobot, and says less."""
    task = {"score": -500.0, "interval": None, "episodes": 4, "threshold": -100.0, "solved": False}
    plain = make(tmp_path, "Acrobot-v1", score=-86.0)
    make(tmp_path, "Acrobot-v1", seed=2, score=-4.0, tasks={"acrobot": task})
    assert resolve("@best:Acrobot-v1", tmp_path).id == plain.id


def test_a_run_that_went_on_since_it_was_read_is_not_started(tmp_path: Path) -> None:
    run = make(tmp_path)
    read = run.read().updated
    other = Run.open(run.path)
    other.start(read)
    other.finish("finished")
    with pytest.raises(UserError, match="changed by another process in the meantime"):
        run.start(read)
    run.start(run.read().updated)
    run.finish("finished")
