"""The links of one session: the one that carries it, the lifeline beside it, and how another is made.

Knows: a connector, and how many bytes went where. Does not know: what the links carry.
"""

from __future__ import annotations

from collections.abc import Callable

from glremote.link.links import Link

Connector = Callable[["str | None"], Link]
"""Makes a link to the host: for a new session (None), or for the session of that name. Raises LinkError."""


class Road:
    """Begins with a link for a new session. Raises what the connector raises."""

    def __init__(self, connector: Connector) -> None:
        self.link = connector(None)
        self.lifeline: Link | None = None
        """The websocket, while everything goes past it."""
        self.near = False
        """Whether it does."""
        self._connector = connector
        self._spare: Link | None = None
        self._sent = self._received = 0  # over links that were dropped

    def go_near(self, link: Link) -> None:
        """Go past the gateway from now on."""
        self.lifeline, self.link, self.near = self.link, link, True

    def fall_back(self) -> None:
        """The link broke. Where it was a near one, the lifeline is what `another` gives next."""
        self._drop(self.link)
        self._spare, self.lifeline, self.near = self.lifeline, None, False

    def lose_lifeline(self) -> None:
        """The lifeline broke."""
        if self.lifeline is not None:
            self._drop(self.lifeline)
            self.lifeline = None

    @property
    def lacks_lifeline(self) -> bool:
        """Whether a lifeline is to be made."""
        return self.near and self.lifeline is None

    def another(self, session: str, prove: Callable[[Link], None]) -> Link:
        """A link over which the session of that name can be resumed; a new one was proven. Raises LinkError."""
        spare, self._spare = self._spare, None
        if spare is not None:
            return spare
        link = self._connector(session)
        try:
            prove(link)
        except BaseException:
            self._drop(link)
            raise
        return link

    def measure(self) -> tuple[int, int]:
        """Bytes sent and received so far."""
        links = [self.link] if self.lifeline is None else [self.link, self.lifeline]
        sent, received = (sum(getattr(link, name) for link in links) for name in ("bytes_sent", "bytes_received"))
        return self._sent + sent, self._received + received

    def close(self) -> None:
        """Close every link."""
        self.lose_lifeline()
        self._drop(self.link)
        if self._spare is not None:
            self._drop(self._spare)

    def _drop(self, link: Link) -> None:
        self._sent, self._received = self._sent + link.bytes_sent, self._received + link.bytes_received
        link.bytes_sent = link.bytes_received = 0
        link.close()
