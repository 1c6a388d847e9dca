"""The pages of runs in a real browser: list, one run, a training that moves, comparison, start, stop, tag, delete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gymnast.core.files import numbers_to_json, write_json
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import read_metrics
from tests.browser.conftest import Open
from tests.browser.serving import PHONE, Studio, Window, served, train_here
from tests.hostile import name_code
from tests.processes import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Locator

pytestmark = pytest.mark.timeout(300)
RETURN = "rollout/ep_rew_mean"
HOSTILE = '<img src=x onerror="window.hacked = true">'
SMALL = ("env.n_envs=8", "algo.n_steps=32", "algo.batch_size=64", "eval.episodes=2", "stop.episodes=4")


@pytest.fixture(scope="module")
def shelf(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of CartPole, two of a learning rate that ruins it, and FrozenLake."""
    folder = tmp_path_factory.mktemp("shelf")
    for seed in (1, 2):
        train_here(folder, "CartPole-v1", *SMALL, steps=4096, seed=seed)
        train_here(folder, "CartPole-v1", *SMALL, "algo.learning_rate=1.0", steps=4096, seed=seed, tags=["wild"])
    train_here(folder, "FrozenLake-v1", steps=4096, name="lake")
    return folder


@pytest.fixture(scope="module")
def shared(shelf: Path) -> Iterator[Studio]:
    """Served over these, for looking at only."""
    with served(shelf) as started:
        yield started


@pytest.fixture
def own(shelf: Path, tmp_path: Path) -> Iterator[Studio]:
    """Served over a copy of these, which a test may change."""
    shutil.copytree(shelf, tmp_path / "runs")
    with served(tmp_path / "runs") as started:
        yield started


def shown(window: Window) -> list[str]:
    """The ids in the table, from top to bottom."""
    return [row.get_attribute("data-key") or "" for row in window.page.locator("tbody tr[data-key]").all()]


def row_of(window: Window, name: str) -> str:
    return f'tbody tr[data-key="{name}"]'


def test_the_list_is_searched_filtered_and_sorted(window: Open, shared: Studio) -> None:
    one = window(shared)
    page = one.open("/runs")
    page.wait_for_selector("tbody tr[data-key]")
    one.wait("() => document.querySelectorAll('tbody .spark path').length === 4")  # curves follow; the lake has one row
    everything = shown(one)
    assert len(everything) == 5
    created = {path.name: Run(path).read().created for path in shared.runs_dir.glob("[!.]*")}
    assert everything == sorted(created, key=lambda name: created[name], reverse=True)
    page.get_by_label("Search runs").fill("lake")
    one.wait("() => document.querySelectorAll('tbody tr[data-key]').length === 1")
    one.until(lambda: "q=lake" in page.url, "search in the address")
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Any tag").select_option("wild")
    one.wait("() => document.querySelectorAll('tbody tr[data-key]').length === 2")
    assert {Run(shared.runs_dir / name).read().tags[0] for name in shown(one)} == {"wild"}
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Score").click()
    one.wait("() => location.search.includes('sort=-score')")
    scores = {path.name: Run(path).read().score for path in shared.runs_dir.glob("[!.]*")}
    ranks = sorted((float(score or 0) for score in scores.values()), reverse=True)
    one.until(lambda: [float(scores[name] or 0) for name in shown(one)] == ranks, "order by score")
    page.locator("tbody tr[data-key]").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".run-head h1")
    assert f"/runs/{shown_id(one)}" in page.url


def shown_id(window: Window) -> str:
    return window.page.locator(".run-head .mono").inner_text()


def test_a_training_is_started_moves_and_is_stopped_tagged_and_deleted(window: Open, tmp_path: Path) -> None:
    with served(tmp_path / "runs") as studio:
        one = window(studio)
        page = one.open("/runs")
        page.get_by_role("heading", name="No runs yet").wait_for()
        page.locator("main").get_by_role("link", name="Start a run").click()
        page.get_by_label("Search envs").fill("cartpole")
        page.get_by_role("button", name="CartPole-v1 Balance").click()
        page.get_by_label("algo.gamma").fill("2")
        page.get_by_text("algo.gamma = 2: must be at most 1.").wait_for()
        assert page.get_by_role("button", name="Start", exact=True).is_disabled()
        page.get_by_label("algo.gamma").fill("0.98")
        page.get_by_label("train.total_timesteps").fill("1000000000")
        page.get_by_label("Search settings").fill(".every")
        page.get_by_label("log.every", exact=True).fill("2048")
        page.get_by_label("eval.every", exact=True).fill("20000")
        page.get_by_label("Search settings").fill("on_solved")
        page.get_by_label("stop.on_solved").fill("false")
        page.get_by_label("Name").fill("two words")
        page.locator("button.primary:not([disabled])", has_text="Start").click()
        page.locator(".field.invalid .field-error", has_text="a name is one word").wait_for()
        one.errors.clear()  # the browser itself logs the refused request
        page.get_by_label("Name").fill("moving")
        one.wait("() => !document.querySelector('.field.invalid')")
        command = page.locator(".command code").inner_text()
        assert command.startswith("gymnast train CartPole-v1 --set algo.gamma=0.98 --set train.total_timesteps=1000")
        page.locator("button.primary:not([disabled])", has_text="Start").click()
        page.wait_for_selector(".run-head .badge.pulse")
        page.locator(".activity b").wait_for()  # what it does at this moment
        assert page.locator("h1").inner_text() == "moving"
        (folder,) = [path for path in studio.runs_dir.iterdir() if not path.name.startswith(".")]
        run = Run(folder)
        points = f"() => (window.__studio.series['{RETURN}']?.x.length ?? 0)"
        one.wait(f"{points.replace('() =>', '() => 5 <=')}")
        before, picture = page.evaluate(points), one.pixels(".return-chart canvas")
        one.wait(f"(old) => {points.removeprefix('() => ')} >= old + 3", before)
        one.wait_for_change(".return-chart canvas", picture)  # the curve moves

        page.get_by_role("button", name="Stop").click()
        page.wait_for_selector(".run-head .badge:not(.pulse)")  # interrupted, or solved by then
        wait_for(lambda: not run.live(), "end of the run")
        rows = [row for row in read_metrics(run.metrics_path) if RETURN in row]
        one.wait(f"(rows) => {points.removeprefix('() => ')} === rows", len(rows))
        series = page.evaluate(f"() => window.__studio.series['{RETURN}']")
        assert series["x"] == [row["time/total_timesteps"] for row in rows]  # every point, each in its place
        assert series["y"] == pytest.approx([row[RETURN] for row in rows])

        page.get_by_role("button", name="Tags").click()
        page.get_by_label("New tags").fill("first try")
        page.get_by_role("button", name="Add").click()
        page.wait_for_selector(".run-head .badge:text('try')")
        assert run.read().tags == ["first", "try"]
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_role("heading", name="No runs yet").wait_for()
        assert not run.path.exists()


def test_the_newest_run_is_always_shown(window: Open, own: Studio) -> None:
    one = window(own)
    page = one.open("/runs/@last")
    page.wait_for_selector(".run-head .mono")
    assert shown_id(one).startswith(Run(own.runs_dir / shown_id(one)).read().token)
    newest = own.runs_dir / "zzzzz-newer"
    shutil.copytree(own.runs_dir / shown_id(one), own.runs_dir / ".copy")
    data = json.loads((own.runs_dir / ".copy" / "run.json").read_text())
    (own.runs_dir / ".copy" / "run.json").write_text(json.dumps({**data, "created": "2999-01-01T00:00:00+00:00"}))
    (own.runs_dir / ".copy").rename(newest)
    one.wait("() => document.querySelector('.run-head .mono')?.innerText === 'zzzzz-newer'")
    assert page.url.endswith("/runs/@last")


def test_every_metric_is_drawn_with_its_meaning(window: Open, shared: Studio) -> None:
    one = window(shared)
    wild = next(path for path in shared.runs_dir.glob("[!.]*") if Run(path).read().tags == ["wild"])
    page = one.open(f"/runs/{wild.name}?tab=metrics")
    page.wait_for_selector(".metric")
    while (closed := page.locator(".fold[aria-expanded=false]")).count():
        closed.first.click()
    names = {name for row in read_metrics(wild / "metrics.jsonl") for name in row}
    one.wait("(count) => document.querySelectorAll('.metric').length === count", len(names))
    assert {card.get_attribute("data-metric") for card in page.locator(".metric").all()} == names
    assert all(card.inner_text().strip() for card in page.locator(".metric .clamp").all())
    page.get_by_label("Search metrics").fill("approx_kl")
    one.wait("() => document.querySelectorAll('.metric').length === 1")
    page.wait_for_selector(".metric canvas")
    page.get_by_role("radio", name="Seconds").click()
    one.wait("() => location.search.includes('axis=seconds')")
    last = read_metrics(wild / "metrics.jsonl")[-1]["time/elapsed"]
    one.wait("(last) => (window.__studio.series['train/approx_kl']?.x.at(-1) ?? 1e9) <= last", last)
    for tab in ("Diagnostics", "Settings", "Files", "Log", "Alerts"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_selector(f"[role=tab][aria-selected=true]:has-text('{tab}')")
    page.wait_for_selector(".alert")


def test_an_alert_starts_the_advised_run(window: Open, own: Studio) -> None:
    wild = next(path for path in own.runs_dir.glob("[!.]*") if Run(path).read().tags == ["wild"])
    one = window(own)
    page = one.open(f"/runs/{wild.name}?tab=alerts")
    page.locator(".fix .button").first.click()
    one.wait(
        "(old) => { const id = document.querySelector('.run-head .mono')?.innerText; return id && id !== old; }",
        wild.name,
    )
    run = Run(own.runs_dir / shown_id(one))
    assert (run.read().changed or {}).get("algo.learning_rate") != 1.0
    wait_for(lambda: not run.live(), "end of the advised run")


def test_a_page_asks_before_it_starts_what_an_imported_run_advises(window: Open, own: Studio) -> None:
    """No leaves everything as it is; yes starts the command that the question names."""
    wild = next(path for path in own.runs_dir.glob("[!.]*") if Run(path).read().tags == ["wild"])
    about = json.loads((wild / "run.json").read_text())
    write_json(wild / "run.json", {**about, "imported": "2026-01-01T00:00:00+00:00"})
    before, asked = set(own.runs_dir.iterdir()), list[str]()
    one = window(own)
    page = one.open(f"/runs/{wild.name}?tab=alerts")

    def answer(dialog: Dialog, yes: bool) -> None:
        asked.append(dialog.message)
        dialog.accept() if yes else dialog.dismiss()

    page.once("dialog", lambda dialog: answer(dialog, yes=False))
    page.locator(".fix .button").first.click()
    page.wait_for_selector(".toast:has-text('Nothing was started')")
    assert set(own.runs_dir.iterdir()) == before
    page.once("dialog", lambda dialog: answer(dialog, yes=True))
    page.locator(".fix .button").first.click()
    one.wait(
        "(old) => { const id = document.querySelector('.run-head .mono')?.innerText; return id && id !== old; }",
        wild.name,
    )
    assert asked[0] == asked[1]
    assert asked[0].startswith(f"run {wild.name}: it was imported")
    assert "gymnast train CartPole-v1" in asked[0]
    assert all("409" in text for text in one.errors)  # the browser notes each question
    one.errors.clear()
    run = Run(own.runs_dir / shown_id(one))
    wait_for(lambda: not run.live(), "end of the advised run")


def test_the_player_asks_before_code_of_an_imported_run_is_imported(
    window: Open, chromium: Browser, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = next(path for path in shelf.glob("[!.]*") if Run(path).read().tags == ["wild"])
    run = Path(shutil.copytree(wild, tmp_path / "runs" / wild.name))
    name_code(run, "theirs:CartPole-v1")
    about = json.loads((run / "run.json").read_text())
    write_json(run / "run.json", {**about, "imported": "2026-01-01T00:00:00+00:00"})
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    asked: list[str] = []

    def answer(dialog: Dialog, yes: bool) -> None:
        asked.append(dialog.message)
        dialog.accept() if yes else dialog.dismiss()

    with served(tmp_path / "runs") as studio:
        one = window(studio)
        one.page.once("dialog", lambda dialog: answer(dialog, yes=False))
        one.open(f"/play?ref={run.name}")
        one.page.wait_for_selector(".error-line:has-text('needs code')")
        assert not (tmp_path / "marker").exists()
        one.page.once("dialog", lambda dialog: answer(dialog, yes=True))
        one.open(f"/play?ref={run.name}")
        one.wait("() => window.__studio.session")
    assert (tmp_path / "marker").exists()
    assert ["theirs:CartPole-v1" in text for text in asked] == [True, True]


def test_runs_are_compared(window: Open, shared: Studio) -> None:
    one = window(shared)
    page = one.open("/runs?env=CartPole-v1")
    page.wait_for_selector("tbody tr[data-key]")
    page.get_by_label("Select all shown").check()
    page.get_by_role("toolbar").get_by_role("link", name="Compare").click()
    page.wait_for_selector(".sides tbody tr")
    assert page.locator(".sides tbody tr").count() == 2  # four runs, two of each seed
    page.wait_for_selector(".chart canvas")
    assert page.locator(".reasons li").count() >= 2
    assert page.locator(".legend li").count() >= 3  # two sides and what they are measured against
    page.get_by_text("the band is the 95 % interval of that mean").wait_for()
    page.locator(".sides button.as-link").first.click()
    links = page.get_by_role("dialog").get_by_role("link")
    links.nth(1).wait_for()
    assert links.count() == 2
    page.keyboard.press("Escape")
    assert page.locator("td.mono:text-is('algo.learning_rate')").count() == 1
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)
    before = one.pixels(".chart canvas")
    page.locator(".sides tbody tr").first.hover()  # its curve stands out
    one.wait_for_change(".chart canvas", before)
    page.locator("label.switch", has_text="group seeds").click()
    one.wait("() => document.querySelectorAll('.sides tbody tr').length === 4")
    page.get_by_label("Metric", exact=True).select_option("train/approx_kl")
    one.wait("() => document.querySelector('.card h2')?.innerText === 'train/approx_kl'")
    page.get_by_role("radio", name="Seconds").click()
    one.wait("() => location.search.includes('axis=seconds')")
    box = page.locator(".chart .u-over").bounding_box()
    assert box is not None
    shares = [(x, y) for x in (0.2, 0.5, 0.8) for y in (0.1, 0.5, 0.9)]
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in shares]

    def a_click_has_led_away() -> bool:
        """Somewhere near a line; what is drawn may still be on its way."""
        for place in places:
            page.mouse.move(*place)
            page.mouse.click(*place)
            page.wait_for_timeout(50)
            if "/compare" not in page.url:
                return True
        return False

    one.until(a_click_has_led_away, "page behind a line")
    page.wait_for_selector(".run-head .mono")  # a click on a line leads to its run
    assert "/runs/" in page.url


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/@last", "/runs/@last?tab=metrics", "/compare", "/start?env=CartPole-v1"]
)
def test_every_page_fits_a_phone_in_the_dark(window: Open, shared: Studio, path: str) -> None:
    one = window(shared, size=PHONE, dark=True)
    page = one.open(path)
    page.wait_for_selector("main h1")
    page.wait_for_timeout(500)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    background = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert sum(int(part) for part in background.strip("rgb()").split(",")) < 150  # dark
    page.get_by_role("button", name="Use the light theme").click()
    light = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert sum(int(part) for part in light.strip("rgb()").split(",")) > 600


def test_hostile_words_are_shown_as_text(window: Open, own: Studio) -> None:
    victim = next(path for path in own.runs_dir.glob("[!.]*") if Run(path).read().name == "lake")
    data = json.loads((victim / "run.json").read_text())
    words = {
        "name": HOSTILE,
        "env": HOSTILE,
        "algo": HOSTILE,
        "tags": [HOSTILE],
        "machine": HOSTILE,
        "command": [HOSTILE],
    }
    write_json(victim / "run.json", {**data, **words})
    (victim / "log.txt").write_text(HOSTILE)
    one = window(own)
    page = one.open("/runs")
    page.wait_for_selector(row_of(one, victim.name))
    assert page.locator(row_of(one, victim.name)).get_by_role("link").inner_text() == HOSTILE
    for tab in ("overview", "settings", "files", "log"):
        page = one.open(f"/runs/{victim.name}?tab={tab}")
        page.wait_for_selector(".run-head h1")
        assert page.locator("h1").inner_text() == HOSTILE
    assert HOSTILE in page.locator("pre.log").inner_text()
    page = one.open(f"/compare?ref={victim.name}")
    page.wait_for_selector(".sides tbody tr")
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("main img").count() == 0


def test_a_second_window_only_watches_until_it_takes_control(window: Open, own: Studio) -> None:
    first, second = window(own), window(own)
    first.open("/runs")
    first.wait("() => document.querySelectorAll('tbody tr[data-key]').length === 5")
    page = second.open("/runs/@last")
    page.get_by_role("button", name="Take control").wait_for()
    ref = shown_id(second)
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("New tags").fill("mine")
    page.get_by_role("button", name="Add").click()
    page.get_by_text("Another window has control. Take it first.").wait_for()
    assert "mine" not in Run(own.runs_dir / ref).read().tags
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Take control").click()
    first.page.get_by_role("button", name="Take control").wait_for()
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("New tags").fill("mine")
    page.get_by_role("button", name="Add").click()
    page.wait_for_selector(".run-head .badge:text('mine')")
    assert "mine" in Run(own.runs_dir / ref).read().tags
    first.wait("() => document.querySelector('tbody').innerText.includes('mine')")  # and the other window sees it
    second.errors.clear()  # the browser itself logs the refused request


def test_an_error_in_studio_names_the_run(shared: Studio, window: Open) -> None:
    """Also where the answer is no JSON, as the web server's own is not."""
    one = window(shared)
    one.page.route("**/api/run/k7f3q", lambda route: route.fulfill(status=500, body="Internal Server Error"))
    page = one.open("/runs/k7f3q")
    page.get_by_text("an error in Studio, see the terminal").wait_for()
    assert page.locator(".empty .mono").inner_text() == "k7f3q"
    one.errors.clear()  # the browser itself logs the failed request


def test_a_run_has_one_verdict_and_green_is_solved(shelf: Path, tmp_path: Path, window: Open) -> None:
    """In the list and in its head; a tag looks like neither."""
    wild = next(Run(path) for path in sorted(shelf.glob("[!.]*")) if Run(path).read().tags == ["wild"])
    cases = {  # what run.json says: what the badge says, and its colour
        "solved": ("finished", {"solved": True}, "green"),
        "not solved": ("finished", {"solved": False}, "amber"),
        "finished": ("finished", {"solved": False, "eval_mean": None}, ""),
        "interrupted": ("interrupted", {"solved": False}, ""),
        "crashed": ("crashed", {"solved": True}, "red"),
    }
    for said, (status, summary, _) in cases.items():
        run = Run(shutil.copytree(wild.path, tmp_path / said.replace(" ", "-")))
        run.update(status=status, summary=summary)

    def check(badge: Locator, said: str, kind: str) -> None:
        badge.wait_for()
        assert badge.inner_text() == said
        assert (badge.get_attribute("class") or "").split() == ["badge", *kind.split()]

    with served(tmp_path) as studio:
        one = window(studio)
        page = one.open("/runs")
        for said, (_, _, kind) in cases.items():
            check(page.locator(f"tr[data-key='{said.replace(' ', '-')}'] .col-status .badge"), said, kind)
        for said, (_, _, kind) in cases.items():
            page = one.open(f"/runs/{said.replace(' ', '-')}")
            check(page.locator(".run-head > .badge:not(.tag)"), said, kind)
            assert page.locator(".run-head > .badge.tag").inner_text() == "wild"


def test_a_log_scale_loses_no_point(shared: Studio, window: Open) -> None:
    """Logarithms know no zero and nothing below it: there the scale is logarithmic on both sides of 0."""
    page = window(shared).open("/runs")

    def chart(call: str, *arguments: object) -> object:
        return page.evaluate(f"async (given) => (await import('/static/chart.js')).{call}(...given)", [*arguments])

    assert chart("logScale", [{"y": [1, 20, None]}, {"y": [475, 475]}]) == {"distr": 3}
    assert chart("logScale", [{"y": [-600, 200]}]) == {"distr": 4, "around": 1}  # linear from -1 to 1
    assert chart("logScale", [{"y": [0, 0.02]}]) == {"distr": 4, "around": pytest.approx(1e-4)}
    assert chart("logScale", [{"y": [5, 9], "low": [-1, 2], "high": [7, 11]}])["distr"] == 4  # type: ignore[index]
    assert chart("ticksAround", -600, 200, 1) == [-100, -10, 0, 10, 100]
    assert chart("ticksAround", -0.5, 3, 1) == [0, 1, 2]


def test_rows_that_are_no_numbers_are_marked(shelf: Path, tmp_path: Path, window: Open) -> None:
    """They cannot be drawn; without a mark the run would merely look short."""
    lake = next(path for path in shelf.glob("*frozenlake*"))
    run = Run(shutil.copytree(lake, tmp_path / lake.name))
    rows = read_metrics(run.metrics_path)
    last = rows[-1]["time/total_timesteps"]
    for row in rows[-2:]:
        row[RETURN] = float("nan")
    run.metrics_path.write_text("".join(json.dumps(numbers_to_json(row)) + "\n" for row in rows))
    with served(tmp_path) as studio:
        one = window(studio)
        page = one.open(f"/runs/{run.id}")
        note = page.locator(".return-chart .chart-note.bad")
        note.wait_for()
        assert "NaN or infinite" in note.inner_text()
        red = page.evaluate("getComputedStyle(document.querySelector('.chart-note.bad')).color")
        assert red == "rgb(192, 49, 43)"

        def marks() -> int:
            picture = one.pixels(".return-chart canvas")
            return int((np.abs(picture - [192, 49, 43]).sum(axis=2) < 30).sum())

        assert one.until(marks, "red marks") > 20
        assert one.page.evaluate("() => window.__studio.series['rollout/ep_rew_mean'].bad").pop() == last
        assert page.locator(".return-chart .chart-note").count() == 1
        page.locator(".tools .switch").click()  # returns of FrozenLake begin at 0
        page.get_by_text("log on both sides of 0").first.wait_for()


def test_what_a_run_does_in_words(shared: Studio, window: Open) -> None:
    page = window(shared).open("/runs")
    usual = {
        "done": 0,
        "of": 0,
        "steps": 0,
        "where": "",
        "probably": False,
        "mean": None,
        "seconds": 40.0,
        "left": None,
    }

    def said(**now: object) -> object:
        code = (
            "async (now) => { const a = await import('/static/activity.js'); return [a.phaseOf(now), a.details(now)] }"
        )
        return page.evaluate(code, usual | now)

    judged = {"done": 37, "of": 100, "mean": -20.625, "left": 130.0}
    assert said(phase="score", **judged) == ["Scoring", "37 of 100 episodes, mean \u221220.63 so far, about 2 min"]
    assert said(phase="verdict", **judged | {"of": 1000}) == [
        "Judging",
        "37 of at most 1,000 episodes, mean \u221220.63 so far, at most 2 min",
    ]
    probably = said(phase="verdict", **judged | {"of": 200, "probably": True})
    assert probably == ["Judging", "37 of about 200 episodes, mean \u221220.63 so far, about 2 min"]
    started = said(phase="evaluating", of=20, steps=1483, where="wind")
    assert started == ["Evaluating", "0 of 20 episodes in wind, step 1,483"]
    assert said(phase="collecting", done=512, of=2048, left=9.0)[1] == "512 of 2,048 steps, about 9 s"  # type: ignore[index]
    assert said(phase="learning", seconds=0.2) == ["Training", "collecting and learning"]  # many times a second
    assert said(phase="finding objects", seconds=12.5) == ["Finding objects", "for 12 s"]
