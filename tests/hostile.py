"""Files as a killed process, a bad disk or a stranger leaves them: mutations with a fixed seed."""

from __future__ import annotations

import copy
import json
import os
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VALUES: list[Any] = [
    *(None, True, -1, 1.5, 2**63, 10**400, 1e308, float("nan"), float("inf"), "NaN", "Infinity", "", "running"),
    *("\x1b[31mred\x1b]0;title\x07", "\ud800", "\x00", "a\nb\r\x85\u2028\u202e", "x" * 200_000, "../../etc/passwd"),
    *([], {}, [1, "a"], {"a": {"b": 1}}, {"": None}, ["\x1b[2J"], {"\x1b[2J": "\ud800"}, [1e308, -1e308], [[[[[]]]]]),
]
DEEP = b"[" * 5000 + b"]" * 5000
GLUED = [b"\x1b[31m", b"\xff", b"\x00", b"}", b"{", b'"', b"\n", b"9" * 400, b"NaN", b"&a ", b"*a ", b"!!bool ", b": "]


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in pairs:
        yield from paths(inner, (*path, key))


def mutated_json(data: Any, rng: random.Random) -> Any:
    """One node replaced, or left out."""
    path = rng.choice(list(paths(data)))
    if not path:
        return rng.choice(VALUES)
    data = into = copy.deepcopy(data)
    for key in path[:-1]:
        into = into[key]
    if rng.random() < 0.15:
        del into[path[-1]]
    else:
        into[path[-1]] = rng.choice(VALUES)
    return data


def mutated_bytes(raw: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    flipped = bytearray(raw)
    for _ in range(4):
        flipped[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    glued = raw[:start] + rng.choice(GLUED) + raw[start:]
    wholes = [b"", DEEP, b'{"a":' * 5000, b"\x00" * 1000, rng.randbytes(200), b"\xff\xfe" + raw, raw * 2]
    return rng.choice([raw[:start], raw[:start] + raw[end:], bytes(flipped), glued, glued, rng.choice(wholes)])


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """Of a file of JSON, of lines of JSON, or of anything else."""
    if rng.random() < 0.3:
        return mutated_bytes(raw, rng)
    try:
        return json.dumps(mutated_json(json.loads(raw), rng)).encode()
    except ValueError:
        pass
    lines = raw.splitlines()
    place = rng.randrange(len(lines))
    try:
        lines[place] = json.dumps(mutated_json(json.loads(lines[place]), rng)).encode()
    except ValueError:
        return mutated_bytes(raw, rng)
    return b"\n".join(lines) + b"\n"


def mutated_checkpoint(raw: bytes, rng: random.Random) -> bytes:
    """A header that lies: about its own length, about a tensor, about the state."""
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([2**60, length + 1000, 0, length - 5, 2**64 - 1]).to_bytes(8, "little") + raw[8:]
    if kind == 1:
        header = mutated_json(header, rng)
    elif kind == 2:
        name = rng.choice(["state", "metrics"])
        header["__metadata__"][name] = json.dumps(mutated_json(json.loads(header["__metadata__"][name]), rng))
    else:
        tensor = header[rng.choice([name for name in header if name != "__metadata__"])]
        tensor[rng.choice(list(tensor))] = rng.choice([*VALUES, [1 << 40], "F64", [0, 0], [5, 1], [0, 1 << 62]])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + length :]


def put_special(path: Path, kind: str) -> None:
    """Something that is no regular file, or is larger than any of ours."""
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(10 << 30)
    else:
        path.symlink_to({"device": "/dev/zero", "loop": str(path), "nowhere": "/nowhere"}[kind])


SPECIAL = ("fifo", "folder", "sparse", "device", "loop", "nowhere")


def name_code(run: Path, env_id: str, wrapper: str | None = None) -> None:
    """Has every file of a run's folder name another env, and a wrapper of somebody's."""
    from gymnast.config.files import parse_yaml
    from gymnast.runs import checkpoint

    def changed(config: dict[str, Any]) -> dict[str, Any]:
        more = {} if wrapper is None else {"wrappers": [wrapper]}
        return {**config, "env": {**config["env"], "id": env_id, **more}}

    for path in run.glob("checkpoints/*.safetensors"):
        saved = checkpoint.load(path)
        state = {**saved.state, "config": changed(saved.state["config"])}
        checkpoint.save(path, saved.tensors, state, saved.metrics, readable=False)
    config = run / "config.yaml"
    config.write_text(json.dumps(changed(parse_yaml(config.read_text(), "config").data)))  # JSON is YAML
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "env": env_id}))


def zip_folder(folder: Path, out: Path, top: str) -> Path:
    """All of a folder under another name, as no command of ours would write it."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.name != "lock":
                archive.write(path, f"{top}/{path.relative_to(folder).as_posix()}")
    return out
