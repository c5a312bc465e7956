"""The gateway: admits clients on one port, gives each session a worker process, and carries packets between the two.

Knows: who may come in, and which workers are warm. Does not know: OpenGL, or what is in a packet. The way in is in
door.py, tokens are in tokens.py, sessions in sessions.py, worker processes in workers.py, pages for whoever looks in in
looking.py.

A `Session` is a task: it carries what its worker sends down to the client, and lives until the worker's end or until
nobody came back in time. A connection is a task too: it carries what its client sends up. Each reads only when what it
read before is handed over, so whoever does not read makes the other stop writing, and nothing gathers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http
import itertools
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from glremote.host.limits import Limits
from glremote.link.websocket import PATH, SESSION_HEADER

from . import cgroups
from .caches import Caches
from .certificate import renew, tls_context
from .door import Door, Visitor
from .looking import HEADERS as PAGE_HEADERS
from .looking import PAGES, Looking, is_loopback, no_descriptors
from .sessions import CLOSE_TIMEOUT, Session
from .tokens import Guesses, Token, TokensError, TokensFile, digest, find
from .watching import Watch
from .workers import Options, Place, Worker, WorkerFailed

__all__ = ["Gateway", "Options", "TokensError", "WorkerFailed", "run", "serve", "tls_context"]

log = logging.getLogger("glremote.host")

WARM_LATER = 3.0
"""Seconds after which a warm worker that was taken is replaced, if others are left: starting one takes a processor from
the session that has just begun. At the end of a session it is replaced at once."""
TRY_AGAIN = 10.0
"""Seconds after which a worker is started again to see whether one can be, when someone asks and none could."""
REMEMBERED = 1000
"""Of so many sessions that have ended it is known why, for a client that comes back later."""
NO_TOKENS = "the host cannot read its tokens; its log says why"
TOKENS_INTERVAL = 1.0
"""Seconds between two looks at whether the tokens of the sessions still hold."""


class Gateway:
    """All sessions of a host, its port, and the workers that are kept warm."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._door = Door(self._admit, self._connected, options.tls)
        self._own = () if options.token is None else (Token("of serve itself", digest(options.token)),)
        self._owner = ""  # the token that began a session last
        self._file = None if options.tokens_file is None else TokensFile(options.tokens_file)
        self._guesses = Guesses()
        self._watch = Watch()
        self._watching: list[asyncio.Task[None]] = []  # the tokens, and the workers
        self._place = Place(None if options.cache is None else Caches(options.cache))
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, tuple[str, str]] = {}  # the token's digest, and why
        self._warm: deque[tuple[str, asyncio.Task[Worker]]] = deque()  # each for the sessions of one token, by digest
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._closing = False
        self.draining = False
        self.renderer = ""
        self._no_worker: tuple[float, str] | None = None  # since when, and why, none could be started
        self._on_loopback = False
        self._empty = asyncio.Event()
        self.looking = Looking(self)

    async def open(self) -> str:
        """Listen, and start the first workers; the address. Raises OSError, TokensError and WorkerFailed."""
        self._owner = next((token.digest for token in self._tokens()), "")
        groups, how = cgroups.begin()
        self._place = replace(self._place, groups=groups)
        if self._place.caches is not None:
            await asyncio.to_thread(self._place.caches.open)
        host, port = await self._door.open(self.options.bind, self.options.port)
        self._on_loopback = all(map(is_loopback, self._door.addresses))
        self._watching = [asyncio.create_task(self._look_at_tokens()), asyncio.create_task(self._watch.run())]
        if self.options.tls is not None and self.options.tls_files is not None:
            self._watching.append(asyncio.create_task(renew(self.options.tls, *self.options.tls_files)))
        self._warm_up()
        if self._warm:
            _, first = self._warm[0]
            await asyncio.wait((first,))
            if not first.cancelled() and (error := first.exception()) is not None:
                raise error
        log.info("%s", how)
        scheme = "ws" if self.options.tls is None else "wss"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def close(self) -> None:
        """Stop accepting, tell every client, end every worker."""
        self._closing = True
        self._door.close()
        for watching in self._watching:
            watching.cancel()
        for session in list(self._sessions.values()):
            session.end("the host is shutting down")
        warm = [starting for _, starting in self._warm]
        for starting in warm:
            starting.cancel()
        started = await asyncio.gather(*warm, return_exceptions=True)
        ending = [worker.end() for worker in started if isinstance(worker, Worker)]
        await asyncio.gather(*ending, *self._tasks, return_exceptions=True)
        await self._watch.ended()
        if self._place.groups is not None:
            self._place.groups.close()

    async def drain(self, seconds: float) -> None:
        """Take no new sessions, tell those that are there, and give them so many seconds."""
        if not seconds:
            return
        self.draining = True
        text = f"the host is going down: this session is ended in {seconds:g} s"
        log.info("going down: no new sessions, and %d have %g s", len(self._sessions), seconds)
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
        return sum(_is_ready(starting) for _, starting in self._warm)

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
        if self._no_worker is None:
            return None
        since, why = self._no_worker
        if time.monotonic() - since > TRY_AGAIN and all(starting.done() for _, starting in self._warm):
            self._warm = deque(warm for warm in self._warm if _is_ready(warm[1]))
            self._warm.append((self._owner, asyncio.create_task(self._start_worker(self._owner))))
        return f"no worker can be started: {why}"

    # --- workers

    async def _start_worker(self, owner: str, limits: Limits | None = None) -> Worker:
        options = dataclasses.replace(self.options, limits=limits or self._limits_of(owner))
        try:
            worker = await Worker.start(options, owner, self._place)
        except WorkerFailed as error:
            self._no_worker = time.monotonic(), str(error)
            raise
        self._no_worker = None
        self.renderer = worker.renderer
        self._watch.add(worker)
        return worker

    async def take_worker(self, token: Token) -> Worker:
        """A worker for a session of this token; another one is started in its place. Raises WorkerFailed.

        A worker has the cache folder of one token, which its walls let it write to before its session is known, and
        that token's limits; so one is warm for whoever came last.
        """
        self._owner = owner = token.digest
        limits = self.options.limits.changed(token.limits)
        worker = None
        while worker is None and (found := next((warm for warm in self._warm if warm[0] == owner), None)):
            self._warm.remove(found)
            with contextlib.suppress(WorkerFailed):  # the next attempt may succeed, or tells why not
                worker = await found[1]
            if worker is not None and not (worker.alive and worker.limits == limits):
                await worker.end()
                worker = None
        if worker is None:
            worker = await self._start_worker(owner, limits)
            if len(self._warm) == self.options.warm > 0:  # all for others
                self._keep(asyncio.create_task(_end_when_started(self._warm.popleft()[1])))
        if self._warm:
            asyncio.get_running_loop().call_later(WARM_LATER, self._warm_up)
        else:
            self._warm_up()
        return worker

    def _limits_of(self, owner: str) -> Limits:
        """Of a warm worker of a token: the host's, but for those that are the token's own, as far as is known now."""
        with contextlib.suppress(TokensError):
            own = {token.digest: token.limits for token in self._tokens()}
            return self.options.limits.changed(own.get(owner, ""))
        return self.options.limits

    def _warm_up(self) -> None:
        while len(self._warm) < self.options.warm and not (self._closing or self.draining):
            self._warm.append((self._owner, asyncio.create_task(self._start_worker(self._owner))))

    # --- admitting

    def _tokens(self) -> tuple[Token, ...]:
        """All that are admitted now. Raises TokensError."""
        return self._own if self._file is None else (*self._own, *self._file.tokens())

    def _admit(self, connection: Visitor, request: Request) -> Awaitable[Response] | Response | None:
        """Before the websocket opens: None, a page, or the refusal, whose line the client shows after our address."""
        if request.path.partition("?")[0] in PAGES and "Upgrade" not in request.headers:
            return self._show(connection, request)
        refusal = self._refusal(connection, request)
        if refusal is None:
            return None  # and `_connected` follows at once, so a place that was found is not taken by another
        status, text = refusal
        self.looking.refused[status.value] += 1
        response = connection.respond(status, text + "\n")
        if status is http.HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def _show(self, connection: Visitor, request: Request) -> Response:
        if not self.looking.prepared:
            await asyncio.to_thread(self.looking.prepare)
        page = self.looking.page(request, self._on_loopback)
        response = connection.respond(page.status, page.text)
        del response.headers["Content-Type"]
        for name, value in (("Content-Type", page.kind), *PAGE_HEADERS.items(), *page.headers):
            response.headers[name] = value
        return response

    def _refusal(self, connection: Visitor, request: Request) -> tuple[http.HTTPStatus, str] | None:
        if request.path.partition("?")[0] != PATH:
            return http.HTTPStatus.NOT_FOUND, f"this is a glremote host, and serves nothing but {PATH}"
        origins = request.headers.get_all("Origin")
        if origins and not (len(origins) == 1 and origins[0] in self.options.origins):
            how = "`serve --allow-origin` names those that are"
            return http.HTTPStatus.FORBIDDEN, f"requests with this Origin, a web browser's, are not served; {how}"
        given = " ".join(request.headers.get_all("Authorization"))
        scheme, _, text = given.partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            how = "name the file that holds it with --token-file, or set GLREMOTE_TOKEN"
            return http.HTTPStatus.UNAUTHORIZED, f"a token is needed, and none was given; {how}"
        return self._judge(connection, text.strip()) or self._no_place(connection.token, request)

    def _judge(self, connection: Visitor, text: str) -> tuple[http.HTTPStatus, str] | None:
        """Whether the token is one of ours: then it is the connection's."""
        if wait := self._guesses.wait(connection.address):
            many = f"too many wrong tokens came from this address; try again in {wait:.0f} s"
            return http.HTTPStatus.TOO_MANY_REQUESTS, many
        try:
            token = find(text, self._tokens())
        except TokensError as error:
            log.error("nobody is admitted: %s", error)
            return http.HTTPStatus.SERVICE_UNAVAILABLE, NO_TOKENS
        if token is None:
            self._guesses.wrong(connection.address)
            log.warning("a wrong token came from %s", connection.address)
            how = "take the one that `glremote serve` shows or was given, or one of `glremote token create`"
            return http.HTTPStatus.UNAUTHORIZED, f"the token is not this host's; {how}"
        if token.has_expired():
            how = "ask the host's user for another, which `glremote token create` makes"
            return http.HTTPStatus.UNAUTHORIZED, f"the token {token.name} has expired; {how}"
        connection.token = token
        return None

    def _no_place(self, token: Token | None, request: Request) -> tuple[http.HTTPStatus, str] | None:
        assert token is not None
        if names := request.headers.get_all(SESSION_HEADER):
            return self._cannot_resume(names[0], token)
        if self.draining:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, "the host is going down, and takes no new sessions"
        if (short := no_descriptors()) is not None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE, f"no room for another session: {short}"
        return None if (full := self._full(token)) is None else (
            http.HTTPStatus.SERVICE_UNAVAILABLE, f"no room for another session: {full}"
        )  # fmt: skip

    def _cannot_resume(self, name: str, token: Token) -> tuple[http.HTTPStatus, str] | None:
        """Of a session that is another token's it is said what is said of one that never was."""
        session = self._sessions.get(name)
        if session is not None and session.token.digest == token.digest:
            return None
        whose, why = self._ended.get(name, ("", ""))
        return http.HTTPStatus.GONE, "the session has ended" + (f": {why}" if why and whose == token.digest else "")

    def _full(self, token: Token) -> str | None:
        """Why no other session may begin. Of this token's without a connection the one that lacks it longest gives its
        place away."""
        theirs = [session for session in self._sessions.values() if session.token.digest == token.digest]
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
        if self._owner not in known:
            self._owner = next(iter(known), "")
        kept = {*known, self._owner}
        if gone := [warm for warm in self._warm if warm[0] not in kept]:
            for warm in gone:
                self._warm.remove(warm)
                self._keep(asyncio.create_task(_end_when_started(warm[1])))
            self._warm_up()
        caches = self._place.caches
        return caches is None or await asyncio.to_thread(caches.clear, kept)

    async def _connected(self, connection: Visitor) -> None:
        """A websocket is open: its whole life."""
        assert connection.request is not None and connection.token is not None
        if name := connection.request.headers.get(SESSION_HEADER):
            session = self._sessions.get(name)
            if session is None:  # it ended in this moment; coming again, the client is told why
                return
            await session.resume(connection)
            return
        if self._closing:
            return
        session = Session(self, next(self._numbers), connection.token)
        self._sessions[session.name] = session
        self._keep(session.task)
        self.looking.sessions += 1
        peer = str((connection.remote_address or ("",))[0])
        log.info("%s began", session.label, extra={"session": session.label, "fields": {"from": peer}})
        await session.carry_up(connection)

    def forget(self, session: Session, reason: str) -> None:
        """A session is ending: nobody can come back to it."""
        if self._sessions.pop(session.name, None) is not None:
            self.looking.forget(session, reason)
            if not self._sessions:
                self._empty.set()
            self._warm_up()
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


def _is_ready(starting: asyncio.Task[Worker]) -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None


async def _end_when_started(starting: asyncio.Task[Worker]) -> None:
    with contextlib.suppress(WorkerFailed):
        await (await starting).end()


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Be a host until SIGINT, or until SIGTERM and the sessions' time is over, or a second one comes.

    `ready` gets its address. Raises OSError (the port), TokensError and WorkerFailed.
    """
    loop = asyncio.get_running_loop()
    stop, drain = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, lambda: stop.set() if drain.is_set() else drain.set())
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
