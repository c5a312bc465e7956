"""Looking in: the pages of a host, who may see them, what a browser makes of them, and the log's lines."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import resource
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import moderngl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import glremote
from glremote.host.gateway import looking
from glremote.host.gateway.tokens import TokensFile
from glremote.host.port import Tally
from glremote.host.serving import LocalHost
from glremote.protocol.errors import HostError, NotAdmitted
from tests.host.test_gateway import TOKEN, Host, eventually
from tests.host.test_strangers import Certificate
from tests.pages import get, metrics

LOOK = "a-token-for-looking"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

Start = Callable[..., LocalHost]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a host."""
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(LocalHost("--warm", "1", *options))


@pytest.fixture
def look_file(tmp_path: Path) -> Path:
    """A file with a token for looking."""
    file = tmp_path / "look"
    file.write_text(LOOK + "\n")
    return file


def picture(ctx: Any) -> bytes:
    """Draw something and read it."""
    framebuffer = ctx.simple_framebuffer((64, 64))
    framebuffer.clear(1.0, 0.0, 0.0, 1.0)
    pixels: bytes = framebuffer.read()
    return pixels


class Page(HTMLParser):
    """Reads a page: its rows, its facts, its elements' names, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []
        self.facts: dict[str, str] = {}
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self._open: list[tuple[str, str]] = []
        self._term = ""
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self.tags.add(tag)
        self.addresses += [found[key] for key in ("src", "href") if key in found]
        name = found.get("data-name", "")
        if name == "Session":
            self.rows.append({})
        if tag != "meta":
            self._open.append((tag, name))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, name = self._open[-1] if self._open else ("", "")
        if name:
            self.rows[-1][name] = data
        elif tag == "small":
            self.rows[-1]["Renderer"] = data
        elif tag == "dt":
            self._term = data
        elif tag == "dd":
            self.facts[self._term] = data


# --- what is shown


@pytest.mark.parametrize("near", [True, False])
def test_the_figures_are_those_of_the_client(start: Start, near: bool) -> None:
    host = start()
    ctx = glremote.create_context(host.url, token=host.token, near=near)
    for _ in range(5):
        assert len(picture(ctx)) == 64 * 64 * 3
    device = glremote.device(ctx)
    traffic = device.measure()

    def told() -> dict[str, float] | None:
        found = metrics(host.url)
        return found if found["glremote_buffers_total"] == traffic.buffers else None

    found = eventually(told)
    assert found["glremote_commands_total"] == traffic.commands
    assert found["glremote_data_bytes_total down"] == 5 * 64 * 64 * 3
    assert found["glremote_data_bytes_total up"] > 0 and 0 < found["glremote_buffer_seconds_total"] < 60
    assert found["glremote_sessions connected"] == 1 and found["glremote_sessions_near"] == near
    if not near:
        assert found["glremote_websocket_bytes_total up"] > 0
        assert found["glremote_websocket_bytes_total down"] > 0
    page = Page(get(host.url, "/")[1])
    (row,) = page.rows
    assert row["Session"] == "session 1" and row["State"] == "connected" and row["From"] == "127.0.0.1"
    assert row["Renderer"] == page.facts["Renderer"] == device.renderer
    assert (row["Way"], row["Buffers"]) == ("near" if near else "websocket", f"{traffic.buffers}")
    assert row["Commands"] == f"{traffic.commands}" and row["Data down"] == looking.size(5 * 64 * 64 * 3)
    ctx.release()
    after = eventually(lambda: (found := metrics(host.url))["glremote_sessions_ended_total goodbye"] == 1 and found)
    assert after["glremote_sessions connected"] == 0 and after["glremote_sessions_begun_total"] == 1
    assert after["glremote_buffers_total"] >= traffic.buffers
    assert "No sessions now" in (text := get(host.url, "/status")[1]) and "it said goodbye" in text


def test_faults_are_counted_by_kind(start: Start) -> None:
    host = start()
    ctx = glremote.create_context(host.url, token=host.token)
    for _ in range(3):
        with pytest.raises(moderngl.Error, match="GLSL"):
            ctx.program(vertex_shader="#version 330\nnonsense")
    eventually(lambda: metrics(host.url).get("glremote_faults_total Error") == 3)
    assert Page(get(host.url, "/")[1]).rows[0]["Faults"] == "3"
    ctx.release()
    eventually(lambda: metrics(host.url)["glremote_sessions_ended_total goodbye"])
    assert metrics(host.url)["glremote_faults_total Error"] == 3


def test_the_page_stands_alone_and_escapes(tmp_path: Path) -> None:
    """A renderer's name, a reason and a session's text come from elsewhere."""
    host = Host(tmp_path)
    try:
        host.worker.write_text(host.worker.read_text().replace("a stand-in", "<script>alert(1)</script> & more"))
        client = host()
        client.hello()
        host.errors()
        status, text, headers = get(host.url, "/")
        page = Page(text)
        assert status == 200 and "script" not in page.tags and page.rows[0]["Renderer"].endswith("& more")
        assert not page.tags & {"link", "iframe", "img", "object"}
        assert set(page.addresses) == {"/metrics", "/healthz"} and "url(" not in text
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
        client.say(b"end <b>bold</b>")
        client.lost()
        text = eventually(lambda: "bold" in (text := get(host.url, "/")[1]) and text)
        assert "b" not in Page(text.replace("<b>0</b>", "")).tags and "&lt;b&gt;bold" in text
    finally:
        host.close()


def test_no_secret_is_shown(start: Start) -> None:
    host = start("--log-format", "json")
    ctx = glremote.create_context(host.url, token=host.token)
    picture(ctx)
    name = glremote.device(ctx).greeting.session  # type: ignore[union-attr]
    shown = "".join(get(host.url, path)[1] for path in ("/", "/status", "/metrics", "/healthz")) + host.said()
    assert name not in shown and host.token not in shown
    ctx.release()


def test_health_says_when_no_worker_can_be_started(tmp_path: Path) -> None:
    host = Host(tmp_path, constants={"TRY_AGAIN": 0.05})
    try:
        assert get(host.url, "/healthz")[:2] == (200, "ok\n")
        good = host.worker.read_text()
        host.worker.write_text("raise SystemExit('no OpenGL here')")
        assert "no OpenGL here" in host().lost()
        status, text, _ = get(host.url, "/healthz")
        assert status == 503 and text == "no worker can be started: no OpenGL here\n"
        assert ">trouble<" in get(host.url, "/")[1] and metrics(host.url)["glremote_healthy"] == 0
        host.worker.write_text(good)
        eventually(lambda: get(host.url, "/healthz")[0] == 200)  # asking has it try again
        assert host().ask(b"hello again") is not None
    finally:
        host.close()


# --- who may look


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/healthz"])
def test_a_token_of_its_own(start: Start, look_file: Path, path: str) -> None:
    def basic(token: str) -> str:
        return "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()

    host = start("--look-token-file", str(look_file))
    for wrong in ("", f"Bearer {host.token}", "Bearer ", f"Bearer {LOOK}x", basic(host.token), basic(""), "Basic ?",
                  f"Digest {LOOK}", "Bearer \xe4"):  # fmt: skip
        status, text, headers = get(host.url, path, **({"Authorization": wrong} if wrong else {}))
        assert (status, text.count("\n")) == (401, 1), wrong
        assert LOOK not in text and "WWW-Authenticate" in headers
    for right in (f"Bearer {LOOK}", f"bearer {LOOK}", basic(LOOK)):
        assert get(host.url, path, Authorization=right, Origin="https://example.org")[0] == 200
    with pytest.raises(NotAdmitted):
        glremote.create_context(host.url, token=LOOK)


def test_beyond_loopback_there_is_no_page_without_a_token(tmp_path: Path) -> None:
    for token in (None, LOOK):
        host = Host(tmp_path, bind="0.0.0.0", look_token=token)
        try:
            url = host.url.replace("0.0.0.0", "127.0.0.1")
            for path in looking.PAGES:
                status, text, _ = get(url, path)
                assert status == (401 if token else 403) and "token" in text
                assert get(url, path, Authorization=f"Bearer {LOOK}")[0] == (200 if token else 403)
        finally:
            host.close()


def test_another_name_that_leads_to_loopback_is_no_way_in(start: Start) -> None:
    host = start()
    port = urlsplit(host.url).port
    for name in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "localhost.evil.example"):
        assert get(host.url, "/", Host=name)[0] == 403, name
    for name in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", "127.1.2.3", "[::1]", f"[::1]:{port}"):
        assert get(host.url, "/", Host=name)[0] == 200, name


def test_looking_with_the_hosts_own_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("the-same")
    command = ["glremote", "serve", "--port", "0", "--token-file", str(file), "--look-token-file", str(file)]
    done = subprocess.run([sys.executable, "-P", "-m", *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the token for looking is the host's own" in done.stderr


def test_looking_with_a_token_of_the_file_is_refused(tmp_path: Path, look_file: Path) -> None:
    kept = tmp_path / "tokens.json"
    look_file.write_text(TokensFile(kept).create("anna"))
    command = ["glremote", "serve", "--port", "0", "--tokens-file", str(kept), "--look-token-file", str(look_file)]
    done = subprocess.run([sys.executable, "-P", "-m", *command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the token for looking is the host's own" in done.stderr


def test_tokens_that_cannot_be_read_are_trouble(tmp_path: Path) -> None:
    kept = tmp_path / "tokens.json"
    TokensFile(kept).create("anna")
    host = Host(tmp_path, tokens_file=str(kept))
    try:
        assert get(host.url, "/healthz")[:2] == (200, "ok\n")
        good = kept.read_text()
        kept.write_text("{")
        status, text, _ = get(host.url, "/healthz")
        assert (status, text) == (503, "the host cannot read its tokens; its log says why\n")
        kept.write_text(good)
        assert get(host.url, "/healthz")[0] == 200
    finally:
        host.close()


def test_pages_come_by_tls_where_the_host_speaks_it(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "127.0.0.1")
    host = Host(tmp_path, tls=certificate.files)
    try:
        address = urlsplit(host.url)
        trust = ssl.create_default_context(cafile=certificate.ca)
        for path, begins in (("/healthz", "ok"), ("/metrics", "# HELP"), ("/", "<!doctype html>")):
            connection = http.client.HTTPSConnection(str(address.hostname), address.port, timeout=30, context=trust)
            with contextlib.closing(connection):
                connection.request("GET", path)
                response = connection.getresponse()
                assert response.status == 200 and response.read().decode().lower().startswith(begins.lower())
        assert get(host.url.replace("wss:", "ws:"), "/healthz")[0] == 403
    finally:
        host.close()


# --- a real browser


@pytest.fixture(scope="module")
def browser() -> Callable[..., str]:
    """Runs a headless Chromium; what it prints."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium; `apt-get install chromium-headless-shell` brings one")

    def run(url: str, *options: str) -> str:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=20000"]
        return subprocess.run([*command, *options, url], capture_output=True, text=True, timeout=90, check=True).stdout

    return run


def test_a_browser_shows_the_page(start: Start, browser: Callable[..., str], look_file: Path, tmp_path: Path) -> None:
    """At three sizes, nothing is wider than the window; with a password in its address it is let in."""
    host = start("--look-token-file", str(look_file))
    ctx = glremote.create_context(host.url, token=host.token)
    picture(ctx)
    address = host.url.replace("ws://", f"http://anybody:{LOOK}@")
    page = Page(browser(address + "/", "--dump-dom"))
    assert page.rows[0]["Session"] == "session 1" and page.facts["Sessions"] == "1 of 16"
    assert "token for looking" in browser(host.url.replace("ws://", "http://x:wrong@") + "/", "--dump-dom")
    shots = {}
    for width, height in ((1280, 900), (800, 900), (500, 1200)):
        shot = tmp_path / f"{width}.png"
        browser(address + "/", f"--screenshot={shot}", f"--window-size={width},{height}")
        with Image.open(shot) as image:
            shots[width] = image.convert("RGB")
        colours = shots[width].getcolors(1 << 20)
        assert colours is not None and len(colours) > 50, "an empty page"
        background = shots[width].getpixel((1, 1))
        assert {shots[width].getpixel((width - 2, y)) for y in range(height)} == {background}, "wider than the window"
    ctx.release()


def test_a_browser_does_not_get_a_websocket(start: Start, browser: Callable[..., str], tmp_path: Path) -> None:
    host = start()
    page = tmp_path / "page.html"
    page.write_text(
        f"<p id=said>nothing</p><script>const it = new WebSocket('{host.url}/glremote');"
        "it.onopen = () => said.textContent = 'opened'; it.onerror = () => said.textContent = 'refused';</script>"
    )
    assert ">opened<" not in browser(page.as_uri(), "--dump-dom", "--virtual-time-budget=5000")
    assert eventually(lambda: metrics(host.url)["glremote_refused_total origin 403"])


# --- the log


def test_every_line_is_an_object_with_its_session(start: Start) -> None:
    host = start("--log-format", "json")
    first = glremote.create_context(host.url, token=host.token)
    second = glremote.create_context(host.url, token=host.token)
    picture(second)
    second.release()
    first.release()
    eventually(lambda: host.said().count(" ended") == 2)
    lines = [json.loads(line) for line in host.said().splitlines()]
    assert all({"time", "level", "session", "message"} <= line.keys() for line in lines)
    began = [line for line in lines if line["message"].endswith(" began")]
    assert [line["session"] for line in began] == ["session 1", "session 2"]
    (end,) = [line for line in lines if line["message"] == "session 2 ended"]
    assert end["session"] == "session 2" and end["buffers"] > 0 and end["data_down"] == 64 * 64 * 3


def test_what_a_worker_writes_has_its_sessions_name(tmp_path: Path) -> None:
    host = Host(tmp_path)
    try:
        client = host()
        client.say(b"exit 3")
        assert "the last words" in client.lost()
        assert "session 1: some noise" in host.errors()
    finally:
        host.close()


# --- what runs out


def limit_descriptors(pid: int, most: int) -> int:
    """Let a process have so many descriptors; how many it could have until now."""
    before, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
    return before


def test_without_descriptors_a_client_is_told_and_the_others_go_on(start: Start) -> None:
    host = start()
    ctx = glremote.create_context(host.url, token=host.token)
    before = picture(ctx)
    eventually(lambda: metrics(host.url)["glremote_workers_warm"] == 1)
    limit = len(os.listdir(f"/proc/{host.pid}/fd")) + looking.SPARE_DESCRIPTORS - 2
    usual = limit_descriptors(host.pid, limit)
    with pytest.raises(NotAdmitted, match=f"no descriptors left: .* of {limit} are open; raise the limit"):
        glremote.create_context(host.url, token=host.token)
    status, text, _ = get(host.url, "/healthz")
    assert status == 503 and text.startswith("no descriptors left: ")
    assert picture(ctx) == before
    limit_descriptors(host.pid, usual)
    another = glremote.create_context(host.url, token=host.token)
    assert picture(another) == before
    another.release()
    ctx.release()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_crowd_that_takes_all_descriptors_does_not_end_the_host(tmp_path: Path, loop: str) -> None:
    host = Host(tmp_path, loop=loop)
    try:
        first = host()
        known = first.hello()
        address = urlsplit(host.url)
        limit = len(os.listdir(f"/proc/{host.process.pid}/fd")) + 12
        usual = limit_descriptors(host.process.pid, limit)
        with contextlib.ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(socket.create_connection((address.hostname, address.port)))
            eventually(lambda: len(os.listdir(f"/proc/{host.process.pid}/fd")) >= limit - 1)
            assert first.hello()["pid"] == known["pid"]
        eventually(lambda: len(os.listdir(f"/proc/{host.process.pid}/fd")) < limit - 8)
        limit_descriptors(host.process.pid, usual)
        assert host().hello()["pid"] != known["pid"]
        assert first.hello()["pid"] == known["pid"]
    finally:
        host.close()


def test_a_worker_that_cannot_be_started_for_want_of_descriptors_is_told_of(tmp_path: Path) -> None:
    """Here the spare ones are not kept, so that it is the start that fails, at each place where it can."""
    host = Host(tmp_path, constants={"SPARE_DESCRIPTORS": 0})
    try:
        first = host()
        known = first.hello()
        failed = 0
        for room in range(1, 9):
            limit = len(os.listdir(f"/proc/{host.process.pid}/fd")) + room
            usual = limit_descriptors(host.process.pid, limit)
            with contextlib.suppress(Exception):
                client = host()
                with contextlib.suppress(AssertionError):
                    assert "Too many open files" in client.lost()
                    failed += 1
                client.link.close()
            limit_descriptors(host.process.pid, usual)
            assert first.hello()["pid"] == known["pid"]
        assert failed >= 2
        assert host().hello()["pid"] != known["pid"]
    finally:
        host.close()


def test_a_log_that_cannot_be_written_ends_nothing(start: Start, tmp_path: Path) -> None:
    """/dev/full is a disk that is full."""
    token = tmp_path / "token"
    token.write_text("a-token")
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "glremote", "serve", "--port", "0", "--token-file", str(token)],
            stdout=subprocess.PIPE, stderr=full, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        for _ in range(2):
            ctx = glremote.create_context(url, token="a-token")
            assert len(picture(ctx)) == 64 * 64 * 3
            ctx.release()
        assert get(url, "/healthz")[0] == 200
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()  # type: ignore[union-attr]


FULL_WORKER = """
import errno, os, sys
allocate = os.posix_fallocate
def full(descriptor, offset, size):
    if os.path.exists(sys.argv[1]):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    allocate(descriptor, offset, size)
os.posix_fallocate = full
from glremote.host import process
sys.exit(process.main(sys.argv[2:]))
"""


def test_a_full_shared_memory_fails_the_read_alone(tmp_path: Path) -> None:
    """Near, a stack grows in shared memory; what the system says then is the only thing that is not real here."""
    flag = tmp_path / "full"
    host = Host(tmp_path, worker_command=[sys.executable, "-P", "-c", FULL_WORKER, str(flag)])
    try:
        contexts = [glremote.create_context(host.url, token=TOKEN, near=True) for _ in range(2)]
        ctx, other = contexts
        before = picture(ctx)
        assert picture(other) == before
        framebuffer = ctx.simple_framebuffer((1024, 1024))
        framebuffer.clear(0.0, 1.0, 0.0, 1.0)
        flag.touch()
        with pytest.raises(HostError, match="No space left on device"):
            framebuffer.read()
        assert picture(ctx) == before == picture(other)
        flag.unlink()
        assert framebuffer.read() == b"\0\xff\0" * 1024 * 1024
        for one in contexts:
            one.release()
    finally:
        host.close()


def test_what_the_gpu_has_no_memory_for_is_its_programs_to_know(start: Start) -> None:
    """As moderngl has it: in ctx.error, and nowhere else."""
    host = start()
    ctx, other = (glremote.create_context(host.url, token=host.token) for _ in range(2))
    before = picture(other)
    buffer = ctx.buffer(reserve=1 << 40)
    assert ctx.error == "GL_OUT_OF_MEMORY" and ctx.error == "GL_NO_ERROR"
    buffer.release()
    assert picture(ctx) == before == picture(other) and other.error == "GL_NO_ERROR"
    ctx.release()
    other.release()


# --- a worker's word


TALLIES = st.builds(
    Tally,
    *([st.integers(0, (1 << 63) - 1)] * 7),
    st.dictionaries(st.text(max_size=60).filter(str.isprintable), st.integers(0, (1 << 63) - 1), max_size=32),
)


@given(TALLIES)
def test_a_tally_comes_back(tally: Tally) -> None:
    assert Tally.decode(tally.encode()) == tally


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | ANYTHING.map(lambda it: json.dumps(it).encode()) | st.just(b"[" * 100_000))
def test_what_is_no_tally_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        Tally.decode(data)


def test_a_worker_that_counts_nonsense_ends_its_own_session(tmp_path: Path) -> None:
    host = Host(tmp_path)
    try:
        first = host()
        known = first.hello()
        bad = host.worker.read_text().replace(
            'if word == b"hello":', 'if word == b"tally":\n        send(9, rest)\n    elif word == b"hello":'
        )
        host.worker.write_text(bad)
        second = host()
        second.say(b'tally [1, 2, 3, 4, 5, 0, 0, {"<b>": 7}]')
        assert eventually(lambda: metrics(host.url).get("glremote_faults_total <b>")) == 7
        second.say(b'tally [1, 2, 3, 4, 5, 0, 0, {"x": -1}]')
        assert second.lost().startswith("the worker broke its protocol: no tally")
        for kind in (rb"\ud800", rb"\n# HELP", rb"\u001b[31m"):  # what is no text cannot even be shown
            third = host()
            third.say(b'tally [1, 2, 3, 4, 5, 0, 0, {"%s": 1}]' % kind)
            assert third.lost().startswith("the worker broke its protocol: no tally")
            assert get(host.url, "/")[0] == 200
        fourth = host()
        fourth.say(b"tally " + b" " * (1 << 20) + b"[1, 2, 3, 4, 5, 0, 0, {}]")
        assert fourth.lost().startswith("the worker broke its protocol: no tally")
        assert first.hello()["pid"] == known["pid"]
        assert metrics(host.url)["glremote_commands_total"] == 2
    finally:
        host.close()


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (200, "3 min 20 s"), (18_420, "5 h 7 min"), (183_600, "2 d 3 h")]
)
def test_duration(seconds: float, text: str) -> None:
    assert looking.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (15_400_000, "15.4 MB"), (2e9, "2 GB"), (3.21e12, "3.21 TB")],
)
def test_size(count: float, text: str) -> None:
    assert looking.size(count) == text
