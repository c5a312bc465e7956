"""What a call raises, as a pair that tables of wrong calls are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def raised(call: Callable[..., Any], *arguments: Any, **more: Any) -> tuple[type[BaseException], str]:
    """The type and the text of the exception that a call ends with."""
    with pytest.raises(Exception) as caught:
        call(*arguments, **more)
    return caught.type, str(caught.value)
