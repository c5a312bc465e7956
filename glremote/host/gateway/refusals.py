"""Refusals: why somebody did not get a websocket, as /metrics tells it.

Knows: every reason, and the HTTP status that it is answered with. Does not know: who was refused, or what was said.
"""

from __future__ import annotations

import enum
import http

_S = http.HTTPStatus


class Why(enum.Enum):
    """A reason: its name in /metrics, and its status; None where nothing is answered, or websockets chooses it."""

    # by the door, before anything is known of them
    CROWD = "crowd", None  # too many waited, and this one longest
    DEADLINE = "deadline", None
    SCHEME = "scheme", _S.FORBIDDEN  # TLS where it is not spoken, or the reverse
    TLS = "tls", None  # it was begun, and nothing came of it
    TOO_LARGE = "too_large", _S.REQUEST_HEADER_FIELDS_TOO_LARGE
    EARLY = "early", _S.BAD_REQUEST  # it went on before it was answered
    NO_REQUEST = "no_request", None  # what came was not HTTP
    NO_WEBSOCKET = "no_websocket", None  # it was, and no upgrade to a websocket as it must be
    # by what they ask for
    PATH = "path", _S.NOT_FOUND
    METHOD = "method", _S.METHOD_NOT_ALLOWED
    ORIGIN = "origin", _S.FORBIDDEN
    NO_TOKEN = "no_token", _S.UNAUTHORIZED
    WRONG_TOKEN = "wrong_token", _S.UNAUTHORIZED
    EXPIRED = "expired", _S.UNAUTHORIZED
    GUESSES = "guesses", _S.TOO_MANY_REQUESTS
    NO_TOKENS = "no_tokens", _S.SERVICE_UNAVAILABLE  # their file cannot be read
    DEVICE = "device", _S.NOT_FOUND  # the one that a session was to be on
    ENDED = "ended", _S.GONE  # the session to be resumed
    # for want of room
    GOING_DOWN = "going_down", _S.SERVICE_UNAVAILABLE
    DESCRIPTORS = "descriptors", _S.SERVICE_UNAVAILABLE
    FULL = "full", _S.SERVICE_UNAVAILABLE

    def __init__(self, label: str, status: http.HTTPStatus | None) -> None:
        self.label = label
        self.status = status
