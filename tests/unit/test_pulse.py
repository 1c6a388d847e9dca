"""What signals do while a run trains, in this process: each is sent to it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from gymnast.core.pulse import ENDS, Pulse


class Heard(Exception):
    """A signal came to the handler that was there before."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """That raise, and not those of pytest or of the system, which would end it."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise Heard

    before = {number: signal.signal(number, handler) for number in ENDS}
    yield
    for number, handler_before in before.items():
        signal.signal(number, handler_before)


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_for_an_end_and_the_second_acts_as_ever(first: int, second: int) -> None:
    pulse, called = Pulse(), []
    pulse.on_stop = lambda: called.append(pulse.stopping)
    with pulse.listening():
        signal.raise_signal(first)
        assert called == [True]
        if first == signal.SIGHUP:  # it is not counted: a batch system may say SIGTERM after it
            signal.raise_signal(second)
        with pytest.raises(Heard):
            signal.raise_signal(second)


def test_a_terminal_may_say_several_times_that_it_is_closed() -> None:
    """A shell passes on what the system has sent to the process already. It must be able to write its checkpoint."""
    pulse = Pulse()
    with pulse.listening():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert pulse.stopping
    signal.raise_signal(signal.SIGHUP)  # nor afterwards, while report and summary are written
    assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)


@pytest.mark.parametrize("number", ENDS)
def test_what_is_ignored_stays_ignored(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)
    pulse = Pulse()
    with pulse.listening():
        signal.raise_signal(number)
        assert not pulse.stopping
    assert signal.getsignal(number) == signal.SIG_IGN


def test_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in ENDS]
    with Pulse().listening():
        assert [signal.getsignal(number) for number in ENDS] != before
    assert [signal.getsignal(number) for number in ENDS] == before
