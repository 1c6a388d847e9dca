"""Keys of a keyboard for the actions of any env, by what the actions are called.

Keys are named by their place, as a browser's `KeyboardEvent.code` does. Arrow keys and WASD are directions, the space
bar is FIRE; what has no direction gets digits, then letters. Several keys together are the action that has most of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from gymnast.play.step_table import Labels

CODES = {
    "left": ("ArrowLeft", "KeyA"),
    "right": ("ArrowRight", "KeyD"),
    "up": ("ArrowUp", "KeyW"),
    "down": ("ArrowDown", "KeyS"),
    "fire": ("Space",),
    "use": ("Enter",),
    "run": ("ShiftLeft",),
    "step left": ("KeyA",),  # of somebody who can turn as well: the arrow keys turn
    "step right": ("KeyD",),
}
SIDESTEPS = {"left": "step left", "right": "step right"}
WORDS = {
    **{word: word for word in ("left", "right", "up", "down", "fire", "use")},
    "west": "left",
    "east": "right",
    "north": "up",
    "south": "down",
    "main": "up",
    "forward": "up",
    "gas": "up",
    "backward": "down",
    "brake": "down",
    "side": "right",
    "steer": "right",
    "steering": "right",
    "attack": "fire",
    "shoot": "fire",
    "jump": "fire",
    "speed": "run",
    "a": "fire",  # the buttons of a console
    "b": "use",
    "-1": "left",
    "+1": "right",
}
PHRASES = {"pick up": ["fire"], "pickup": ["fire"], "drop off": ["use"], "drop": ["use"], "dropoff": ["use"]}
IDLE = {"noop", "no-op", "nothing", "do nothing", "coast", "stay", "idle", "none", "torque 0", "stop"}
JOYSTICK = re.compile(r"(up|down)?(left|right)?(fire)?")  # ALE's names of keys held together: UPRIGHTFIRE
OPPOSITE = {"up": "down", "right": "left", "down": "up", "left": "right"}
PAIRS = (("left", "right"), ("down", "up"))
MORE_PAIRS = (
    ("KeyF", "KeyH"),
    ("KeyG", "KeyT"),
    ("KeyJ", "KeyL"),
    ("KeyK", "KeyI"),
    ("KeyV", "KeyB"),
    ("KeyN", "KeyM"),
)
SPARE = tuple(f"Digit{digit}" for digit in (*range(1, 10), 0)) + tuple(
    f"Key{letter}" for letter in "QERTYUIOPFGHJKLZXCVBNM"
)


def directions(label: str, turns: bool = False) -> frozenset[str]:
    """What an action's name says that it does; nothing: no direction. `turns`: other actions turn, so that moving to
    the left is something else."""
    name = label.lower().strip()
    if turns:
        buttons = name.split("+")
        return frozenset(
            SIDESTEPS[one] if button.startswith("move") and one in SIDESTEPS else one
            for button in buttons
            for one in directions(button)
        )
    if name in PHRASES:
        return frozenset(PHRASES[name])
    if name and (held := JOYSTICK.fullmatch(name)):
        return frozenset(filter(None, held.groups()))
    return frozenset(WORDS[word] for word in re.split(r"[\s_/+]+(?!1$)", name) if word in WORDS)


def shown_name(label: str, turned: Mapping[str, str]) -> str:
    """An action's name by the direction in which people see it move: "up (RIGHT)"; else as it is."""
    named = directions(label)
    seen = {turned.get(one, one) for one in named}
    return label if seen == named else f"{' + '.join(sorted(seen, key=list(CODES).index))} ({label})"


class Keys:
    """From keys that are down to an action. `idle`: the action of no key; None: there is none, so time stands still.

    `turned`: other directions in which an env shows what its actions move: {"right": "up"} in Pong.
    """

    def __init__(self, space: gym.Space[Any], labels: Labels, turned: Mapping[str, str] | None = None) -> None:
        self.space, self.labels, self._turned = space, labels, dict(turned or {})
        self.by_code: dict[str, Any] = {}  # what a key does alone: an action, or [component, choice]
        self.rows: list[dict[str, Any]] = []  # for people: keys and what they do together
        self.idle: Any = None
        self._held: dict[str, str] = {}  # a key's direction
        names = [name.lower() for name in labels.actions]
        self._turns = any("turn_left" in name for name in names) and any("move_left" in name for name in names)
        if isinstance(space, gym.spaces.Box):
            self.kind = "continuous"
            self._continuous()
        elif isinstance(space, gym.spaces.Discrete):
            self.kind = "discrete"
            self._discrete()
        else:
            self.kind = "multi_binary" if isinstance(space, gym.spaces.MultiBinary) else "multi_discrete"
            self._several()

    @property
    def codes(self) -> set[str]:
        """All keys that do something."""
        return {*self.by_code, *self._held}

    def action(self, down: Iterable[str]) -> Any:
        """Of keys that are down; None: nothing is done, and nothing happens."""
        codes = [code for code in down if code in self.by_code or code in self._held]
        if self.kind == "discrete":
            return self._chosen(codes)
        action = np.array(self.idle)
        flat = action.reshape(-1)
        for code in codes:
            component, value = self.by_code[code]
            flat[component] = (
                value if self.kind != "continuous" else np.clip(flat[component] + value, *self._bounds(component))
            )
        return action

    def _bounds(self, component: int) -> tuple[float, float]:
        assert self.labels.bounds is not None
        return self.labels.bounds[component]

    def _chosen(self, codes: Sequence[str]) -> Any:
        named = [self.by_code[code] for code in codes if code not in self._held]
        if named:
            return named[-1]
        held = {self._held[code] for code in codes}
        fits = [(len(wanted), -action) for action, wanted in self._wanted.items() if wanted <= held]
        return -max(fits)[1] if fits else self.idle

    def _discrete(self) -> None:
        names = self.labels.actions
        self._wanted: dict[int, frozenset[str]] = {}
        for action, name in enumerate(names):
            wanted = directions(name, self._turns)
            if name.lower() in IDLE:
                self.idle = action if self.idle is None else self.idle
            elif wanted and wanted not in self._wanted.values():
                self._wanted[action] = wanted
        self._idle_with_fire()
        for action, wanted in self._wanted.items():
            codes = [self._codes(one) for one in sorted(wanted, key=list(CODES).index)]
            self._held |= {
                code: one
                for one, group in zip(sorted(wanted, key=list(CODES).index), codes, strict=True)
                for code in group
            }
            if len(codes) == 1:
                self.by_code |= dict.fromkeys(codes[0], action)
            shown = list(codes[0]) if len(codes) == 1 else [group[0] for group in codes]
            self.rows.append({"keys": shown, "together": len(codes) > 1, "label": names[action]})
        spare = [code for code in SPARE if code not in self._held]
        for action, name in enumerate(names):
            if action in self._wanted or action == self.idle:
                continue
            number = re.search(r"(?:\b|WEAPON)(\d)$", name)
            code = f"Digit{number[1]}" if number and f"Digit{number[1]}" in spare else next(iter(spare), None)
            if code is not None:
                spare.remove(code)
                self.by_code[code] = action
                self.rows.append({"keys": [code], "together": False, "label": name})
        if self.idle is not None:
            self.rows.append({"keys": [], "together": False, "label": names[self.idle]})

    def _idle_with_fire(self) -> None:
        """A joystick without NOOP: FIRE is the action of no key, and what all actions press needs no key."""
        if self.idle is not None or "FIRE" not in self.labels.actions:
            return
        self.idle = self.labels.actions.index("FIRE")
        del self._wanted[self.idle]
        if all("fire" in wanted for wanted in self._wanted.values()):
            self._wanted = {action: wanted - {"fire"} for action, wanted in self._wanted.items()}

    def _codes(self, direction: str) -> tuple[str, ...]:
        more = self._turned.get(direction)
        codes = CODES[direction][:1] if self._turns and direction in SIDESTEPS else CODES[direction]
        return codes + (CODES[more] if more else ())

    def _continuous(self) -> None:
        names, bounds = self.labels.actions, self.labels.bounds or []
        self.idle = np.array([min(max(0.0, low), high) for low, high in bounds], np.float32).reshape(
            self.space.shape or ()
        )
        free = [
            *(tuple(zip(CODES[low], CODES[high], strict=True)) for low, high in PAIRS),
            *((pair,) for pair in MORE_PAIRS),
        ]
        wanted = [next(iter(directions(name) & set(OPPOSITE)), None) for name in names]
        taken: dict[int, tuple[tuple[str, str], ...]] = {}
        for component, one in enumerate(wanted):
            group = 0 if one in PAIRS[0] else 1
            if one is not None and free[group] not in taken.values():
                taken[component] = free[group]
        rest = iter([group for group in free if group not in taken.values()])
        for component in range(len(names)):
            if component not in taken and (others := next(rest, None)) is not None:
                taken[component] = others
        for component, (name, (low, high)) in enumerate(zip(names, bounds, strict=True)):
            for less, more in taken.get(component, ()):
                self.by_code |= {less: [component, low], more: [component, high]}
            if component in taken:
                self.rows.append({"keys": [taken[component][0][0]], "together": False, "label": f"{name} {low:g}"})
                self.rows.append({"keys": [taken[component][0][1]], "together": False, "label": f"{name} {high:g}"})

    def _several(self) -> None:
        """Buttons, or choices of several components: every choice but the first of each has a key."""
        names, sizes = self.labels.actions, self.labels.sizes
        self.idle = np.zeros(self.space.shape or (), self.space.dtype)
        pairs = (
            [(i, 1) for i in range(len(names))]
            if sizes is None
            else [(i, j) for i, n in enumerate(sizes) for j in range(n)]
        )
        spare = list(SPARE)
        for name, (component, choice) in zip(names, pairs, strict=True):
            if choice == 0:
                continue
            wanted = directions(name, self._turns)
            codes = list(self._codes(next(iter(wanted)))) if len(wanted) == 1 else []
            codes = [code for code in codes if code not in self.by_code] or spare[:1]
            spare = [code for code in spare if code not in codes]
            self.by_code |= {code: [component, choice] for code in codes}
            self.rows.append({"keys": codes, "together": False, "label": name})
