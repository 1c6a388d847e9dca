"""Imports many damaged and hostile zips: does any of them write outside, run code, hang, or end in a traceback?

    .venv/bin/python benchmarks/faults/imports.py --count 1000

Trains one short run, zips it, and changes the zip in one of the ways below, by a seed for each. Every one is imported
into a folder of its own with another run in it, then listed, and shown if it was taken, in forked children with limits
of time and memory. A row of the table is a way; a trial is one zip. Exit code 1 if anything was bad.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import stat
import struct
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign import MEMORY, Tally, prepare, run

SECONDS = 60.0  # of a command
TRAINED = ("CartPole-v1", "--steps", "1024", "--set", "env.n_envs=8", "--set", "algo.n_steps=32", "--quiet")
NAMES = (
    *(
        "a\x1b[31m\nb",
        "@best",
        "@last",
        "--help",
        "-x",
        "sweeps",
        "<img src=x>",
        "con",
        "a b",
        "é",
        "\u202eevil",
        "...",
    ),
    *("x" * 250, "evil7", "runs", "%00", "$(touch hit)", "`touch hit`", "k7f3q-cartpole-v1-ppo-s1;x", "\ud800"),
)
SLIPS = (
    "../outside",
    "/tmp/outside-of-a-run",
    "{top}/../../outside",
    "{top}/../outside",
    "{top}\\..\\outside",
    "C:\\outside",
)
CODE = (
    "evil.py",
    "__init__.py",
    "evil.pth",
    "evil.so",
    "sitecustomize.py",
    "checkpoints/evil.py",
    "Makefile",
    ".bashrc",
)
MARK = "open({path!r}, 'w').close()\n"
Entries = list[tuple[zipfile.ZipInfo, bytes]]


class Zips:
    """Makes the zip of a trial. `place`: its folder, in which nothing but the runs folder may change."""

    def __init__(self, whole: bytes, rng: random.Random, place: Path) -> None:
        self.whole, self.rng, self.place = whole, rng, place
        self.path = place / "given.zip"
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            self.entries: Entries = [(info, archive.read(info)) for info in archive.infolist()]
        self.top = self.entries[0][0].filename.partition("/")[0]

    def write(self, entries: Entries, kind: int = zipfile.ZIP_DEFLATED) -> None:
        with zipfile.ZipFile(self.path, "w", kind) as archive:
            for info, data in entries:
                archive.writestr(info, data, compress_type=kind)

    def entry(self, name: str, data: bytes = b"{}", mode: int = stat.S_IFREG | 0o644) -> tuple[zipfile.ZipInfo, bytes]:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        return info, data

    def intact(self) -> None:
        self.path.write_bytes(self.whole)

    def flipped_bits(self) -> None:
        data = bytearray(self.whole)
        for _ in range(self.rng.choice([1, 1, 4, 64])):
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        self.path.write_bytes(data)

    def flipped_lzma(self) -> None:
        self.write(self.entries, self.rng.choice([zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]))
        self.whole = self.path.read_bytes()
        self.flipped_bits()

    def truncated(self) -> None:
        cut = self.rng.randrange(len(self.whole))
        head, tail = self.whole[:cut], self.whole[cut:]
        self.path.write_bytes(self.rng.choice([head, tail, head + self.rng.randbytes(100), b"", head + self.whole]))

    def lying_header(self) -> None:
        """Sizes, offsets, methods, flags and checksums of the central directory that are not true."""
        data = bytearray(self.whole)
        starts = [at for at in range(len(data) - 46) if data[at : at + 4] == b"PK\x01\x02"]
        field, width = self.rng.choice([(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4), (6, 2)])
        value = self.rng.choice(
            [0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), self.rng.randrange(2 ** (8 * width))]
        )
        at = self.rng.choice(starts) + field
        data[at : at + width] = value.to_bytes(width, "little")
        self.path.write_bytes(data)

    def slip(self) -> None:
        name = self.rng.choice(SLIPS).format(top=self.top)
        self.write([*self.entries, self.entry(name, b"outside")])

    def link(self) -> None:
        name = self.rng.choice(["log.txt", "checkpoints", "note.txt", "link"])
        target = self.rng.choice(["/etc/passwd", "../../..", "/dev/zero", "run.json", str(self.place)])
        kind = self.rng.choice([stat.S_IFLNK, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
        others = [one for one in self.entries if not one[0].filename.startswith(f"{self.top}/{name}")]
        more = [self.entry(f"{self.top}/{name}/x.json")] if self.rng.random() < 0.3 else []
        self.write([*others, self.entry(f"{self.top}/{name}", target.encode(), kind | 0o777), *more])

    def bomb(self) -> None:
        """Ten to a hundred megabytes of zeros, or far more than a disk has by what the directory says."""
        size = self.rng.choice([10, 30, 100]) << 20
        self.write([*self.entries, self.entry(f"{self.top}/zeros.txt", bytes(size))])
        if self.rng.random() < 0.5:
            data = bytearray(self.path.read_bytes())
            at = data.rfind(b"PK\x01\x02")
            struct.pack_into("<I", data, at + 24, self.rng.choice([2**32 - 2, 1, size - 1]))
            self.path.write_bytes(data)

    def code(self) -> None:
        """Files that would run if anything imported or sourced them."""
        mark = MARK.format(path=str(self.place / "hit")).encode()
        self.write([*self.entries, *(self.entry(f"{self.top}/{name}", mark) for name in CODE)])

    def name(self) -> None:
        """A folder's name that means something else, to a terminal, a shell, a page or a command of ours."""
        name = self.rng.choice(NAMES)
        renamed = [self.entry(name + info.filename[len(self.top) :], data) for info, data in self.entries]
        try:
            self.write(renamed)
        except UnicodeEncodeError:
            self.write([(info, data) for info, data in self.entries if "log" not in info.filename])

    def twice(self) -> None:
        """The same name twice, a file that is also a folder, a second run.json further down."""
        name = self.rng.choice(
            ["run.json", "run.json/x.json", "checkpoints/run.json", "checkpoints/best.json", "RUN.JSON"]
        )
        self.write([*self.entries, self.entry(f"{self.top}/{name}", b'{"made_on": "here", "host": "here"}')])

    def described(self) -> None:
        """A run.json that says something else."""
        values: list[Any] = [
            None,
            -1,
            10**400,
            "\x1b[31m",
            "../x",
            [],
            {},
            "x" * 100_000,
            "ray://127.0.0.1:1",
            os.uname().nodename,
        ]
        changed: Entries = []
        for info, data in self.entries:
            if info.filename == f"{self.top}/run.json":
                about = json.loads(data)
                for key in self.rng.sample([*about, "on", "imported", "made_on", "name", "tags"], 2):
                    about[key] = self.rng.choice([*values, "running"])
                data = json.dumps(about).encode()
            changed.append((info, data))
        self.write(changed)

    def encrypted(self) -> None:
        data = bytearray(self.whole)
        for at in range(len(data) - 46):
            if bytes(data[at : at + 4]) in (b"PK\x01\x02", b"PK\x03\x04"):
                data[at + (8 if data[at + 2] == 1 else 6)] |= 1
        self.path.write_bytes(data)

    def many(self) -> None:
        """Deep folders, or very many files."""
        deep = "/".join(["d"] * self.rng.choice([10, 500, 3000]))
        count = self.rng.choice([1, 3000])
        self.write(
            [*self.entries, *(self.entry(f"{self.top}/{deep if count == 1 else n}/x.json") for n in range(count))]
        )

    def special(self) -> None:
        """No file at all."""
        kind = self.rng.choice(["fifo", "zero", "full", "folder", "nowhere", "loop", "random"])
        if kind == "fifo":
            os.mkfifo(self.path)
        elif kind == "folder":
            self.path.mkdir()
        else:
            targets = {"zero": "/dev/zero", "full": "/dev/full", "nowhere": "/nowhere", "random": "/dev/urandom"}
            self.path.symlink_to(targets.get(kind, str(self.path)))


SORTS: dict[str, Callable[[Zips], None]] = {
    name: getattr(Zips, name)
    for name in (
        *(
            "intact",
            "flipped_bits",
            "flipped_lzma",
            "truncated",
            "lying_header",
            "slip",
            "link",
            "bomb",
            "code",
            "name",
        ),
        *("twice", "described", "encrypted", "many", "special"),
    )
}


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def trial(number: int, sort: str, whole: bytes, place: Path, other: Path, tally: Tally) -> None:
    """One zip: imported, listed, shown; then nothing may be where it does not belong."""
    runs = place / "runs"
    shutil.copytree(other, runs / other.name)
    zips = Zips(whole, random.Random(f"{sort} {number}"), place)
    SORTS[sort](zips)
    outside = tree(place) - {f"runs/{name}" for name in tree(runs)}
    where = ["--runs-dir", str(runs)]
    tally.trial(sort)
    imported = run(["runs", "import", str(zips.path), *where], place, SECONDS)
    tally.answer(sort, number, imported)
    new = sorted(path for path in runs.iterdir() if path.name != other.name)
    for path in new:
        if path.name.startswith("."):
            tally.found(sort, number, "leftover", path.name)
    if len(new) != (imported.code == 0):
        tally.found(sort, number, "partial", f"exit code {imported.code}, and there is {[path.name for path in new]}")
    listed = run(["runs", "list", *where], place, SECONDS)
    tally.answer(sort, number, listed)
    if other.name.partition("-")[0] not in listed.out:
        tally.found(sort, number, "hidden", "the other run is not listed")
    for path in new:
        tally.answer(sort, number, run(["runs", "show", path.name, *where], place, SECONDS))
        if any(inner.is_symlink() or not (inner.is_file() or inner.is_dir()) for inner in path.rglob("*")):
            tally.found(sort, number, "special", "a link or a device was unpacked")
        if any(inner.suffix in (".py", ".so", ".pth") for inner in path.rglob("*")):
            tally.found(sort, number, "code", "a program was unpacked")
    after = tree(place) - {f"runs/{name}" for name in tree(runs)}
    if after - outside or Path("/tmp/outside-of-a-run").exists():
        tally.found(sort, number, "outside", f"{sorted(after - outside)} was written")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="zips to import")
    parser.add_argument("--seed", type=int, default=0, help="other seeds make other zips")
    parser.add_argument("--only", choices=sorted(SORTS), help="one way of damage")
    args = parser.parse_args()
    os.environ["COLUMNS"] = "200"
    warnings.filterwarnings("ignore", message="Duplicate name")  # on purpose
    prepare()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="imports-") as name:
        folder = Path(name)
        for runs_dir in ("given", "others"):
            trained = run(["train", *TRAINED, "--runs-dir", str(folder / runs_dir)], folder, 10 * SECONDS, 2 * MEMORY)
            assert trained.code == 0, trained.err
        run(["runs", "zip", "@last", "--out", str(folder / "run.zip"), "--runs-dir", str(folder / "given")], folder)
        (other,) = (folder / "others").iterdir()
        whole, sorts = (folder / "run.zip").read_bytes(), [args.only] if args.only else list(SORTS)
        for number in range(args.seed, args.seed + args.count):
            place = folder / str(number)
            place.mkdir()
            trial(number, sorts[number % len(sorts)], whole, place, other, tally)
            shutil.rmtree(place, ignore_errors=True)
    return tally.print()


if __name__ == "__main__":
    sys.exit(main())
