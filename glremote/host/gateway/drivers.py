"""Asking a driver how its GPUs are: in a thread of its own, for which nobody waits, since a driver may be stuck.

Knows: threads. Does not know: what is asked, or how long an answer is worth waiting for.

asyncio's own threads (`asyncio.to_thread`) are waited for when the loop, and the process, ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def begin(function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
    """Call it; the future has what it returns, or raises."""
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()
    answer.set_running_or_notify_cancel()  # whoever waits may go; the call does not

    def run() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="glremote driver", daemon=True).start()
    return asyncio.wrap_future(answer)
