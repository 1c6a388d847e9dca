"""Keeps a run's alerts: fed every row, it says what is wrong. It sees rows alone and can change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast.alerts.advice import Known, Origin, advise, is_by_design
from gymnast.alerts.alert import Alert
from gymnast.alerts.conditions import Found, Memory, Row, note_returns
from gymnast.alerts.rules import RULES, Rule
from gymnast.core.typed import Count, Number, Text, typed


class _Origin(TypedDict):
    target: Text
    settings: list[Text]


class Saved(TypedDict):
    """A book in a checkpoint."""

    rows: Count
    env_steps: Count
    alerts: list[Alert]
    heat: dict[str, Count]
    memory: dict[str, dict[str, Number]]
    origin: _Origin | None


SAVED = TypeAdapter(Saved)
RETURNS = "returns"  # what is known of them, among the memories of rules


class AlertBook:
    """`check` each row once, in order. What it remembers is part of a checkpoint."""

    def __init__(self, known: Known, rules: Iterable[Rule] = RULES) -> None:
        self.known = known
        self.rules = tuple(rules)
        self._begin_run()

    def _begin_run(self) -> None:
        self.rows = self.env_steps = 0
        self._alerts: dict[str, Alert] = {}
        self._heat = dict.fromkeys((rule.name for rule in self.rules), 0)
        self._memory: dict[str, Memory] = {rule.name: {} for rule in self.rules}
        self.known.returns = {}

    @property
    def alerts(self) -> list[Alert]:
        """All so far, most urgent first."""
        places = {rule.name: place for place, rule in enumerate(self.rules)}
        return sorted(self._alerts.values(), key=lambda alert: (*alert.urgency, places.get(alert.rule, 0)))

    def check(self, row: Row) -> list[Alert]:
        """Looks at a new row; returns all alerts of the run so far."""
        self.rows += 1
        self.env_steps = int(row["time/total_timesteps"])
        note_returns(row, self.known)
        for rule in self.rules:
            name = rule.name
            found = rule.test(row, self.known, self._memory[name])
            if found is None:
                continue
            if found and rule.by_design and is_by_design(self.known, rule.suspects):
                found = {}
            heat = self._heat[name]
            if found:
                heat = self._heat[name] = min(heat + 1, rule.rows)
            elif heat:
                heat = self._heat[name] = heat - 1
            else:
                continue
            self._note(rule, found, heat)
        return self.alerts if self._alerts else []

    def _note(self, rule: Rule, found: Found, heat: int) -> None:
        alert = self._alerts.get(rule.name)
        if alert is None:
            if heat < rule.rows:
                return
            alert = self._alerts[rule.name] = self._begin(rule, found)
        alert.firing = heat > 0 if alert.firing else heat == rule.rows
        if found and alert.firing:
            alert.count += 1
            alert.last, alert.evidence = self.env_steps, found

    def _begin(self, rule: Rule, found: Found) -> Alert:
        outside = rule.outside is not None and any(name.startswith(rule.outside) for name in found or ())
        suspects = () if outside else rule.suspects
        cause, patch = advise(self.known, suspects, rule.otherwise, rule.cures, rule.compares)
        origin = self.known.origin
        return Alert(
            rule=rule.name,
            severity=rule.severity,
            since=self.env_steps,
            last=self.env_steps,
            count=0,
            firing=True,
            message=rule.message,
            cause=cause[:1].upper() + cause[1:],
            patch=patch,
            command=origin.command(patch) if origin is not None and patch else None,
        )

    def forget(self, fresh: bool) -> None:
        """Another run of the same agent begins; `fresh`: one that has learned nothing yet."""
        self.known.fresh = fresh
        self._begin_run()

    def begin_stage(self, known: Known) -> None:
        """Another env begins: rows are compared with those from here on. Alerts so far stay, and none is firing."""
        known.origin, known.fresh = self.known.origin, False
        self.known = known
        self._heat = dict.fromkeys(self._heat, 0)
        self._memory = {name: {} for name in self._memory}
        for alert in self._alerts.values():
            alert.firing = False

    def state(self) -> dict[str, Any]:
        """As JSON, for a checkpoint."""
        memories = {**self._memory, RETURNS: self.known.returns}
        return {
            "rows": self.rows,
            "env_steps": self.env_steps,
            "alerts": [alert.to_json() for alert in self._alerts.values()],
            "heat": {name: heat for name, heat in self._heat.items() if heat},
            "memory": {name: dict(memory) for name, memory in memories.items() if memory},
            "origin": None if self.known.origin is None else asdict(self.known.origin),
        }

    def load(self, state: dict[str, Any]) -> None:
        """ValueError where it is no state of a book."""
        saved = typed(SAVED, state)
        self.rows, self.env_steps = saved["rows"], saved["env_steps"]
        self._alerts = {alert.rule: alert for alert in saved["alerts"]}
        self._heat |= {name: heat for name, heat in saved["heat"].items() if name in self._heat}
        self._memory |= {name: dict(memory) for name, memory in saved["memory"].items() if name in self._memory}
        self.known.returns = dict(saved["memory"].get(RETURNS, {}))
        if saved["origin"] is not None:
            self.known.origin = Origin(saved["origin"]["target"], tuple(saved["origin"]["settings"]))
