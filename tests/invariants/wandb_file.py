"""Reads what W&B wrote offline: a LevelDB log of protocol buffers, for which W&B ships the messages and no reader."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def wandb_records(path: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, []  # ":W&B", a magic number, a version
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no room for a header: the block's end is padding
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        assert kind in (FULL, FIRST, MIDDLE, LAST)
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (FULL, LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(b"".join(parts))
            parts = []
            yield record


def wandb_history(path: Path) -> list[dict[str, Any]]:
    """Every log, oldest first, without W&B's own time stamps."""
    rows = []
    for record in wandb_records(path):
        if record.WhichOneof("record_type") == "history":
            row: dict[str, Any] = {}
            for item in record.history.item:
                *outer, last = item.nested_key or [item.key]
                place = row
                for name in outer:
                    place = place.setdefault(name, {})
                place[last] = json.loads(item.value_json)
            rows.append({key: value for key, value in row.items() if key not in ("_timestamp", "_runtime", "_wandb")})
    return rows
