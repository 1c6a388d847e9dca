"""`gymnast video` for people."""

from __future__ import annotations

from gymnast.core.text import printable
from gymnast.verbs.video import RecordedVideo


def print_video(result: RecordedVideo) -> None:
    parts = result.data["parts"]
    for part in parts:
        for episode in part["episodes"]:
            said = f"the first {episode['frames']:,} frames"
            if episode["return"] is not None:
                said = f"return {episode['return']:g} in {episode['length']:,} steps"
            print(f"{part['checkpoint']}, step {part['step'] or 0:,}: {said} ({part['policy']})")
    if result.progression and len(parts) == 1:
        print("the run kept one checkpoint only; --set train.checkpoint_every=N keeps one every N steps")
    print(f"wrote {printable(str(result.data['video']))} ({result.data['frames']:,} frames)")
