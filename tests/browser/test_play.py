"""Play in a real browser: keys that reach the env, frames that are the env's own, take over and give back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gymnast.config.files import preset_ids
from tests.browser.conftest import PHONE, Open
from tests.browser.serving import Window, frames_of

pytestmark = pytest.mark.timeout(300)  # a process with torch for every window


def steps(window: Window) -> list[dict[str, Any]]:
    return window.pushed("step")


def test_keys_reach_the_env_and_the_canvas_shows_its_frames(window: Open) -> None:
    one = window()
    page = one.open("/play?env=CartPole-v1&seed=7")
    page.get_by_role("slider", name="Speed").fill("5")  # the pole does not fall within the few steps
    page.get_by_role("button", name="Play").click()
    page.get_by_role("application").focus()
    page.wait_for_timeout(300)
    assert not steps(one), "CartPole has no action that does nothing: time stands still until a key is down"

    for key, wanted in (("ArrowRight", 1), ("KeyA", 0)):
        before = len(steps(one))
        page.keyboard.down(key)
        one.wait("n => (window.__studio.steps ?? 0) > n", before + 2)
        page.keyboard.up(key)
        one.until(lambda: [sent for sent in one.sent if sent["do"] == "keys"][-1]["down"] == [], "end of the key")
        one.answer("keys")  # steps that were under way have come before
        taken = [step["action"] for step in steps(one)[before:]]
        assert len(taken) > 2
        assert set(taken) == {wanted}

    played = steps(one)
    assert not any(step["over"] for step in played)
    frames = frames_of([step["action"] for step in played], seed=7)
    one.wait_for_last(".game canvas", frames)  # the one after the last action


def test_the_first_key_starts_the_game(window: Open) -> None:
    """And the first one after a pause goes on with it. A key is pressed again before the game has answered."""
    one = window()
    page = one.open("/play?env=CartPole-v1&seed=7")
    page.get_by_role("slider", name="Speed").fill("5")
    page.get_by_role("application").focus()
    for round_ in (1, 2):
        page.get_by_text("Press a key to play.").wait_for()
        before = len(steps(one))
        for key in ("ArrowRight", "ArrowLeft", "ArrowRight"):
            page.keyboard.down(key)
            if key == "ArrowLeft":
                page.keyboard.up(key)
        one.wait("n => (window.__studio.steps ?? 0) > n", before + 1)
        page.keyboard.up("ArrowRight")
        assert len([sent for sent in one.sent if sent["do"] == "play"]) == round_
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("application").focus()


def test_a_single_step_shows_the_envs_own_frame(window: Open) -> None:
    one = window()
    page = one.open("/play?env=CartPole-v1&seed=11&policy=random")
    for count in range(1, 9):
        page.get_by_role("button", name="Step").click()
        one.wait("n => window.__studio.steps === n", count)
    frames = frames_of([step["action"] for step in steps(one)], seed=11)
    assert len(frames) == 9
    one.wait_for_last(".game canvas", frames)


def test_the_form_offers_every_env_with_a_preset(window: Open) -> None:
    page = window().open("/play")
    options = page.locator("#envs option")
    options.first.wait_for(state="attached")
    offered = options.evaluate_all("found => found.map((one) => one.value)")
    assert sorted(offered) == sorted(one for one in preset_ids() if not one.startswith("defaults/"))


def test_take_over_and_give_back_in_one_episode(window: Open, trained: dict[str, str]) -> None:
    one = window()
    page = one.open(f"/play?ref={trained['cartpole']}&seed=3")
    page.get_by_role("slider", name="Speed").fill("4")  # the pole does not fall before the key is up
    page.get_by_role("button", name="Play").click()
    one.wait("() => window.__studio.steps >= 3")
    page.get_by_role("button", name="Take over").click()
    page.get_by_role("button", name="Give back").wait_for()
    page.get_by_role("application").focus()
    before = len(steps(one))
    page.keyboard.down("ArrowLeft")
    one.wait("n => window.__studio.steps >= n", before + 2)
    page.keyboard.up("ArrowLeft")
    page.get_by_role("button", name="Give back").click()
    one.wait("n => window.__studio.steps >= n", len(steps(one)) + 3)
    page.get_by_role("button", name="Pause").click()

    told = steps(one)
    who = [step["who"] for step in told if step["episode"] == told[0]["episode"]]
    changes = [a for a, b in pairwise([*who, ""]) if a != b]
    assert changes == ["greedy", "human", "greedy"]
    assert {step["action"] for step in told if step["who"] == "human"} == {0}


def test_no_step_is_lost_episodes_count_up_and_are_recorded(window: Open) -> None:
    one = window()
    page = one.open("/play?env=CartPole-v1&policy=random")
    page.get_by_role("button", name="Record").click()
    page.get_by_role("slider", name="Speed").fill("120")
    page.get_by_role("button", name="Play").click()
    one.wait("() => Number(document.querySelector('[data-episodes]').dataset.episodes) >= 3")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    told = steps(one)
    for before, after in pairwise(told):
        if after["t"]:
            assert (after["episode"], after["t"]) == (before["episode"], before["t"] + 1)
        else:
            assert before["over"]
    assert sorted({step["episode"] for step in told}) == list(range(1, told[-1]["episode"] + 1))
    page.get_by_role("button", name="Stop recording").click()
    page.locator(".toast:not(.red)").wait_for()
    assert list((one.studio.runs_dir / "datasets").rglob("*.hdf5"))


def test_the_untrained_network_and_its_probabilities(window: Open) -> None:
    one = window()
    page = one.open("/play?env=FrozenLake-v1")
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_role("button", name="Pause").wait_for()
    assert page.get_by_role("button", name="Give back").is_disabled(), "nobody else has played"
    page.get_by_role("radio", name="Untrained").click()
    page.get_by_role("button", name="Take over").click()
    page.locator("button:enabled", has_text="Give back to the untrained network").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("radio", name="Untrained").click()
    page.get_by_role("button", name="Step").click()
    page.get_by_role("list", name="Action probabilities").wait_for()
    shown = page.get_by_role("list", name="Action probabilities").locator(".prob-value").all_inner_texts()
    assert abs(sum(float(text.removesuffix(" %")) for text in shown) - 100) < 0.5
    assert one.page.locator(".keys").get_by_text("left", exact=True).is_visible()


def test_a_phone_plays_by_touching_the_key_map(window: Open) -> None:
    one = window(size=PHONE, dark=True)
    page = one.open("/play?env=CartPole-v1&seed=7")
    right = page.locator(".keys button", has_text="push right")
    right.dispatch_event("pointerdown")
    one.wait("() => window.__studio.steps >= 2")
    right.dispatch_event("pointerup")
    assert {step["action"] for step in steps(one)} == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_an_env_that_does_not_exist_is_one_line(window: Open) -> None:
    one = window()
    page = one.open("/play?env=Nothing-v0")
    assert "Nothing" in page.get_by_role("alert").inner_text()


def test_a_human_plays_pongs_other_side_against_a_policy(window: Open) -> None:
    """The left paddle follows the keys: it is at the top after W and at the bottom after S."""
    one = window()
    page = one.open("/play?env=ALE/Pong-v5&policy=random&seed=1")
    page.get_by_role("switch", name="You play the other side").click(force=True)
    page.get_by_role("button", name="Play", exact=True).click()

    def place() -> float:
        """The middle row of the paddle; NaN between two points, when there is none."""
        shown = one.pixels(".game canvas")
        paddle = (np.abs(shown[34:194, 16:20] - np.array([213, 130, 74])).sum(axis=2) < 60).any(axis=1)
        return float(np.flatnonzero(paddle).mean()) if paddle.any() else float("nan")

    for key, there in (("KeyW", lambda row: row < 60), ("KeyS", lambda row: row > 100)):
        page.get_by_role("application").focus()
        page.keyboard.down(key)
        one.until(lambda there=there: there(place()), f"paddle where {key} sends it")
        page.keyboard.up(key)


def test_masked_actions_are_marked_and_never_taken(window: Open) -> None:
    one = window()
    page = one.open("/play?env=Taxi-v4&set=env.action_masks=true&policy=untrained&seed=4")
    for count in range(1, 9):
        page.get_by_role("button", name="Step").click()
        one.wait("n => window.__studio.steps === n", count)
    assert all(step["mask"][step["action"]] for step in steps(one))
    masked = steps(one)[-1]["mask"].count(False)
    assert masked
    marked = page.locator(".prob-value", has_text="masked")  # the panel follows 15 times a second
    one.until(lambda: marked.count() == masked, f"{masked} marks")
