"""The inspector in a real browser: scrub, panels, branches, two agents on one seed, the map of a tabular env."""

from __future__ import annotations

from urllib.parse import parse_qs, urlparse

import numpy as np
import pytest

from tests.browser.conftest import PHONE, Open
from tests.browser.serving import Window, difference, frames_of

pytestmark = pytest.mark.timeout(300)  # a process with torch for every window


def inspect(window: Window, path: str, t: int = 0) -> None:
    """Opens the inspector and waits until a step is shown."""
    window.open(path)
    shows(window, t)


def shows(window: Window, t: int) -> None:
    window.wait("t => document.querySelector('.frame-box canvas')?.dataset.t === String(t)", t)


def scrub(window: Window, t: int) -> None:
    window.page.get_by_role("slider", name="Step").fill(str(t))
    shows(window, t)


def query(window: Window) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(window.page.url).query).items()}


def test_scrubbing_shows_the_envs_own_frames_and_the_url_holds_the_place(window: Open, trained: dict[str, str]) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['cartpole']}&seed=5")
    episode = one.answer("episode")
    frames = frames_of(episode["action"], seed=5)
    for t in (9, 3, 0, len(frames) - 1):
        scrub(one, t)
        shown = one.pixels(".frame-box canvas")
        distances = [difference(shown, frame) for frame in frames]
        nearest = int(np.argmin(distances))
        assert distances[t] <= distances[nearest] + 0.01, f"the picture of step {t} is that of step {nearest}"
        assert distances[t] < 1.0

    scrub(one, 7)
    one.wait("() => new URLSearchParams(location.search).get('t') === '7'")
    assert query(one) | {"n": ""} == {"ref": trained["cartpole"], "seed": "5", "t": "7", "policy": "greedy", "n": ""}
    one.page.reload()
    shows(one, 7)
    assert one.answer("episode")["action"] == episode["action"], "the URL brings the same episode back"


def test_the_keyboard_steps_through_and_only_open_panels_are_computed(window: Open, trained: dict[str, str]) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['cartpole']}&seed=5")
    one.page.get_by_role("slider", name="Step").focus()
    for key, t in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("PageDown", 11), ("Home", 0)):
        one.page.keyboard.press(key)
        shows(one, t)
    for _ in range(30):  # the focus is visible on every control that the tab key reaches
        one.page.keyboard.press("Tab")
        place = one.page.evaluate("document.activeElement.outerHTML.slice(0, 80)")
        outline = one.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or place.startswith("<body"), place

    def needs() -> list[str]:
        return [sent["need"] for sent in one.sent if sent["do"] == "moment"][-1]

    assert needs() == ["frame"]
    one.page.get_by_role("button", name="Saliency: gradient").click()
    one.page.locator("[data-panel=saliency] .prob-value").first.wait_for()
    assert set(needs()) == {"frame", "saliency", "inputs"}
    one.page.get_by_role("button", name="Saliency: gradient").click()
    scrub(one, 4)
    assert needs() == ["frame"]
    assert not [sent for sent in one.sent if sent["do"] == "advantages"]
    one.page.get_by_role("button", name="Advantage").click()
    one.wait("() => !document.querySelector('[data-panel=advantage] .stat-value').textContent.includes('–')")
    before = one.page.locator("[data-panel=advantage] .stat-value").first.inner_text()
    one.page.get_by_role("slider", name="lambda").fill("0.1")
    one.wait("old => document.querySelector('[data-panel=advantage] .stat-value').textContent !== old", before)


def test_a_branch_takes_another_action_and_rollouts_compare_them(window: Open, trained: dict[str, str]) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['cartpole']}&seed=5")
    parent = one.answer("episode")
    scrub(one, 6)
    other = 1 - parent["action"][6]
    label = ["push left", "push right"][other]
    one.page.locator("[data-panel=whatif]").get_by_role("button", name=label).click()
    shows(one, 7)
    branch = one.answer("episode")
    assert (branch["parent"], branch["at"], branch["exact"]) == (parent["n"], 6, True)
    assert branch["action"][:7] == [*parent["action"][:6], other]
    branches = one.page.get_by_role("group", name="Branches").get_by_role("button")
    branches.nth(1).wait_for()
    assert branches.count() == 2
    frames = frames_of(branch["action"][:7], seed=5)
    assert difference(one.pixels(".frame-box canvas"), frames[7]) < 1.0

    one.wait("() => new URLSearchParams(location.search).get('branch')")
    one.page.reload()
    shows(one, 7)
    assert one.answer("episode")["action"] == branch["action"], "the URL brings the branch back"
    parent["n"] = one.answer("episode")["parent"]

    scrub(one, 6)
    one.page.get_by_role("spinbutton", name="rollouts of each action").fill("3")
    one.page.get_by_role("button", name="Roll out").click()
    rows = one.page.locator(".rollouts tbody tr")
    rows.first.wait_for()
    assert rows.count() == 2
    assert [row["n"] for row in one.answer("rollouts")["actions"]] == [3, 3]
    assert one.answer("rollouts")["then"] == "greedy", "as the episode was played"
    text = one.page.locator(".rollouts").inner_text()
    assert "every rollout of an action is the same" in text
    assert "±" not in text
    here, whole = rows.first.locator("td").last.inner_text().split("\nwhole episode ")
    assert float(whole) == float(here) + 6, "CartPole pays 1 a step: 6 before this one"

    one.page.get_by_role("group", name="Branches").get_by_role("button").first.click()  # back to the original
    one.wait("n => document.querySelector('.episode-list .selected .episode-n').textContent === '#' + n", parent["n"])


def test_rollouts_say_what_was_cut_and_why_there_is_no_value(window: Open) -> None:
    one = window()
    inspect(one, "/inspect?env=Pendulum-v1&seed=5&set=env.max_episode_steps=5100&set=env.reward.clip=0.5")
    panel = one.page.locator("[data-panel=whatif]")
    panel.get_by_role("combobox", name="Who goes on").select_option("untrained")
    panel.get_by_role("spinbutton", name="rollouts of each action").fill("1")
    panel.get_by_role("button", name="Roll out").click()
    panel.locator(".rollouts").wait_for(timeout=100_000)
    assert {row["cut"] for row in one.answer("rollouts")["actions"]} == {1}
    shown = panel.locator(".rollouts").inner_text()
    assert "1 cut" in shown
    assert "clipped rewards" in shown
    assert "expects" not in shown


def test_a_recording_marks_an_old_picture_and_a_sampled_episode_has_a_return(
    window: Open, trained: dict[str, str]
) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['cartpole']}&seed=5")
    one.page.get_by_role("spinbutton", name="Number of episodes").fill("100")
    one.page.get_by_role("button", name="Record", exact=True).click()
    one.page.get_by_role("slider", name="Step").fill("4")
    one.page.get_by_text("This is step 0. Step 4 is shown when this is done").wait_for()
    one.page.get_by_role("button", name="Cancel").click()
    shows(one, 4)
    one.wait("() => !document.querySelector('.behind')")

    panel = one.page.locator("[data-panel=value]")
    panel.get_by_text("not drawn: The value is that of sampled actions").wait_for()
    seed = one.answer("episode")["seed"]
    panel.get_by_role("button", name="Record a sampled episode").click()
    one.wait("() => document.querySelector('.episode-list .selected')?.textContent.includes('sampled')")
    one.wait("() => !document.querySelector('[data-panel=value]').textContent.includes('not drawn')")
    episode = one.answer("episode")
    assert (episode["seed"], episode["policy"]) == (seed, "sampled")
    assert episode["return_to_go"] is not None


def test_the_fields_of_a_continuous_action_follow_the_step(window: Open) -> None:
    one = window()
    inspect(one, "/inspect?env=Pendulum-v1&seed=5")
    taken = [row[0] for row in one.answer("episode")["action"]]
    for t in (0, 3):
        scrub(one, t)
        shown = float(one.page.locator("[data-panel=whatif] input[type=number]").first.input_value())
        assert shown == pytest.approx(taken[t], abs=1e-6)


def test_two_checkpoints_on_one_seed(window: Open, trained: dict[str, str]) -> None:
    one = window()
    run = trained["cartpole"]
    inspect(one, f"/inspect?ref={run}@best&vs={run}@last&seed=5")
    one.wait("() => [...document.querySelectorAll('.frame-box canvas')].filter(c => c.dataset.t === '0').length === 2")
    one.page.get_by_text("One seed.").or_(one.page.get_by_text("The same actions in every step.")).wait_for()
    start = frames_of([], seed=5)[0]
    for which in (1, 2):
        assert difference(one.pixels(f".frames figure:nth-child({which}) canvas"), start) < 1.0
    assert one.page.locator("[data-panel=action] .lane-name").all_inner_texts() == ["A", "B"]


def test_episodes_are_recorded_and_flagged(window: Open, trained: dict[str, str]) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['cartpole']}&policy=sampled")
    one.page.get_by_role("spinbutton", name="Number of episodes").fill("4")
    one.page.get_by_role("button", name="Record", exact=True).click()
    one.wait("() => document.querySelectorAll('.episode').length === 5")
    rows = one.answer("episodes")["episodes"]
    worst = min(rows, key=lambda row: row["return"])
    assert any("worst" in row["flags"] for row in rows if row["return"] == worst["return"])
    assert one.page.locator(".episode-flags .badge", has_text="worst").count() == 1


def test_the_ledger_adds_up_and_the_map_has_the_optimum(window: Open, trained: dict[str, str]) -> None:
    one = window()
    inspect(one, f"/inspect?ref={trained['lake']}&policy=sampled&seed=2")
    cells = one.page.locator("[data-panel=reward] tr.total td").all_inner_texts()
    assert cells[0] == "reward"
    assert float(cells[3]) == pytest.approx(sum(one.answer("episode")["reward"]))
    one.page.get_by_role("img", name="The exact optimum").wait_for()
    text = one.page.locator("[data-panel=map]").inner_text()
    assert "0.7442" in text, "the best policy of the slippery 4 x 4 lake, by arithmetic"
    found = one.answer("map")
    for policy, worth in (("sampled", found["start"]), ("greedy", found["greedy"]["start"])):
        one.page.get_by_role("radio", name=policy).click()
        one.page.get_by_text(f"with {policy} actions, earns {worth:.4f} on average").wait_for()
    numbers = one.page.get_by_role("img", name="The agent").locator(".map-number").all_text_contents()
    safe = [i for i, cell in enumerate(found["cells"]) if cell not in "HG"]
    assert numbers == [f"{found['greedy']['earned'][i]:.2f}" for i in safe]


def test_dark_and_light_can_be_chosen(window: Open) -> None:
    one = window(dark=True)
    one.open("/runs")
    background = "() => getComputedStyle(document.body.parentElement).backgroundColor"
    assert one.page.evaluate(background) == "rgb(16, 19, 25)"
    one.page.get_by_role("button", name="Use the light theme").click()
    assert one.page.evaluate(background) == "rgb(247, 248, 250)"
    one.open("/runs")
    assert one.page.evaluate(background) == "rgb(247, 248, 250)", "the choice is kept"


def test_a_phone_shows_everything_in_one_column(window: Open, trained: dict[str, str]) -> None:
    one = window(size=PHONE)
    inspect(one, f"/inspect?ref={trained['lake']}&seed=2")
    assert one.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    lefts = one.page.evaluate(
        "[...document.querySelectorAll('.inspect-grid .card')].map(c => c.getBoundingClientRect().left)"
    )
    assert len(set(lefts)) == 1


def test_a_second_window_watches_until_it_takes_control(window: Open, trained: dict[str, str]) -> None:
    first = window()
    inspect(first, f"/inspect?ref={trained['cartpole']}&seed=5")
    second = window()
    inspect(second, f"/inspect?ref={trained['cartpole']}&seed=5")
    assert second.page.get_by_role("button", name="Record", exact=True).is_disabled()
    assert not [sent for sent in second.sent if sent["do"] in ("open", "record_episodes")], "it looks on"
    second.page.get_by_role("button", name="Take control").click()
    second.wait("() => !document.querySelector('.record button').disabled")
    first.page.get_by_role("button", name="Take control").wait_for()
