"""A run as a zip file, and back: damaged ones are one line, hostile ones bring nothing but a run's own files."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gymnast.core.errors import UserError
from gymnast.core.files import copy_file
from gymnast.core.text import printable
from gymnast.runs import archive
from gymnast.runs.archive import import_run, zip_run
from gymnast.runs.folder import RUN_ID
from gymnast.runs.references import Run, list_runs, resolve
from tests.unit.test_run import make, touch_checkpoint


def zipped(tmp_path: Path) -> tuple[Run, bytes]:
    """A run, and its zip with each kind of file."""
    run = make(tmp_path / "runs")
    touch_checkpoint(run, "last")
    run.metrics_path.write_text('{"time/total_timesteps": 1}\n' * 500)
    return run, zip_run(run, tmp_path / "whole.zip").path.read_bytes()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_every_damaged_zip_is_one_line(tmp_path: Path, method: int) -> None:
    """A bit or two in the packed bytes, in sizes, in checksums, in the directory: refused, or imported complete."""
    _, whole = zipped(tmp_path)
    file, rng, said = tmp_path / "damaged.zip", random.Random(method), list[str]()
    with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(file, "w", method) as packed:
        for name in given.namelist():
            packed.writestr(name, given.read(name), compress_type=method)
    raw = file.read_bytes()
    for number in range(100):
        damaged = bytearray(raw)
        for _ in range(rng.choice([1, 2, 20])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        place = tmp_path / str(number)
        try:
            import_run(file, place)
        except UserError as error:
            said.append(str(error))
            assert not place.exists() or not list(place.iterdir())
    assert len(said) > 50
    assert not [text for text in said if "\n" in text]


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_a_zip_is_read_from_a_regular_file_only(tmp_path: Path, kind: str) -> None:
    """A FIFO would be waited for, and a device read until the memory is full."""
    path = tmp_path / "x.zip"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(UserError, match="it is not a regular file"):
        import_run(path, tmp_path / "others")


def test_a_zip_that_has_no_room_on_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = zipped(tmp_path)
    size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda path: SimpleNamespace(free=size - 1))
    with pytest.raises(UserError, match="has room for"):
        import_run(tmp_path / "whole.zip", tmp_path / "others")
    assert not (tmp_path / "others").exists()


def test_a_file_that_is_larger_than_the_zip_says_ends_the_import(tmp_path: Path) -> None:
    file = tmp_path / "liar.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("k/run.json", "{}")
        made.writestr("k/zeros.txt", bytes(5_000_000))
    raw = bytearray(file.read_bytes())
    at = raw.rfind(b"PK\x01\x02") + 24  # the unpacked size, in the directory
    raw[at : at + 4] = (100).to_bytes(4, "little")
    file.write_bytes(raw)
    with pytest.raises(UserError, match="cannot be read as a zip file"):
        import_run(file, tmp_path / "others")
    assert not list((tmp_path / "others").iterdir())


@pytest.mark.parametrize(
    "name",
    ["a\x1b[31mred", "@best", "--help", "sweeps", "<img src=x>", "evil7", "a b", "x" * 200, "b2c3d-e-s1.txt"],
)
def test_a_zip_is_imported_under_the_id_of_a_run(tmp_path: Path, name: str) -> None:
    """Whatever its folder is called: a name may mean something to a terminal, to a command, or to Python."""
    run, whole = zipped(tmp_path)
    file = tmp_path / "named.zip"
    with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(file, "w") as made:
        for inner in given.namelist():
            made.writestr(inner.replace(run.id, name, 1), given.read(inner))
    imported = import_run(file, tmp_path / "others")
    assert (imported.run.id, imported.named) == (run.id, name)  # as its run.json says, which is an id
    again = import_run(file, tmp_path / "others")  # that id is taken: a new one
    assert RUN_ID.fullmatch(again.run.id)
    assert again.run.id != run.id
    assert again.run.read().imported


def test_only_files_of_a_run_are_imported(tmp_path: Path) -> None:
    run, whole = zipped(tmp_path)
    file = tmp_path / "more.zip"
    more = ["evil.py", "checkpoints/evil.so", "run.json.py", "trackers/run.json", ".hidden.json", "notes", "a\x1b.txt"]
    with zipfile.ZipFile(io.BytesIO(whole)) as given, zipfile.ZipFile(file, "w") as made:
        for inner in given.namelist():
            made.writestr(inner, given.read(inner))
        for inner in (*more, "report.md", "trackers/tensorboard/events.out.tfevents.1.host"):
            made.writestr(f"{run.id}/{inner}", "x")
    imported = import_run(file, tmp_path / "others")
    assert sorted(imported.skipped) == sorted(printable(name) for name in more)
    there = {path.relative_to(imported.run.path).as_posix() for path in imported.run.path.rglob("*") if path.is_file()}
    own = {path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()} - {"lock"}
    assert there == own | {"report.md", "trackers/tensorboard/events.out.tfevents.1.host"}


def test_an_imported_run_is_not_of_this_machine_whatever_it_says(tmp_path: Path) -> None:
    run, _ = zipped(tmp_path)
    assert run.read().is_own
    about = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**about, "imported": None, "on": "ray://10.0.0.1:10001"}))
    copy = import_run(zip_run(run, tmp_path / "again.zip").path, tmp_path / "others").run
    info = copy.read()
    assert (info.made_on, info.is_own, info.on) == (run.read().made_on, False, None)
    copy.update(tags=["x"])  # it stays so
    with pytest.raises(TypeError, match="no field that can be changed"):
        copy.update(imported=None)
    assert not copy.read().is_own


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_zip_replaces_no_device(tmp_path: Path, kind: str) -> None:
    run, out = make(tmp_path / "runs"), tmp_path / "out.zip"
    if kind == "fifo":
        os.mkfifo(out)
    else:
        out.symlink_to("/dev/null")
    with pytest.raises(UserError, match="not a regular file"):
        zip_run(run, out)
    assert out.is_fifo() or out.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "out.zip"}


def test_links_out_of_a_run_are_not_packed(tmp_path: Path) -> None:
    """Also where the run itself is reached by links, which are followed."""
    run, secret = make(tmp_path / "runs"), tmp_path / "secret.txt"
    secret.write_text("nobody may read this")
    (tmp_path / "linked-runs").symlink_to(tmp_path / "runs")
    (tmp_path / "linked-run").symlink_to(run.path)
    touch_checkpoint(run, "last")
    run.log_path.unlink()
    run.log_path.symlink_to(secret)
    (run.path / "folder").symlink_to(tmp_path)
    (run.path / "inside.txt").symlink_to("config.yaml")
    for place in (run.path, tmp_path / "linked-runs" / run.id, tmp_path / "linked-run"):
        packed = zip_run(Run.open(place), tmp_path)
        assert packed.skipped == ["folder", "log.txt"]
        with zipfile.ZipFile(packed.path) as file:
            names = [name.removeprefix(f"{run.id}/") for name in file.namelist()]
            assert names == ["checkpoints/last.safetensors", "config.yaml", "inside.txt", "run.json"]
            assert file.read(f"{run.id}/inside.txt") == run.config_path.read_bytes()
    with pytest.raises(OSError, match="links are not followed"):
        run.log("this would be written where the link leads")
    assert secret.read_text() == "nobody may read this"


def test_a_folder_whose_name_is_no_text_is_zipped_and_imported(tmp_path: Path) -> None:
    run = make(tmp_path / "runs")
    path = tmp_path / "runs" / os.fsdecode(b"caf\xe9\x1b[31m")
    run.path.rename(path)
    (path / os.fsdecode(b"\xff.txt")).write_text("a note")
    (info,) = list_runs(tmp_path / "runs")
    assert info.id.isprintable()
    assert Run(path).id == info.id
    assert resolve(info.id, tmp_path / "runs").path == path
    imported = import_run(zip_run(Run(path), tmp_path).path, tmp_path / "others")
    assert imported.run.id == run.id
    assert (imported.run.path / "_udcff.txt").read_text() == "a note"


def test_a_link_is_not_copied_into_another_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody may read this")
    link = tmp_path / "best.csv"
    link.symlink_to(secret)
    with pytest.raises(OSError, match="links are not followed"):
        copy_file(link, tmp_path / "copy.csv")
    assert not (tmp_path / "copy.csv").exists()
