"""What may be changed in a run, and why: what its alerts advise, what is usual, and a ladder of general remedies.

Everything here comes from `gymnast.alerts`: its rules, its suspects and its careful steps. Nothing is invented a second
time, and nothing is advised that would change what "solved" means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.alerts import suspects as why
from gymnast.alerts.advice import KEEP, Suspect, careful_step, patched, plain, setting
from gymnast.alerts.text import evidence_of
from gymnast.core.text import setting as as_text

if TYPE_CHECKING:
    from gymnast.alerts.advice import Known
    from gymnast.alerts.alert import Alert

ALERT, USUAL, LADDER = "alert", "usual", "ladder"
# The agent itself is damaged: another setting from here on does not repair it, a new agent may do well.
BROKEN = {"not_finite", "entropy_collapse", "action_collapse", "dead_units", "gradient_vanishes", "entropy_falling"}
# Settings that may be changed. The others say what the task is and when it is solved, or where files go.
SECTIONS = ("algo.", "agent.", "env.reward.", "env.shaping.")
LENGTH = ("train.total_timesteps",)  # how long a run trains is the tuner's business
KEYS = ("env.n_envs", "env.max_episode_steps", *LENGTH)
ON_THE_WAY = ("agent.clip_obs", "agent.clip_reward")  # all other settings of an agent are meant for a new one
STEP = 5.0  # factor of a ladder's careful step


@dataclass(frozen=True)
class Advice:
    """One change to try."""

    kind: str  # alert, usual or ladder
    patch: dict[str, Any]  # dotted key: value
    reason: str
    rule: str | None = None  # the alert's
    firing: bool = False
    urgent: bool = False  # an error or a warning
    evidence: str = ""
    fresh: bool = False  # can only be tried by a new agent

    @property
    def text(self) -> str:
        return " ".join(f"{key}={as_text(value)}" for key, value in self.patch.items())


@dataclass
class Diagnosis:
    """What a run's alerts and last row say, and what could be changed."""

    broken: bool = False
    firing: list[str] = field(default_factory=list)  # rules
    advice: list[Advice] = field(default_factory=list)


def diagnose(alerts: list[Alert], known: Known, row: Mapping[str, float]) -> Diagnosis:
    firing = [alert.rule for alert in alerts if alert.firing]
    found = [*advised(alerts), *back_to_usual(known), *ladder(known, row)]
    unique: dict[str, Advice] = {}
    for advice in found:
        if is_allowed(advice.patch) and patched(known.config, advice.patch) is not None:
            unique.setdefault(advice.text, advice)
    return Diagnosis(any(rule in BROKEN for rule in firing), firing, list(unique.values()))


def is_allowed(patch: Mapping[str, Any]) -> bool:
    """A time limit may only be taken away: every other one is another task."""
    known = all(key.startswith(SECTIONS) or key in KEYS for key in patch)
    return bool(patch) and known and patch.get("env.max_episode_steps") is None


def needs_new_agent(patch: Mapping[str, Any]) -> bool:
    return any(key.startswith(("agent.", "algo.extensions")) and key not in ON_THE_WAY for key in patch)


def advised(alerts: list[Alert]) -> Iterator[Advice]:
    """What alerts advise: those that fire now first, and the most urgent of them."""
    for alert in sorted(alerts, key=lambda alert: not alert.firing):
        if alert.patch and not set(LENGTH) & alert.patch.keys():
            urgent = alert.severity != "info"
            yield Advice(
                ALERT,
                alert.patch,
                f"{alert.message} {alert.cause}",
                alert.rule,
                alert.firing,
                urgent,
                evidence_of(alert),
                alert.rule in BROKEN or needs_new_agent(alert.patch),
            )


def back_to_usual(known: Known) -> Iterator[Advice]:
    """Each setting that differs from the preset's or the target's own, alone and then all of them together."""
    for usual in known.usual:
        differing = {key: theirs for key, _, theirs in configs.diff(known.config, usual) if key not in LENGTH}
        changed = {key: theirs for key, theirs in differing.items() if is_allowed({key: theirs})}
        for key, value in changed.items():
            now = as_text(plain(setting(known.config, key)))
            reason = f"{key} is {now}, usual for {usual.env.id} is {as_text(value)}."
            yield Advice(USUAL, {key: value}, reason, fresh=needs_new_agent({key: value}))
        if len(changed) > 1:
            reason = f"{len(changed)} settings differ from what is usual for {usual.env.id}."
            yield Advice(USUAL, changed, reason, fresh=needs_new_agent(changed))


def ladder(known: Known, row: Mapping[str, float]) -> Iterator[Advice]:
    """A careful step of each setting that often holds learning back, those that the last row points at first."""
    for suspect in dict.fromkeys([*pointed_at(known, row), *GENERAL]):
        value = careful_step(known.config, suspect)
        if value is not KEEP:
            patch = {suspect.key: value}
            now = as_text(plain(setting(known.config, suspect.key)))
            yield Advice(LADDER, patch, f"{suspect.why} ({suspect.key} is {now}).", fresh=needs_new_agent(patch))


SLOWER, FASTER = replace(why.FAST, factor=STEP, limit=1e-5), replace(why.SLOW, factor=STEP)
LESS_ENTROPY, MORE_ENTROPY = why.MUCH_ENTROPY, replace(why.LITTLE_ENTROPY, limit=0.01)
FURTHER = replace(why.SHORT_SIGHT, factor=5.0)
GENERAL: tuple[Suspect, ...] = (
    SLOWER,
    FASTER,
    FURTHER,
    MORE_ENTROPY,
    LESS_ENTROPY,
    why.RAW_OBS,
    why.RAW_REWARD,
    why.WIDE_CLIP,
    why.NARROW_CLIP,
    why.MANY_EPOCHS,
    why.FEW_SAMPLES,
    why.TIGHT_LIMIT,
    why.WEAK_CRITIC,
)


def pointed_at(known: Known, row: Mapping[str, float]) -> Iterator[Suspect]:
    """What the numbers of the last row make likely. These are no alerts: values that are merely not the best."""
    kl, entropy, uniform = row.get("train/approx_kl"), row.get("train/entropy"), known.uniform_entropy
    share = entropy / uniform if entropy is not None and uniform else None
    horizon = 1.0 / max(1.0 - known.config.algo.gamma, 1e-9)
    if kl is not None and kl < 1e-3:
        yield FASTER
    if share is not None and share > 0.9:
        yield LESS_ENTROPY
    if row.get("rollout/ep_len_mean", 0.0) > horizon:
        yield FURTHER
    if kl is not None and kl > 0.05:
        yield SLOWER
    if share is not None and share < 0.2:
        yield MORE_ENTROPY
    if not 0.1 < row.get("rollout/obs_std", 1.0) < 10:
        yield why.RAW_OBS
    if not 0.1 < row.get("rollout/return_std", 1.0) < 10:
        yield why.RAW_REWARD
