"""From an alert to one change of the config: whichever suspect is furthest from what is usual, else a careful step."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gymnast.config import layers
from gymnast.config.files import is_preset
from gymnast.core.errors import UserError
from gymnast.core.schedule import Schedule
from gymnast.core.text import setting as as_text

if TYPE_CHECKING:
    from gymnast.config import EnvFacts, RunConfig

KEEP = object()  # no value: leave the setting as it is
SPACE_KEYS = ("agent.normalize_obs", "algo.ent_coef")  # of an env without a preset
LEARNING = ("env.", "agent.", "algo.")  # settings that learning depends on
HARMLESS = ("env.id", "env.engine", "env.step_timeout")  # but for these
FREE = ("train.", "stop.")  # no part of what a preset's tuning found good
NAMED = 4  # differing settings in a sentence
UNCHANGED = "All settings are those tuned for this env: another seed shows whether this one had bad luck."
UNUSUAL = 2.0  # factor between a setting and its usual value from which it is suspected before all others


@dataclass(frozen=True)
class Origin:
    """What a user typed to start the run."""

    target: str
    settings: tuple[str, ...] = ()  # key=value, as after --set

    def command(self, patch: dict[str, Any]) -> str:
        """The same run with the patch on top."""
        kept = [text for text in self.settings if text.partition("=")[0].strip() not in patch]
        changed = [f"{key}={as_text(value)}" for key, value in patch.items()]
        words = [word for text in [*kept, *changed] for word in ("--set", text)]
        return shlex.join(["gymnast", "train", self.target, *words])


@dataclass
class Known:
    """What rules and advice may lean on besides the rows: settings, the env's facts, the usual settings for it."""

    config: RunConfig
    facts: EnvFacts | None = None
    threshold: float | None = None
    uniform_entropy: float | None = None  # of the policy that prefers nothing; None: continuous, or masks change it
    origin: Origin | None = None
    fresh: bool = True  # False: the agent had learned something before the run
    stage: int = 0
    returns: dict[str, float] = field(default_factory=dict)  # of the run so far: see `conditions.note_returns`

    @cached_property
    def _compared(self) -> dict[str, RunConfig]:
        from gymnast import config as configs

        env_id, algo = self.config.env.id, self.config.algo.name
        found = {}
        for target in dict.fromkeys(([self.origin.target] if self.origin else []) + [f"{env_id}:{algo}"]):
            try:
                resolved = configs.load(target)
            except UserError:  # an env or a file that is not there under this name: there is nothing to compare with
                continue
            # what came from the spaces is usual, unless somebody set it
            given = {text.partition("=")[0].strip() for text in (self.origin.settings if self.origin else ())}
            values = {key: plain(setting(self.config, key)) for key in SPACE_KEYS if key not in given}
            if resolved.config.algo.name == algo:
                config = configs.with_space_defaults(resolved, values).config
                found[target] = config.in_stage(min(self.stage, max(len(config.stages) - 1, 0)))
        return found

    @cached_property
    def usual(self) -> list[RunConfig]:
        """The target as it is without the user's settings, and the preset of this env and algorithm. Read when asked:
        a run without alerts never does."""
        return list(self._compared.values())

    @property
    def presets(self) -> list[RunConfig]:
        """Those of `usual` that come with Gymnast, tuned for this env: their values are not what is wrong."""
        names = {target: layers.split_target(target)[0] for target in self._compared} if self.usual else {}
        return [self._compared[target] for target, name in names.items() if is_preset(name)]

    @property
    def tuned(self) -> RunConfig | None:
        """What somebody tuned for this env: the target itself, or where that is a user's file the env's preset. None:
        there is none, or nothing of it was changed."""
        origin = self.origin
        is_file = origin is not None and layers.split_target(origin.target)[0].endswith((".yaml", ".yml"))
        if origin is None or is_file:
            return self.usual[-1] if self.facts is not None and self.usual else None
        return self.usual[0] if origin.settings and self.usual else None


def is_shortened(known: Known) -> bool:
    """Whether the config's time limit is shorter than the env's own."""
    own, limit = known.facts.max_episode_steps if known.facts else None, known.config.env.max_episode_steps
    return own is not None and limit is not None and limit < own


@dataclass(frozen=True)
class Suspect:
    """A setting that may be behind an alert, `wrong` when it is too high, too low or (a switch) not `value`."""

    key: str
    wrong: str  # high, low or switch
    why: str  # "the learning rate is too high", without a full stop
    factor: float = 10.0  # the careful step, where nothing usual is known
    limit: float | None = None  # the step goes no further than this, and is not taken from beyond it
    value: Any = None  # of a switch
    only: Callable[[Known], bool] | None = None  # where nothing usual is known, it must be so
    also: tuple[tuple[str, Any], ...] = ()  # further settings that go with a careful step


def advise(
    known: Known,
    suspects: Sequence[Suspect],
    otherwise: str,
    cures: Callable[[Known, RunConfig], bool] | None = None,
    compares: bool = True,
) -> tuple[str, dict[str, Any] | None]:
    """The likely cause, and the change that would clear it. `otherwise`: the cause where nothing can be changed.

    `cures`: whether another config is free of the fault, where a config alone tells; then no other change is advised.
    `compares`: where no suspect differs from a preset's value, whatever else does may be the cause. A preset's own
    values are not advised against.
    """
    config, preset = known.config, next(iter(known.presets), None)
    suspects = tuple(named(config, suspects))
    own = [one for one in suspects if preset is None or not fits(config, preset, one)]
    for usual in known.usual:
        for group in to_blame(config, usual, own if cures is None else suspects, together=cures is not None):
            patch = {suspect.key: plain(setting(usual, suspect.key)) for suspect in group}
            changed = patched(config, patch)
            if changed is not None and (cures is None or cures(known, changed)):
                return f"{group[0].why}: {', and '.join(described(config, usual, one) for one in group)}.", patch
    if cures is not None:
        return otherwise, None
    free = [] if preset is None else [one for one in suspects if one.key.startswith(FREE)]
    if (found := stepped(known, [one for one in own if one not in free])) is not None:
        return found
    if preset is not None and compares and (differing := differences(config, preset)):
        return named_differences(config, preset, differing)
    if (found := stepped(known, free)) is not None:
        return found
    same = preset is not None and suspects and compares
    return f"{otherwise} {UNCHANGED}" if same else otherwise, None


def stepped(known: Known, suspects: Sequence[Suspect]) -> tuple[str, dict[str, Any]] | None:
    """A careful step of the first suspect that allows one."""
    config = known.config
    for suspect in suspects:
        step = careful_step(config, suspect) if suspect.only is None or suspect.only(known) else KEEP
        if step is not KEEP and patched(config, {suspect.key: step}) is not None:
            now = as_text(plain(setting(config, suspect.key)))
            return f"{suspect.why} ({suspect.key} is {now}).", {suspect.key: step, **dict(suspect.also)}
    return None


def fits(config: RunConfig, preset: RunConfig, suspect: Suspect) -> bool:
    """Whether a setting is the preset's, or off in the direction that does not do this harm."""
    mine, theirs = setting(config, suspect.key), setting(preset, suspect.key)
    if suspect.wrong == "switch" or theirs is None:
        return bool(mine == theirs)
    return unusual(config, preset, suspect) <= 1.0


def is_by_design(known: Known, suspects: Sequence[Suspect]) -> bool:
    """Whether everything suspected is as in a preset, and no wrapper changes what it is applied to."""
    keys = ["env.wrappers", *(suspect.key.removesuffix(".*") for suspect in suspects)]
    return any(all(setting(known.config, key) == setting(preset, key) for key in keys) for preset in known.presets)


def differences(config: RunConfig, preset: RunConfig) -> dict[str, Any]:
    """The preset's values of what a run does otherwise, as far as learning can depend on it."""
    from gymnast import config as configs

    found = configs.diff(config, preset)
    return {key: theirs for key, _, theirs in found if key.startswith(LEARNING) and key not in HARMLESS}


def named_differences(
    config: RunConfig, preset: RunConfig, differing: dict[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    """Says which settings are not the preset's, with the change that takes them back."""
    texts = [
        f"{key} is {as_text(plain(setting(config, key)))} instead of {as_text(differing[key])}" for key in differing
    ]
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    cause = f"the run differs from the settings tuned for {preset.env.id}: {', '.join(texts[:NAMED])}{more}."
    return cause, differing if patched(config, differing) is not None else None


def to_blame(
    config: RunConfig, usual: RunConfig, suspects: Sequence[Suspect], together: bool
) -> Iterator[Sequence[Suspect]]:
    """Each suspect that is far from what is usual, the furthest first; `together`: then all that differ at once."""
    found = [(unusual(config, usual, suspect), suspect) for suspect in suspects]
    found.sort(key=lambda pair: -pair[0])
    yield from ([suspect] for distance, suspect in found if distance >= UNUSUAL)
    if together and (group := [suspect for distance, suspect in found if distance > 1.0]):
        yield group


def named(config: RunConfig, suspects: Sequence[Suspect]) -> Iterator[Suspect]:
    """`env.shaping.*` stands for each name that the config has there."""
    for suspect in suspects:
        section, star, _ = suspect.key.partition(".*")
        if not star:
            yield suspect
        for name in setting(config, section) or () if star else ():
            yield replace(suspect, key=f"{section}.{name}")


def unusual(config: RunConfig, usual: RunConfig, suspect: Suspect) -> float:
    """By what factor a setting is off in the direction that does this harm; 0 where that is unknown."""
    mine, theirs = setting(config, suspect.key), setting(usual, suspect.key)
    if suspect.wrong == "switch":
        return UNUSUAL if mine != theirs == suspect.value else 0.0
    a, b = size(suspect.key, mine), size(suspect.key, theirs)
    if a is None or b is None or a == b:
        return 0.0
    ratio = a / b if suspect.wrong == "high" else b / a
    return ratio if math.isfinite(ratio) else math.inf


def careful_step(config: RunConfig, suspect: Suspect) -> Any:
    """The value to try where nothing usual is known; KEEP where the setting is not the one to change."""
    value = setting(config, suspect.key)
    if suspect.wrong == "switch":
        return KEEP if value == suspect.value else suspect.value
    now = size(suspect.key, value)
    if now is None:
        return KEEP
    high = suspect.wrong == "high"
    if suspect.limit is not None and (now <= suspect.limit if high else now >= suspect.limit):
        return KEEP
    target = now / suspect.factor if high else now * suspect.factor
    if suspect.limit is not None:
        target = max(target, suspect.limit) if high else min(target, suspect.limit)
    return resized(suspect.key, value, target / now)


# Sizes whose ratio says how far apart two settings are. A share close to 1 is measured by its distance from it: 0.99
# looks a hundred steps ahead, 0.5 two. Zero is as good as this much of a weight.
FLOORS = {"algo.ent_coef": 1e-3, "algo.vf_coef": 1e-3}


def size(key: str, value: Any) -> float | None:
    if isinstance(value, Schedule):
        value = value.highest
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if key in ("algo.gamma", "algo.gae_lambda"):
        return 1.0 / max(1.0 - value, 1e-4)
    return max(abs(float(value)), FLOORS.get(key, 1e-12))


def resized(key: str, value: Any, ratio: float) -> Any:
    """The value with its size changed by that ratio, in the form it was written in, with two digits."""
    if isinstance(value, Schedule):
        if value.highest <= 0:
            return rounded(FLOORS.get(key, 1e-3) * ratio)
        return plain(Schedule(tuple((at, rounded(knot * ratio)) for at, knot in value.knots), value.shape, value.floor))
    if key in ("algo.gamma", "algo.gae_lambda"):
        return rounded(1.0 - max(1.0 - value, 1e-4) / ratio, 4)
    if isinstance(value, int):
        return max(1, round(value * ratio))
    return rounded(value * ratio)


def rounded(value: float, digits: int = 2) -> float:
    return float(f"{value:.{digits}g}")


def setting(config: RunConfig, key: str) -> Any:
    """The value at a dotted key; None where this config has none."""
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value


def plain(value: Any) -> Any:
    return value.to_form() if isinstance(value, Schedule) else value


def patched(config: RunConfig, patch: dict[str, Any]) -> RunConfig | None:
    """The config with a patch on top; None where that is no valid one."""
    from gymnast import config as configs

    try:
        return configs.override(config, [f"{key}={as_text(value)}" for key, value in patch.items()])
    except UserError:
        return None


def described(config: RunConfig, usual: RunConfig, suspect: Suspect) -> str:
    distance = unusual(config, usual, suspect)
    mine, theirs = (as_text(plain(setting(c, suspect.key))) for c in (config, usual))
    text = f"{suspect.key} is {mine}, usual for {usual.env.id} is {theirs}"
    if suspect.wrong == "switch" or not math.isfinite(distance) or suspect.key in FLOORS:
        return text
    if suspect.key == "algo.gamma":
        steps = [f"{size('algo.gamma', setting(c, suspect.key)) or 0:.0f}" for c in (config, usual)]
        return f"{text} (it looks {steps[0]} step{'' if steps[0] == '1' else 's'} ahead instead of {steps[1]})"
    times = f"{distance:,.0f}" if distance < 1e6 else "over a million"
    return f"{text} ({times} times {'less' if suspect.wrong == 'high' else 'more'})"
