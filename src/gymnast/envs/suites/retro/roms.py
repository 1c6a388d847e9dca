"""ROMs and savestates: the package's own, and those of the user in a folder outside of it.

A ROM is known by its hash, as the package knows it. What a user brings is copied into the user's own folder, with one
folder for each game, so that it stays when the package is installed again. Savestates in it are found as well.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from gymnast.core.errors import UserError, did_you_mean
from gymnast.envs.suites.retro.places import FOLDER, IMPORT, has_rom, id_of, users_folder


def retro() -> Any:
    """The package, which looks into the user's folder first."""
    import stable_retro

    integrations = stable_retro.data.Integrations
    integrations.clear_custom_paths()
    if users_folder().is_dir():  # the package lists what is in it
        integrations.add_custom_path(str(users_folder()))
    return stable_retro


def integration() -> Any:
    """The package's word for: the user's folder, then its own."""
    return retro().data.Integrations.CUSTOM


def rom_of(game: str) -> str:
    try:
        path: str = retro().data.get_original_romfile_path(game, integration())
    except FileNotFoundError:
        raise UserError(
            f"env.id: {id_of(game)}: its ROM is not installed, and you must bring your own: "
            f"`{IMPORT}` finds it in a folder by its hash."
        ) from None
    return path


def states_of(game: str) -> list[str]:
    """Names of a game's savestates."""
    folders = [users_folder() / game, Path(retro().data.path()) / "stable" / game]
    return sorted({path.stem for folder in folders for path in folder.glob("*.state") if path.stem[0] != "_"})


def usual_state(game: str) -> str | None:
    """What a game starts from where nothing else is said; None: the console is switched on."""
    path = retro().data.get_file_path(game, "metadata.json", integration())
    found: str | None = json.loads(Path(path).read_text()).get("default_state") if path else None
    return found


def read_state(game: str, name: str) -> bytes:
    path = retro().data.get_file_path(game, f"{name}.state", integration())
    if path is None:
        known = states_of(game)
        raise UserError(
            f"env.kwargs: state = {name}: {id_of(game)} has no such savestate.{did_you_mean(name, known)} "
            f"Known: {', '.join(known)}. Your own: {users_folder() / game / (name + '.state')}."
        )
    try:
        with gzip.open(path, "rb") as file:
            return file.read()
    except (OSError, EOFError, zlib.error):
        raise bad_state(game, name) from None


def bad_state(game: str, name: str) -> UserError:
    return UserError(
        f"env.kwargs: state = {name}: {id_of(game)}: that file is no savestate of this emulator. "
        "Save it with stable-retro (env.em.get_state(), compressed by gzip)."
    )


LARGEST = 32 * 2**20 + 512  # bytes of a ROM that the package can know, with a header
# of a file or an archive: damaged, encrypted, packed in a way that Python cannot open, not ours to read
UNREADABLE = (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Found:
    """A file that may be a ROM."""

    file: str  # with the file inside it, where it is an archive
    game: str | None  # None: no ROM that is known
    status: str  # new, imported already, unknown, unreadable
    data: bytes = b""
    name: str = ""  # what it is called in the game's folder


def find_roms(folder: Path) -> list[Found]:
    """Every file below a folder, archives opened."""
    data = retro().data
    known = data.get_known_hashes()
    found = []
    for name, content in _files(folder):
        if content is None:
            found.append(Found(name, None, "unreadable"))
            continue
        try:
            groomed, digest = data.groom_rom(name, BytesIO(content))
        except (ValueError, IndexError):  # larger than any ROM; shorter than its header says
            found.append(Found(name, None, "unknown"))
            continue
        game, extension, _ = known.get(digest, (None, "", ""))
        if game is None:
            found.append(Found(name, None, "unknown"))
        else:
            status = "imported already" if has_rom(game) else "new"
            found.append(Found(name, game, status, groomed, f"rom{extension}"))
    return found


def keep(found: Found) -> Path:
    """Copies a known ROM into the user's folder."""
    assert found.game is not None
    place = users_folder() / found.game / found.name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found.data)
    except OSError as error:
        raise UserError(f"{place}: cannot be written ({error.strerror}). Set {FOLDER} to another folder.") from error
    return place


def _files(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    """Names and contents; None: it cannot be read. What is larger than any ROM is not read, and has no content."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        try:
            yield name, b"" if path.stat().st_size > LARGEST else path.read_bytes()
        except OSError:
            yield name, None
            continue
        if path.suffix.lower() == ".zip":
            yield from _packed(path, name)


def _packed(path: Path, name: str) -> Iterator[tuple[str, bytes | None]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                inside = f"{name}: {entry.filename}"
                try:
                    yield inside, b"" if entry.file_size > LARGEST else archive.read(entry)
                except UNREADABLE:
                    yield inside, None
    except zipfile.BadZipFile:  # the archive itself has its line already
        return
