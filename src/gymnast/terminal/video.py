"""`gymnast video` for people."""

from __future__ import annotations

from gymnast.verbs.video import RecordedVideo


def print_video(result: RecordedVideo) -> None:
    for part in result.parts:
        for episode in part.episodes:
            if episode.score is None:
                said = f"the first {episode.frames:,} frames"
            else:
                said = f"return {episode.score:g} in {episode.length:,} steps"
            print(f"{part.checkpoint}, step {part.step or 0:,}: {said} ({part.policy})")
    if result.progression and len(result.parts) == 1:
        print("the run kept one checkpoint only; --set train.checkpoint_every=N keeps one every N steps")
    print(f"wrote {result.video} ({result.frames:,} frames)")
