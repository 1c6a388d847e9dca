"""Nobody but the user who started Studio can use it: tokens, other web sites, files outside the runs."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gymnast.core.files import write_json
from tests.runs.report_runs import Gallery
from tests.studio.conftest import TOKEN, Studio

PLACES = ("/", "/runs", "/static/app.js", "/api/hello", "/api/runs", "/nothing")


@pytest.fixture
def stranger(studio: Studio) -> httpx.Client:
    return httpx.Client(base_url=studio.origin)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_shown_without_the_token(studio: Studio, stranger: httpx.Client, place: str) -> None:
    cookie = f"gymnast-{studio.port}"
    for answer in (
        stranger.get(place),
        stranger.get(place, params={"token": "wrong"}),
        stranger.get(place, headers={"Cookie": f"{cookie}=wrong"}),
        stranger.get(place, headers={"Cookie": f"{cookie}={TOKEN[:-1]}"}),
        stranger.get(place, headers={"Authorization": "Bearer wrong"}),
        stranger.get(place, headers={"Authorization": f"Basic {TOKEN}"}),
        stranger.get(place, headers={"Cookie": f"gymnast-1={TOKEN}"}),  # of another Studio
    ):
        assert answer.status_code == 403
        assert len(answer.text.splitlines()) == 1
        assert TOKEN not in answer.text


def test_the_address_with_the_token_gives_a_cookie_and_leaves_it_out(studio: Studio, stranger: httpx.Client) -> None:
    answer = stranger.get("/runs/@last", params={"token": TOKEN, "tab": "log"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/runs/@last?tab=log"
    cookie = answer.headers["set-cookie"]
    assert f"gymnast-{studio.port}={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = stranger.get("/runs/@last")
    assert page.status_code == 200  # by the cookie alone
    assert "text/html" in page.headers["content-type"]


def test_the_redirect_stays_here(studio: Studio, stranger: httpx.Client) -> None:
    for path in ("//evil.example/x", "/\\evil.example"):
        answer = stranger.request("GET", httpx.URL(f"{studio.origin}{path}").copy_merge_params({"token": TOKEN}))
        assert answer.headers.get("location", "/").startswith("/")
        assert not answer.headers.get("location", "/").startswith(("//", "/\\"))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
def test_another_web_site_is_refused(studio: Studio, origin: str) -> None:
    assert studio.browser.get("/api/runs").status_code == 200
    for method in ("GET", "POST"):
        answer = studio.browser.request(method, "/api/check", headers={"Origin": origin}, json={"env": "CartPole-v1"})
        assert answer.status_code == 403
        assert answer.text == "Refused: another web site asked."
    with pytest.raises(InvalidStatus) as refused:
        connect(
            f"ws://127.0.0.1:{studio.port}/ws",
            origin=origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": f"gymnast-{studio.port}={TOKEN}"},
            proxy=None,
        )
    assert refused.value.response.status_code == 403


def test_a_form_without_an_origin_is_refused(studio: Studio) -> None:
    answer = httpx.post(f"{studio.origin}/api/check", cookies={f"gymnast-{studio.port}": TOKEN}, json={})
    assert answer.status_code == 403


def test_a_websocket_needs_the_token(studio: Studio) -> None:
    for headers in ({}, {"Cookie": f"gymnast-{studio.port}=wrong"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{studio.port}/ws", origin=studio.origin, additional_headers=headers, proxy=None)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403


def test_a_foreign_name_for_this_machine_is_refused(studio: Studio) -> None:
    """A web site whose name is made to lead here (DNS rebinding) would be the same origin to a browser."""
    for host in ("evil.example", f"evil.example:{studio.port}", "127.0.0.1", ""):
        answer = studio.api.get("/api/runs", headers={"Host": host})
        assert answer.status_code in (400, 403), host
    assert studio.api.get("/api/runs", headers={"Host": f"localhost:{studio.port}"}).status_code == 200


def test_every_answer_forbids_foreign_scripts(studio: Studio) -> None:
    for place in ("/runs", "/static/app.js", "/api/hello"):
        headers = studio.browser.get(place).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_one_window_controls(own_studio: Studio) -> None:
    studio = own_studio
    ref = studio.get("/runs")["runs"][0]["id"]

    def tag(client: str | None) -> httpx.Response:
        headers = {} if client is None else {"X-Studio-Client": client}
        return studio.browser.post(f"/api/run/{ref}/tag", json={"add": ["seen"]}, headers=headers)

    with studio.window() as first, studio.window() as second:
        assert (first.control, second.control) == (True, False)
        for client in (None, "", second.client, "made-up"):
            answer = tag(client)
            assert answer.status_code == 409
            assert answer.json() == {"error": "Another window has control. Take it first."}
        assert tag(first.client).status_code == 200
        second.ask("take_control")
        assert first.pushed("control")["mine"] is False
        assert tag(first.client).status_code == 409
        assert tag(second.client).status_code == 200


def asked(studio: Studio, path: str) -> tuple[int, str]:
    """The path as it stands: a good client would take the dots out of it."""
    connection = HTTPConnection("127.0.0.1", studio.port, timeout=60)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace")


def test_files_outside_a_run_are_refused(own_studio: Studio) -> None:
    studio = own_studio
    run = sorted(studio.runs_dir.glob("[!.]*"))[0]
    secret = studio.runs_dir.parent / "secret.txt"
    secret.write_text("nobody may read this")
    (run / "link.txt").symlink_to(secret)
    (run / "folder").symlink_to(studio.runs_dir.parent)
    (studio.runs_dir / "linked-run").symlink_to(run)
    outside = studio.runs_dir.parent / "outside"
    outside.mkdir()
    (outside / "run.json").write_text((run / "run.json").read_text())
    (studio.runs_dir / "outside-run").symlink_to(outside)
    assert studio.api.get(f"/api/run/{run.name}/file/config.yaml").status_code == 200
    tries = ["../secret.txt", "../../secret.txt", "link.txt", "folder/secret.txt", str(secret), "checkpoints", "", "\0"]
    for path in [*tries, *(f"checkpoints/../../{path}" for path in tries), "/etc/passwd", "..%2f..%2fsecret.txt"]:
        for spelled in (quote(path), quote(path, safe=""), quote(quote(path, safe=""))):
            status, text = asked(studio, f"/api/run/{run.name}/file/{spelled}")
            assert status == 404, spelled
            assert "nobody" not in text
    for ref in ("..", ".", "%2e%2e", "linked-run", "outside-run", quote(str(outside), safe=""), "..%2foutside", "%00"):
        for place in ("", "/file/run.json", "/metrics", "/diagnostics"):
            assert asked(studio, f"/api/run/{ref}{place}")[0] == 404, ref
    assert not {"linked-run", "outside-run"} & {row["id"] for row in studio.get("/runs")["runs"]}


def test_a_page_in_a_run_cannot_run_scripts(own_studio: Studio) -> None:
    """Runs are exchanged as zip files: report.html may be anybody's."""
    studio = own_studio
    run = sorted(studio.runs_dir.glob("[!.]*"))[0]
    (run / "report.html").write_text("<script>fetch('/api/runs')</script>")
    (run / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>")
    for name, kind in (("report.html", "text/html"), ("picture.svg", "application/octet-stream")):
        headers = studio.api.get(f"/api/run/{run.name}/file/{name}").headers
        assert headers["content-type"].startswith(kind)
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "script-src" not in headers["content-security-policy"]
        assert "sandbox" in headers["content-security-policy"]


def test_parts_of_a_video_can_be_asked_for(own_studio: Studio) -> None:
    run = sorted(own_studio.runs_dir.glob("[!.]*"))[0]
    (run / "videos").mkdir(exist_ok=True)
    (run / "videos" / "best.mp4").write_bytes(bytes(range(100)))
    answer = own_studio.api.get(f"/api/run/{run.name}/file/videos/best.mp4", headers={"Range": "bytes=10-19"})
    assert answer.status_code == 206
    assert answer.content == bytes(range(10, 20))


def test_a_hostile_name_is_text(own_studio: Studio, gallery: Gallery) -> None:
    """What pages do with it is tested in a browser."""
    name = "<img src=x onerror=alert(1)>"
    path = own_studio.runs_dir / gallery.lake.id / "run.json"
    write_json(path, {**json.loads(path.read_text()), "name": name, "env": name, "tags": [name]})
    for place in ("/api/runs", f"/api/run/{gallery.lake.id}"):
        answer = own_studio.api.get(place)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        rows = answer.json().get("runs", [answer.json()])
        (row,) = [row for row in rows if row["id"] == gallery.lake.id]
        assert (row["name"], row["env"], row["tags"]) == (name, name, [name])
