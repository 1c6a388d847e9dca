"""A double of Super Mario Bros: a cartridge of our own, with a few lines of 6502 code, that keeps position, level,
lives, time and points where the real one keeps them. The emulator, the integration and everything above are real.

The world: RIGHT moves two pixels a frame. From 96 to 111 there is a hole, which kills whoever is not holding A; a life
is lost and the level begins again. At 320 the level is won, for 1,000 points, and the next one begins. Every 24 frames
the clock loses a tick. The screen has one
colour, which changes every 16 pixels.
"""

from __future__ import annotations

import gzip
from pathlib import Path

GAME = "SuperMarioBros-Nes-v0"
HOLE, END, SPEED, TICK = (96, 112), 320, 2, 24
# where the game keeps its numbers, as the integration's data.json says
X_HI, X_LO, LIVES, LEVEL_LO, LEVEL_HI, POINTS, CLOCK = 0x71A, 0x71C, 0x75A, 0x75C, 0x75F, 0x7DD, 0x7F8
FRAME = 0x10  # our own: frames until the next tick
BASE = 0xC000  # where 16 kB of program lie
BUTTONS = 0x11  # of the controller, A in the highest bit, RIGHT in the lowest


class Program:
    """6502 code by mnemonics, with labels for branches and jumps."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.labels: dict[str, int] = {}
        self._open: list[tuple[int, str, bool]] = []  # place, label, whether it is relative

    def label(self, name: str) -> None:
        self.labels[name] = BASE + len(self.code)

    def put(self, *parts: int) -> None:
        self.code += bytes(parts)

    def at(self, opcode: int, address: int) -> None:
        self.put(opcode, address & 255, address >> 8)

    def load(self, value: int) -> None:
        self.put(0xA9, value)  # LDA #

    def fetch(self, address: int) -> None:
        self.at(0xAD, address)  # LDA

    def store(self, address: int, value: int | None = None) -> None:
        if value is not None:
            self.load(value)
        self.at(0x8D, address)  # STA

    def branch(self, opcode: int, label: str) -> None:
        self.put(opcode, 0)
        self._open.append((len(self.code) - 1, label, True))

    def jump(self, label: str) -> None:
        self.put(0x4C, 0, 0)
        self._open.append((len(self.code) - 2, label, False))

    def finished(self) -> bytes:
        for place, label, relative in self._open:
            target = self.labels[label]
            if relative:
                self.code[place] = (target - (BASE + place + 1)) & 255
            else:
                self.code[place : place + 2] = bytes((target & 255, target >> 8))
        bank = self.code.ljust(0x4000 - 6, b"\0")
        for vector in ("frame", "start", "frame"):  # NMI, reset, IRQ
            bank += bytes((self.labels[vector] & 255, self.labels[vector] >> 8))
        return bytes(bank)


BNE, BEQ, BCC, BCS, BPL, BMI = 0xD0, 0xF0, 0x90, 0xB0, 0x10, 0x30


def cartridge() -> bytes:
    p = Program()
    p.label("start")
    p.put(0x78, 0xD8, 0xA2, 0xFF, 0x9A)  # SEI, CLD, LDX #FF, TXS
    for wait in ("vblank1", "vblank2"):
        p.label(wait)
        p.at(0x2C, 0x2002)  # BIT
        p.branch(BPL, wait)
    for address in (X_HI, X_LO, LEVEL_LO, LEVEL_HI, *range(POINTS, POINTS + 6)):
        p.store(address, 0)
    p.store(LIVES, 2)
    for place, digit in enumerate((4, 0, 0)):
        p.store(CLOCK + place, digit)
    p.store(FRAME, TICK)
    p.store(0x2000, 0x80)  # NMI on
    p.label("idle")
    p.jump("idle")

    p.label("frame")
    p.fetch(LIVES)
    p.branch(BPL, "alive")
    p.put(0x40)  # RTI: the game is over
    p.label("alive")
    p.store(0x4016, 1)
    p.store(0x4016, 0)
    p.put(0xA2, 8)  # LDX #8
    p.label("read")
    p.fetch(0x4016)
    p.put(0x4A, 0x26, BUTTONS)  # LSR, ROL zero page
    p.put(0xCA)  # DEX
    p.branch(BNE, "read")
    _clock(p)
    _walk(p)
    _draw(p)
    p.put(0x40)  # RTI
    header = b"NES\x1a" + bytes((1, 0, 0, 0)) + bytes(8)  # 16 kB of program, no pictures, no mapper
    return header + p.finished()


def _clock(p: Program) -> None:
    p.at(0xCE, FRAME)  # DEC
    p.branch(BNE, "ticked")
    p.store(FRAME, TICK)
    for digit in (2, 1, 0):  # a digit below 0 borrows from the next
        p.at(0xCE, CLOCK + digit)
        p.fetch(CLOCK + digit)
        p.branch(BPL, "ticked")
        p.store(CLOCK + digit, 9)
    p.label("ticked")


def _walk(p: Program) -> None:
    p.put(0xA5, BUTTONS, 0x29, 1)  # LDA zero page, AND #1: RIGHT
    p.branch(BEQ, "stood")
    p.put(0x18)  # CLC
    p.fetch(X_LO)
    p.put(0x69, SPEED)  # ADC #
    p.store(X_LO)
    p.branch(BCC, "stood")
    p.at(0xEE, X_HI)  # INC
    p.label("stood")
    p.fetch(X_HI)
    p.branch(BNE, "late")
    p.fetch(X_LO)
    p.put(0xC9, HOLE[0])  # CMP #
    p.branch(BCC, "walked")
    p.put(0xC9, HOLE[1])
    p.branch(BCS, "walked")
    p.put(0xA5, BUTTONS, 0x29, 0x80)  # A
    p.branch(BNE, "walked")
    p.at(0xCE, LIVES)
    p.store(X_LO, 0)
    p.jump("walked")
    p.label("late")
    p.fetch(X_LO)
    p.put(0xC9, END - 256)
    p.branch(BCC, "walked")
    p.store(X_LO, 0)  # the level is won
    p.store(X_HI)
    p.at(0xEE, LEVEL_LO)
    p.at(0xEE, POINTS + 2)  # 1,000 points: the third of six digits
    p.label("walked")


def _draw(p: Program) -> None:
    """The colour of the background is that of the place."""
    p.store(0x2006, 0x3F)
    p.store(0x2006, 0)
    p.fetch(X_LO)
    p.put(0x4A, 0x4A, 0x4A, 0x4A, 0x18, 0x69, 0x11)  # LSR x 4, CLC, ADC #: a column of bright colours
    p.store(0x2007)
    p.store(0x2006, 0x3F)
    p.store(0x2006, 0)


def install(folder: Path, levels: tuple[str, ...] = ("Level1-1", "Level2-1", "Level3-1")) -> None:
    """Writes the cartridge and a savestate of each level into a user's folder for ROMs ($GYMNAST_RETRO)."""
    from gymnast.envs.suites.retro.console import Console

    place = folder / GAME
    place.mkdir(parents=True)
    (place / "rom.nes").write_bytes(cartridge())
    console = Console(GAME)
    for _ in range(4):  # until it has written its numbers
        console.frame(0)
    for name in levels:
        world, level = name.removeprefix("Level").split("-")
        Console._env.data.set_value("levelHi", int(world) - 1)
        Console._env.data.set_value("levelLo", int(level) - 1)
        (place / f"{name}.state").write_bytes(gzip.compress(console.save()))
    console.close()
