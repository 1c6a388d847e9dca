"""The commands that look at episodes, in a session's process: nothing is computed before it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import UserError
from gymnast.play import analysis
from gymnast.play.player import episode_seed
from gymnast.play.rollouts import candidates, roll_out
from gymnast.play.step_table import NAMED_COMPONENTS
from gymnast.play.value_map import table_of_game, value_map
from gymnast.studio.commands import text, whole
from gymnast.studio.moments import Moments
from gymnast.studio.work import now

if TYPE_CHECKING:
    from gymnast.play.trace import Trace
    from gymnast.studio.desk import Desk

MOST_AT_ONCE = 100  # episodes of one command, and rollouts of an action
REPORT_SECONDS = 0.2


class Inspection:
    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.out = desk, desk.session, desk.out
        self.moments = Moments(desk)
        self._table: Any = False  # not looked for yet
        self._reported = 0.0
        self.commands: dict[str, Callable[[dict[str, Any], int], dict[str, Any]]] = {
            "record_episodes": self._record_episodes,
            "episodes": self._episodes,
            "episode": self._episode,
            "moment": self.moments.moment,
            "advantages": self._advantages,
            "branch": self._branch,
            "rollouts": self._rollouts,
            "map": self._map,
        }

    # episodes

    def _record_episodes(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        """The first one with the very seed that is given, or all with those of an evaluation."""
        count = whole(command, "episodes", 1, 1, MOST_AT_ONCE)
        policy, checkpoint = command.get("policy", "greedy"), text(command, "checkpoint") or self.desk.opened.checkpoint
        if policy == "human":
            raise UserError("policy 'human': play it instead.")
        seed = None if command.get("seed") is None else whole(command, "seed", 0, 0, 2**32 - 1)
        self.desk.playing = False
        made = []
        for i in range(count):
            its_seed = episode_seed(self.desk.root if seed is None else seed, i) if seed is None or i else seed
            made.append(trace := self.session.begin(its_seed, policy, checkpoint))
            self._play_out(trace, policy, checkpoint, number, i, count)
            if self.desk.inbox.is_cancelled():
                break
        rows = {row["n"]: row for row in self.rows()}
        return {"episodes": [rows[trace.n] for trace in made if trace.n in rows]}

    def _play_out(self, trace: Trace, policy: str, checkpoint: str | None, number: int, done: int, total: int) -> None:
        with self.desk.game.unwatched():
            for step in self.session.play_out(policy, checkpoint):
                self._progress(number, done, total, step.t + 1)
                if self.desk.inbox.is_cancelled():
                    trace.outcome = trace.outcome or "cut"

    def _progress(self, number: int, done: int, total: int, steps: int) -> None:
        if now() - self._reported > REPORT_SECONDS:
            self._reported = now()
            self.out.push(type="progress", done=done, total=total, steps=steps)

    def rows(self) -> list[dict[str, Any]]:
        """All episodes that are kept, with what is remarkable of those that are no branches."""
        traces = list(self.session.traces.values())
        config, game = self.desk.opened.config, self.desk.game
        comparable = [trace.n for trace in traces if analysis.why_incomparable(trace, config, game) is None]
        numbers = analysis.numbers_of(traces, comparable, config.algo.gamma)
        flags = analysis.flags_of([trace for trace in traces if trace.parent is None], numbers)
        return [trace.row() | numbers[trace.n] | {"flags": flags.get(trace.n, [])} for trace in traces]

    def _episodes(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        return {"episodes": self.rows()}

    def _episode(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        trace = self.session.find(command.get("n"))
        steps, labels = trace.steps, self.desk.labels
        gamma = self.desk.opened.config.algo.gamma
        reason = analysis.why_incomparable(trace, self.desk.opened.config, self.desk.game)
        returns = None if reason else analysis.returns_to_go(trace, gamma)
        parts = sorted({name for step in steps for name in step.components})
        shown = [key for key, names in labels.observations.items() if names]
        seen = [trace.obs(t) for t in range(len(trace.marks))]
        return {
            **trace.row(),
            "frames": len(trace.marks),
            "t": [step.t for step in steps],
            "who": trace.who,
            "action": [step.action for step in steps],
            "label": [labels.text(step.action) for step in steps],
            "reward": [step.reward for step in steps],
            "total": [step.total + step.reward for step in steps],
            "value": [step.value for step in steps],
            "entropy": trace.entropies,
            **{
                name: self._choices(trace, key)
                for name, key in (("probs", "probability"), ("mean", "mean"), ("std", "std"))
            },
            "mask": [step.mask.tolist() for step in steps if step.mask is not None] or None,
            "components": {name: [step.components.get(name, 0.0) for step in steps] for name in parts},
            "variables": {
                name: [step.variables[name] for step in steps] for name in (steps[0].variables if steps else ())
            },
            "ledger": analysis.ledger(trace, self.desk.game.is_shaped),
            "obs": {key: [np.ravel(one[key])[:NAMED_COMPONENTS].tolist() for one in seen] for key in shown},
            "hash": trace.marks,
            "return_to_go": returns,
            "return_reason": reason,
            "return_note": None if returns is None else analysis.why_partly_known(trace, returns),
            "splits": self.desk.about["sizes"],
        }

    def _choices(self, trace: Trace, name: str) -> list[Any] | None:
        rows = [step.choices.get(name) for step in trace.steps]
        return rows if any(row is not None for row in rows) else None

    def _advantages(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        trace = self.session.find(command.get("n"))
        gamma, lam = (_share(command, key) for key in ("gamma", "lambda"))
        if not trace.steps or any(step.value is None for step in trace.steps):
            raise UserError("there is no value in this episode: no agent looked on.")
        if len(trace.networks) > 1:
            return {"reason": "Two networks looked on in this episode: their values do not make one advantage."}
        if (end := self.desk.game.learner_end) is not None:
            return {"reason": f"In training {end} ended the episode, and here it does not: its advantages were others."}
        final = 0.0
        if trace.outcome != "terminated":
            thinker = self.session.thinker(trace.who[-1], trace.checkpoints[-1])
            assert thinker is not None
            final = self.moments.thoughts(thinker, trace, trace.length)["value"]
        return analysis.advantages(trace, gamma, lam, final) | {"gamma": gamma, "lambda": lam, "final_value": final}

    # what if

    def _branch(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        parent = self.session.find(command.get("n"))
        t = whole(command, "t", 0, 0, max(0, parent.length - (parent.outcome is not None)))
        action = None if command.get("action") is None else self.desk.read_action(command["action"])
        then, checkpoint = command.get("then", parent.policy), text(command, "checkpoint") or parent.checkpoint
        seed = None if command.get("seed") is None else whole(command, "seed", 0, 0, 2**32 - 1)
        self.desk.playing = False
        with self.desk.game.unwatched():
            trace = self.session.branch(parent, t, action, then, checkpoint, seed)
        if then != "human":  # who goes on by `play`
            self._play_out(trace, then, checkpoint, number, 0, 1)
        row = next((row for row in self.rows() if row["n"] == trace.n), trace.row())
        return row | {"hash": parent.marks[t], "by": "snapshot" if self.desk.game.has_copies else "replay"}

    def _rollouts(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        trace = self.session.find(command.get("n"))
        t = whole(command, "t", 0, 0, max(0, trace.length - (trace.outcome is not None)))
        k, then = whole(command, "k", 10, 1, MOST_AT_ONCE), command.get("then", "sampled")
        checkpoint = text(command, "checkpoint") or trace.checkpoint
        if then == "human":
            raise UserError("then: 'human' cannot roll out.")
        gamma = self.desk.opened.config.algo.gamma
        thinker = self.session.thinker(then, checkpoint)
        viewer = thinker or self.moments.thinker(trace, None)
        seen = None if viewer is None else self.moments.thoughts(viewer, trace, t)
        self.desk.playing = False
        self.session.go_to(trace, t)
        greedy = None
        if viewer is not None:
            self.session.recall(viewer, trace, t)
            greedy = viewer.think(self.session.now, t, 0, sampled=False).action
        actions = candidates(self.session, trace, t, greedy, self.desk.keys.idle)
        rows, exact = roll_out(
            self.session, trace, t, actions, k, then, checkpoint, gamma,
            self.desk.inbox.is_cancelled, lambda done, total: self._progress(number, done, total, 0),
        )  # fmt: skip
        for row in rows:
            row["label"] = self.desk.labels.text(row["action"])
            probs = seen and seen["probs"]
            row["prob"] = probs[row["action"]] if probs and isinstance(row["action"], int) else None
        reason = None if seen is None else analysis.why_value_differs(self.desk.opened.config, self.desk.game)
        value = None if seen is None or reason else seen["value"]
        return {
            "actions": rows,
            "value": value,
            "value_reason": reason,
            "gamma": gamma,
            "then": then,
            "exact": exact,
            "n": trace.n,
            "t": t,
        }

    def _map(self, command: dict[str, Any], number: int) -> dict[str, Any]:
        checkpoint = text(command, "checkpoint")
        policy = "untrained" if command.get("policy") == "untrained" else "random"
        thinker = self.session.thinker(policy, checkpoint)
        return value_map(thinker.net if thinker else None, self.table, self.desk.game) | {
            "labels": self.desk.labels.actions
        }

    @property
    def table(self) -> Any:
        if self._table is False:
            self._table = table_of_game(self.desk.game)
        return self._table


def _share(command: dict[str, Any], key: str) -> float:
    value = command.get(key)
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(f"{key} is {value!r} and must be a number from 0 to 1.")
    return float(value)
