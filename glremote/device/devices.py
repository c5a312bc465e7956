"""What a logical device is to the rest: where it is, why there, and what went to it and came back."""

from __future__ import annotations

from dataclasses import dataclass, field

from .choosing import DeviceRecord


@dataclass
class Traffic:
    """What a context has cost so far. `waits`: how often a call waited for the host, making the context apart."""

    bytes_up: int = 0
    bytes_down: int = 0
    waits: int = 0
    buffers: int = 0
    commands: int = 0


@dataclass(repr=False)
class LocalDevice:
    """This process: moderngl's own C objects on this machine's driver. Nothing is recorded."""

    renderer: str
    reason: str
    host: str = "local"
    remote: bool = False
    listed: DeviceRecord | None = None
    """The device as it was listed, where one was named or chosen."""
    traffic: Traffic = field(default_factory=Traffic)

    def __repr__(self) -> str:
        return f"<LocalDevice {self.renderer}: {self.reason}>"

    def measure(self) -> Traffic:
        """The traffic so far: none."""
        return self.traffic
