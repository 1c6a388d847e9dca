"""One moment of an episode: what is seen, what the agent makes of it, and why. Computed only where it is asked for."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.play import insight
from gymnast.play.insight import Situation
from gymnast.play.step_table import NAMED_COMPONENTS
from gymnast.studio.commands import text, whole
from gymnast.studio.packets import ACTIVATION, FILTER, FRAME, GREY, INPUT, SALIENCY, encoded, grey

if TYPE_CHECKING:
    from gymnast.play.thinker import Thinker
    from gymnast.play.trace import Trace
    from gymnast.studio.desk import Desk

PICTURES_KEPT = 512
NEEDS = ("frame", "inputs", "saliency", "occlusion", "activations", "filters", "memory")


class Moments:
    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.out = desk, desk.session, desk.out
        self._frames: OrderedDict[tuple[int, int], tuple[bool, int, tuple[int, int], bytes]] = OrderedDict()

    def thinker(self, trace: Trace, checkpoint: str | None) -> Thinker | None:
        """Whose view of an episode is shown: another checkpoint's, or that of the one that played it."""
        if checkpoint is None and "untrained" in (trace.policy, *trace.who):
            return self.session.thinker("untrained", None)
        return self.session.thinker("random", checkpoint or trace.checkpoint)

    def _situation(self, thinker: Thinker, trace: Trace, t: int) -> Situation:
        self.session.recall(thinker, trace, t)
        state = {key: rows[0].cpu().numpy() for key, rows in thinker.state.items()}
        mask = trace.steps[t].mask if t < trace.length else None
        return Situation(trace.obs(t), state, mask, t == 0)

    def thoughts(self, thinker: Thinker, trace: Trace, t: int) -> dict[str, Any]:
        here = self._situation(thinker, trace, t)
        found = {name: rows[0].tolist() for name, rows in thinker.net.agent.describe(here.batch(thinker.net)).items()}
        return {
            "value": found["value"],
            "probs": found.get("probability"),
            "mean": found.get("mean"),
            "std": found.get("std"),
        }

    def moment(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        trace = self.session.find(command.get("n"))
        t = whole(command, "t", 0, 0, len(trace.marks) - 1)
        needs = command.get("need", [])
        if not isinstance(needs, list) or not all(need in NEEDS for need in needs):
            raise UserError(f"need: must be some of {', '.join(NEEDS)}.")
        thinker = self.thinker(trace, text(command, "checkpoint"))
        answer: dict[str, Any] = {"n": trace.n, "t": t, "now": None, "hash": trace.marks[t]}
        if "frame" in needs:
            answer["frame"] = self._frame(trace, t, number)
        if "inputs" in needs:
            answer["inputs"] = self._inputs(trace, t, number)
        if thinker is None:
            return answer
        answer["now"] = self.thoughts(thinker, trace, t)
        here = self._situation(thinker, trace, t)
        if "memory" in needs:
            answer["memory"] = {key: np.ravel(array).tolist() for key, array in here.state.items()}
        if "saliency" in needs:
            answer["saliency"] = self._saliency(thinker, here, trace, t, number)
        if "occlusion" in needs:
            answer["occlusion"] = self._occlusion(thinker, here, trace, t, number)
        if "activations" in needs:
            maps = insight.activations(thinker.net, here)
            answer["activations"] = self._tiles(ACTIVATION, maps, trace, t, number)
            dense = insight.units(thinker.net, here)
            answer["units"] = [{"name": name, "values": values.tolist()} for name, values in dense]
        if "filters" in needs:
            kernels = [(name, kernel.mean(1)) for name, kernel in insight.filters(thinker.net)]
            answer["filters"] = self._tiles(FILTER, kernels, trace, t, number)
        return answer

    def _frame(self, trace: Trace, t: int, number: int) -> dict[str, Any]:
        if self.desk.game.why_no_picture:
            return {"reason": self.desk.game.why_no_picture}
        if trace.second_player:
            return {"reason": "A second player moved in this episode, so that it cannot be shown again."}
        place = trace.n, t
        if place not in self._frames:
            if reason := self._why_not_moved():
                return {"reason": reason}
            exact = self.session.go_to(trace, t)
            picture = self.desk.game.picture()
            assert picture is not None
            codec, data = encoded(picture)
            self._frames[place] = exact, codec, (picture.shape[0], picture.shape[1]), data
            if len(self._frames) > PICTURES_KEPT:
                self._frames.popitem(last=False)
        exact, codec, size, data = self._frames[place]
        self.out.picture(FRAME, codec, size, data, episode=trace.n, t=t, to=number)
        return {"exact": exact}

    def _why_not_moved(self) -> str | None:
        """Why the one env is not brought to another moment: any window may ask for one, a game belongs to who plays."""
        if self.desk.playing:
            return "The game is being played: pause it to see other moments."
        played = self.session.trace
        if played is not None and played.second_player and played.outcome is None:  # there is no way back to it
            return "The game of two players is not over: finish it to see other moments."
        return None

    def _inputs(self, trace: Trace, t: int, number: int) -> list[dict[str, Any]]:
        """The pictures of an observation, channel by channel. Those of a stack come oldest first, each with the action
        that was taken at it."""
        found: list[dict[str, Any]] = []
        net = self.desk.opened.untrained
        obs = trace.obs(t)
        for key in insight.pictures_of(net):
            axes = insight.picture_axes(net.agent.obs_space[key])
            tiles = obs[key] if axes == (1, 2) else np.moveaxis(obs[key], -1, 0)
            stack = self.desk.game.stack if axes == (1, 2) else 1
            planes = self._planes(len(tiles)) if axes != (1, 2) else None
            for i, tile in enumerate(tiles):
                at = t - (len(tiles) - 1 - i) * stack // len(tiles)
                labelled = stack > 1 and 0 <= at < trace.length
                label = self.desk.labels.text(trace.steps[at].action) if labelled else planes and planes[i]
                data = grey(tile) if tile.dtype == np.uint8 else grey(tile, 0, 1)
                self.out.picture(INPUT, GREY, tile.shape, data, episode=trace.n, t=t, to=number, index=len(found))
                found.append({"index": len(found), "leaf": key, "t": at if at >= 0 else None, "label": label})
        return found

    def _planes(self, count: int) -> list[str] | None:
        """What each plane of a board shows, as far as it is known."""
        facts = configs.load_facts(self.desk.game.config.id)
        names = [] if facts is None else [fact.name for fact in facts.observations]
        return names if len(names) == count else None

    def _saliency(self, thinker: Thinker, here: Situation, trace: Trace, t: int, number: int) -> dict[str, Any]:
        """By leaf: numbers of a vector; of a picture a map for the action (index 0) and one for the value (index 1)."""
        found: dict[str, Any] = {}
        space = thinker.net.agent.obs_space
        pictures = insight.pictures_of(thinker.net)
        for key, slopes in insight.gradient(thinker.net, here).items():
            if key not in pictures:
                found[key] = {name: np.ravel(slope)[:NAMED_COMPONENTS].tolist() for name, slope in slopes.items()}
                continue
            channels = 0 if insight.picture_axes(space[key]) == (1, 2) else 2
            maps = {name: slope.sum(channels) for name, slope in slopes.items()}
            found[key] = self._maps(maps, 0, trace, t, number)
        return found

    def _occlusion(self, thinker: Thinker, here: Situation, trace: Trace, t: int, number: int) -> dict[str, Any]:
        """A map for the action (index 2) and one for the value (index 3)."""
        keys = insight.pictures_of(thinker.net)
        return {key: self._maps(insight.occlusion(thinker.net, here, key), 2, trace, t, number) for key in keys}

    def _maps(self, maps: dict[str, Any], first: int, trace: Trace, t: int, number: int) -> dict[str, Any]:
        found = {}
        for index, (name, values) in enumerate(maps.items(), first):
            highest = float(values.max())
            data = grey(values, 0.0, highest or 1.0)
            self.out.picture(SALIENCY, GREY, values.shape, data, episode=trace.n, t=t, to=number, index=index)
            found[name] = {"index": index, "highest": highest, "shape": list(values.shape)}
        return found

    def _tiles(
        self, kind: int, layers: list[tuple[str, Any]], trace: Trace, t: int, number: int
    ) -> list[dict[str, Any]]:
        shown = []
        for layer, (name, maps) in enumerate(layers):
            tiles = maps[: insight.MOST_TILES]
            bound = float(np.abs(tiles).max()) or 1.0
            low = 0.0 if kind == ACTIVATION else -bound  # of kernels, 0 is the middle grey
            for index, tile in enumerate(tiles):
                data = grey(tile, low, bound)
                self.out.picture(
                    kind, GREY, tile.shape, data, episode=trace.n, t=t, to=number, index=index, layer=layer
                )
            shape = list(maps.shape)
            shown.append({"layer": layer, "name": name, "shape": shape, "tiles": len(tiles), "highest": bound})
        return shown
