"""What a rule is, and how one is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymnast.alerts.advice import Known, Suspect
from gymnast.alerts.conditions import Found, Memory, Row

if TYPE_CHECKING:
    from gymnast.config import RunConfig

Test = Callable[[Row, Known, Memory], Found]
Cures = Callable[[Known, "RunConfig"], bool]


@dataclass(frozen=True)
class Rule:
    name: str
    severity: str
    rows: int  # bad rows before it fires; a good row takes one back, so noise neither raises an alert nor clears it
    message: str
    otherwise: str  # the likely cause, where no setting can be blamed
    suspects: tuple[Suspect, ...]
    test: Test
    cures: Cures | None = None  # where settings alone tell whether a patch would clear it
    outside: str | None = None  # how metrics begin that no suspect changes: where they are bad, none is blamed
    by_design: bool = False  # silent where what it suspects is what the env's preset was tuned with
    compares: bool = True  # whether any setting that differs from the preset's may be the cause


RULES: list[Rule] = []


def rule(
    severity: str,
    rows: int,
    message: str,
    otherwise: str,
    *suspects: Suspect,
    cures: Cures | None = None,
    outside: str | None = None,
    by_design: bool = False,
    compares: bool = True,
) -> Callable[[Test], Test]:
    def add(test: Test) -> Test:
        found = Rule(
            test.__name__, severity, rows, message, otherwise, suspects, test, cures, outside, by_design, compares
        )
        RULES.append(found)
        return test

    return add
