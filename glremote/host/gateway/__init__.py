"""The gateway: admits clients on one port, gives each session a worker process, and carries packets between the two.

Knows: who may come in. Does not know: OpenGL, or what is in a packet. The way in is in door.py, tokens are in
tokens.py, devices in devices.py, sessions in sessions.py, worker processes in workers.py and warming.py, pages for
whoever looks in in looking.py, reasons for refusals in refusals.py, the certificate in certificates.py.

A `Session` is a task: it carries what its worker sends down to the client, and lives until the worker's end or until
nobody came back in time. A connection is a task too: it carries what its client sends up. Each reads only when what it
read before is handed over, so whoever does not read makes the other stop writing, and nothing gathers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http
import itertools
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from glremote.host.limits import Limits
from glremote.link.websocket import PATH, SESSION_HEADER
from glremote.protocol.devices import DEVICE_HEADER, PACKING, pack
from glremote.protocol.devices import PATH as DEVICES

from . import cgroups
from .caches import Caches
from .certificates import Certificate
from .devices import Devices, Served
from .door import Door, Visitor
from .looking import HEADERS as PAGE_HEADERS
from .looking import PAGES, Looking, Page, is_loopback, no_descriptors
from .refusals import Why
from .sessions import CLOSE_TIMEOUT, Session
from .tokens import Guesses, Token, TokensError, TokensFile, digest, find
from .warming import Warming
from .watching import Watch
from .workers import Options, Place, Worker, WorkerFailed

__all__ = ["Certificate", "Gateway", "Options", "TokensError", "WorkerFailed", "run", "serve"]

log = logging.getLogger("glremote.host")

REMEMBERED = 1000
"""Of so many sessions that have ended it is known why, for a client that comes back later."""
NO_TOKENS = "the host cannot read its tokens; its log says why"
TOKENS_INTERVAL = 1.0
"""Seconds between two looks at whether the tokens of the sessions still hold."""


class Gateway:
    """All sessions of a host, its port, and the workers that are kept warm."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.looking = Looking(self)
        self._door = Door(self._admit, self._connected, self.looking.refuse, options.tls)
        self._own = () if options.token is None else (Token("of serve itself", digest(options.token)),)
        self._file = None if options.tokens_file is None else TokensFile(options.tokens_file)
        self._guesses = Guesses()
        self._watch = Watch()
        self.devices = Devices(options.devices, lambda: (session.served for session in self._sessions.values()))
        place = Place(None if options.cache is None else Caches(options.cache))
        self._warming = Warming(options, self.devices, place, self._watch, self._limits_of)
        self._watching: list[asyncio.Task[None]] = []  # the tokens, and the workers
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, tuple[str, str]] = {}  # the token's digest, and why
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._closing = False
        self.draining = False
        self._on_loopback = False
        self._empty = asyncio.Event()

    async def open(self) -> str:
        """Listen, and start the first workers; the address. Raises OSError, TokensError and WorkerFailed."""
        self._warming.owner = next((token.digest for token in self._tokens()), "")
        groups, how = cgroups.begin()
        self._warming.place = replace(self._warming.place, groups=groups)
        if (caches := self._warming.place.caches) is not None:
            await asyncio.to_thread(caches.open)
        host, port = await self._door.open(self.options.bind, self.options.port)
        self._on_loopback = all(map(is_loopback, self._door.addresses))
        self._watching = [asyncio.create_task(self._look_at_tokens()), asyncio.create_task(self._watch.run())]
        await self._warming.begin()
        for served in self.devices.all:
            if served.device is not None:
                log.info("device %s, OpenGL %.1f", served.device.described(), served.device.version / 100)
        log.info("%s", how)
        scheme = "ws" if self.options.tls is None else "wss"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def close(self) -> None:
        """Stop accepting, tell every client, end every worker."""
        self._closing = self._warming.stopped = True
        self._door.close()
        for watching in self._watching:
            watching.cancel()
        for session in list(self._sessions.values()):
            session.end("the host is shutting down")
        await asyncio.gather(self._warming.end(), *self._tasks, return_exceptions=True)
        await self._watch.ended()
        if (groups := self._warming.place.groups) is not None:
            groups.close()

    async def drain(self, seconds: float) -> None:
        """Take no new sessions, tell those that are there, and give them so many seconds."""
        if not seconds:
            return
        self.draining = self._warming.stopped = True
        text = f"the host is going down: this session is ended in {seconds:g} s"
        log.info("going down: no new sessions, and %g s for those that are here (%d)", seconds, len(self._sessions))
        for session in self._sessions.values():
            self._keep(asyncio.create_task(session.tell(text)))
        if self._sessions:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    # --- for whoever looks in

    @property
    def sessions(self) -> Iterable[Session]:
        """Those that are there."""
        return self._sessions.values()

    @property
    def warm_workers(self) -> int:
        """How many workers are ready."""
        return self._warming.ready

    @property
    def renderer(self) -> str:
        """Of the worker that was started last."""
        return self._warming.renderer

    def trouble(self) -> str | None:
        """Why no new session can begin, though there may be room for one; or None."""
        if self.draining or self._closing:
            return "the host is going down"
        if (short := no_descriptors()) is not None:
            return short
        try:
            self._tokens()
        except TokensError:
            return NO_TOKENS
        return self._warming.trouble()

    # --- workers

    async def take_worker(self, session: Session) -> Worker:
        """A worker for a session on its device, or on another that will do. Raises WorkerFailed."""
        failed: list[Served] = []
        while True:
            try:
                return await self._warming.take(session.token, session.served)
            except WorkerFailed as error:
                failed.append(session.served)
                if (another := self.devices.choose(session.wanted, failed)) is None:
                    raise
                text = "%s has no worker on device %s, and is tried on device %s: %s"
                said = session.label, session.served.label, another.label, error
                log.warning(text, *said, extra={"session": session.label})
                session.served = another

    def _limits_of(self, owner: str) -> Limits:
        """Of a warm worker of a token: the host's, but for those that are the token's own, as far as is known now."""
        with contextlib.suppress(TokensError):
            own = {token.digest: token.limits for token in self._tokens()}
            return self.options.limits.changed(own.get(owner, ""))
        return self.options.limits

    # --- admitting

    def _tokens(self) -> tuple[Token, ...]:
        """All that are admitted now. Raises TokensError."""
        return self._own if self._file is None else (*self._own, *self._file.tokens())

    def _admit(self, connection: Visitor, request: Request) -> Awaitable[Response] | Response | None:
        """Before the websocket opens: None, a page, or the refusal, whose line the client shows after our address."""
        path = request.path.partition("?")[0]
        if path in PAGES and "Upgrade" not in request.headers:
            return self._show(connection, request)
        refusal = self._stranger(connection, request)
        if refusal is None and path == DEVICES:
            return self._tell(connection, request)
        refusal = refusal or self._no_place(connection, request)
        if refusal is None:
            return None  # and `_connected` follows at once, so a place that was found is not taken by another
        why, text = refusal
        assert why.status is not None
        self.looking.refuse(why, why.status)
        response = connection.respond(why.status, text + "\n")
        if why.status is http.HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        elif why is Why.METHOD:
            response.headers["Allow"] = "GET"
        return response

    async def _show(self, connection: Visitor, request: Request) -> Response:
        if not self.looking.prepared:
            await asyncio.to_thread(self.looking.prepare)
        await self.devices.refresh()
        return _answer(connection, self.looking.page(request, self._on_loopback, connection.address))

    async def _tell(self, connection: Visitor, request: Request) -> Response:
        """Of the devices, to one who may begin a session."""
        token = connection.token
        assert token is not None
        theirs, most, trouble = self._sessions_of(token), self.options.max_sessions, self.trouble()
        away = sum(session.connection is None for session in theirs)
        report = await self.devices.report(token, len(theirs), most, self.draining, trouble, away)
        answer = _answer(connection, Page(http.HTTPStatus.OK, report.decode(), "application/json"))
        if PACKING in ",".join(request.headers.get_all("Accept-Encoding")).lower():
            answer.body = pack(report)
            answer.headers["Content-Encoding"] = PACKING
            del answer.headers["Content-Length"]
            answer.headers["Content-Length"] = str(len(answer.body))
        return answer

    def _stranger(self, connection: Visitor, request: Request) -> tuple[Why, str] | None:
        """Unless its token is one of ours: then it is the connection's."""
        path = request.path.partition("?")[0]
        if path not in (PATH, DEVICES):
            return Why.PATH, f"this is a glremote host, and serves nothing but {PATH}"
        if request.method != "GET":
            return Why.METHOD, "a websocket begins with GET" if path == PATH else "a report is asked for with GET"
        origins = request.headers.get_all("Origin")
        if origins and not (len(origins) == 1 and origins[0] in self.options.origins):
            how = "`serve --allow-origin` names those that are"
            return Why.ORIGIN, f"requests with this Origin, a web browser's, are not served; {how}"
        given = " ".join(request.headers.get_all("Authorization"))
        scheme, _, text = given.partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            how = "name the file that holds it with --token-file, or set GLREMOTE_TOKEN"
            return Why.NO_TOKEN, f"a token is needed, and none was given; {how}"
        return self._check_token(connection, text.strip())

    def _check_token(self, connection: Visitor, text: str) -> tuple[Why, str] | None:
        """Whether the token is one of ours: then it is the connection's."""
        if wait := self._guesses.wait(connection.address):
            return Why.GUESSES, f"too many wrong tokens came from this address; try again in {wait:.0f} s"
        try:
            token = find(text, self._tokens())
        except TokensError as error:
            log.error("nobody is admitted: %s", error)
            return Why.NO_TOKENS, NO_TOKENS
        if token is None:
            self._guesses.wrong(connection.address)
            log.warning("a wrong token came from %s", connection.address)
            how = "take the one that `glremote serve` shows or was given, or one of `glremote token create`"
            look = self.options.look_token
            if look is not None and hmac.compare_digest(digest(text), digest(look)):
                how = f"it is the one for its pages (--look-token-file) alone; {how}"
            return Why.WRONG_TOKEN, f"the token is not this host's; {how}"
        if token.has_expired():
            how = "ask the host's user for another, which `glremote token create` makes"
            return Why.EXPIRED, f"the token {token.name} has expired; {how}"
        connection.token = token
        return None

    def _no_place(self, connection: Visitor, request: Request) -> tuple[Why, str] | None:
        """Unless there is a session to be resumed, or room for one, on a device: then that is the connection's."""
        token = connection.token
        assert token is not None
        if names := request.headers.get_all(SESSION_HEADER):
            return self._cannot_resume(connection, ", ".join(names), token)  # two are none
        wanted = " ".join(request.headers.get_all(DEVICE_HEADER)) or None
        if self.draining:
            return Why.GOING_DOWN, "the host is going down, and takes no new sessions"
        if (short := no_descriptors()) is not None:
            return Why.DESCRIPTORS, f"no room for another session: {short}"
        if (refusal := self.devices.refusal(wanted)) is not None:
            return refusal
        if (full := self._full(token)) is not None:
            return Why.FULL, f"no room for another session: {full}"
        self._warming.try_again()
        connection.wanted, connection.served = wanted, self.devices.choose(wanted)
        return None

    def _cannot_resume(self, connection: Visitor, name: str, token: Token) -> tuple[Why, str] | None:
        """Of a session that is another token's it is said what is said of one that never was."""
        session = self._sessions.get(name)
        if session is not None and session.token.digest == token.digest:
            connection.served = session.served
            return None
        whose, why = self._ended.get(name, ("", ""))
        return Why.ENDED, "the session has ended" + (f": {why}" if why and whose == token.digest else "")

    def _full(self, token: Token) -> str | None:
        """Why no other session may begin. Of this token's without a connection the one that lacks it longest gives its
        place away."""
        theirs = self._sessions_of(token)
        if token.max_sessions is not None and len(theirs) >= token.max_sessions:
            most = token.max_sessions
            full = f"all {most} of the token {token.name} are in use, which is its --max-sessions; release a context"
        elif len(self._sessions) >= self.options.max_sessions:
            most = self.options.max_sessions
            full = f"all {most} are in use; release a context, or serve with a greater --max-sessions"
        else:
            return None
        detached = [session for session in theirs if session.connection is None]
        if not detached:
            return full
        session = min(detached, key=lambda session: session.detached)
        self.forget(session, why := "it had no connection, and a new session needed its place")
        session.end(why)
        return None

    def _sessions_of(self, token: Token) -> list[Session]:
        return [session for session in self._sessions.values() if session.token.digest == token.digest]

    async def _look_at_tokens(self) -> None:
        """End the sessions whose token was revoked or has expired, and keep nothing of tokens that are gone."""
        complained = False
        settled: list[str] | None = None  # the tokens for which there is nothing to be removed
        while True:
            try:
                tokens = self._tokens()
            except TokensError as error:  # nobody is admitted until they can be read; who is here stays
                if not complained:
                    log.error("%s", error)
                complained = True
            else:
                complained = False
                known = [token.digest for token in tokens]
                for session in list(self._sessions.values()):
                    if session.token.digest not in known:
                        session.end(f"its token, {session.token.name}, was revoked")
                    elif session.token.has_expired():
                        session.end(f"its token, {session.token.name}, has expired")
                if known != settled and await self._forget_all_but(known):
                    settled = known
            await asyncio.sleep(TOKENS_INTERVAL)

    async def _forget_all_but(self, known: list[str]) -> bool:
        """Keep no warm worker and no cache folder of tokens that are gone; whether there is none any more."""
        if self._warming.owner not in known:
            self._warming.owner = next(iter(known), "")
        kept = {*known, self._warming.owner}
        self._warming.forget_all_but(kept)
        caches = self._warming.place.caches
        return caches is None or await asyncio.to_thread(caches.clear, kept)

    async def _connected(self, connection: Visitor) -> None:
        """A websocket is open: its whole life."""
        assert connection.request is not None and connection.token is not None and connection.served is not None
        if SESSION_HEADER in connection.request.headers:
            session = self._sessions.get(connection.request.headers[SESSION_HEADER])
            if session is None:  # it ended in this moment; coming again, the client is told why
                return
            await session.resume(connection)
            return
        if self._closing:
            return
        served = connection.served
        session = Session(self, next(self._numbers), connection.token, served, connection.wanted)
        self._sessions[session.name] = session
        self._keep(session.task)
        self.looking.sessions += 1
        peer = str((connection.remote_address or ("",))[0])
        where = f" on device {served.label}" if self.devices.several else ""
        fields = {"from": peer, "device": served.label}
        log.info("%s began%s", session.label, where, extra={"session": session.label, "fields": fields})
        await session.carry_up(connection)

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: nobody can come back to it."""
        if self._sessions.pop(session.name, None) is not None:
            self.looking.forget(session, reason)
            if not self._sessions:
                self._empty.set()
            self._warming.fill()
            self._ended[session.name] = (session.token.digest, reason)
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]

    def dismiss(self, connection: ServerConnection, reason: str) -> None:
        """Close a connection without waiting for it; cut it if that takes long."""

        async def close() -> None:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await connection.close(CloseCode.POLICY_VIOLATION, reason)
            except TimeoutError:
                connection.transport.abort()

        self._keep(asyncio.create_task(close()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _answer(connection: Visitor, page: Page) -> Response:
    response = connection.respond(page.status, page.text)
    del response.headers["Content-Type"]
    for name, value in (("Content-Type", page.kind), *PAGE_HEADERS.items(), *page.headers):
        response.headers[name] = value
    return response


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Be a host until SIGINT, or until SIGTERM and the sessions' time is over, or a second one comes.

    SIGHUP, where there is no terminal, has it look at its certificate at once; it does so for each connection anyway.
    `ready` gets its address. Raises OSError (the port), TokensError and WorkerFailed.
    """
    loop = asyncio.get_running_loop()
    stop, drain = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, lambda: stop.set() if drain.is_set() else drain.set())
    if sys.stdin is None or not sys.stdin.isatty():  # to others it means that their terminal has gone
        loop.add_signal_handler(signal.SIGHUP, options.tls.look if options.tls is not None else lambda: None)
    if (lifeline := options.lifeline) is not None:
        loop.add_reader(lifeline, lambda: None if os.read(lifeline, 4096) else stop.set())
    gateway = Gateway(options)
    opening = asyncio.create_task(gateway.open())
    stopping, draining = asyncio.create_task(stop.wait()), asyncio.create_task(drain.wait())
    try:
        await asyncio.wait((opening, stopping, draining), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            ready(opening.result())
            await asyncio.wait((stopping, draining), return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await asyncio.wait(
                    (stopping, asyncio.create_task(gateway.drain(options.drain))), return_when=asyncio.FIRST_COMPLETED
                )
    finally:
        if lifeline is not None:
            loop.remove_reader(lifeline)
        opening.cancel()
        await gateway.close()


def run(options: Options, ready: Callable[[str], None]) -> None:
    """`serve`, on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(options, ready))
    else:
        uvloop.run(serve(options, ready))
