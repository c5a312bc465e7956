"""What a host tells of its devices to whoever may begin a session there: before one begins, and without OpenGL.

Knows: the records, and where they are asked for. Does not know: how a host finds them out (host/probing.py), or how a
device is chosen from them (device/choosing.py).

They come as JSON, so that what a later version adds is passed over by an earlier one.
"""

from __future__ import annotations

import zlib

import msgspec

from .errors import ProtocolError

PATH = "/devices"
"""Where a GET with the token of a session (Authorization: Bearer) is answered with a `HostReport`."""
DEVICE_HEADER = "Glremote-Device"
"""In the request for a websocket: which device the new session is to be on, by a name that `Device.answers_to` takes.
Of several names, with commas between them, or without any, the host takes the one with the fewest sessions: it alone
knows of others who come at the same time. A device that there is not is refused with 404, in words. In the answer that
opens the websocket: the session's device, as its number, a space and its UUID, each "-" where there is none."""
SOFTWARE = "software"
"""How a software renderer is named."""
PACKING = "gzip"
"""How a report may be packed (Content-Encoding), for whoever takes that (Accept-Encoding): each device repeats the
extensions of the others."""
LARGEST = 1 << 23
"""Bytes of a report."""


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU, or a software renderer. What a driver does not tell is None."""

    name: str
    """Its maker's name of it, as in "NVIDIA H200"; else the renderer's."""
    renderer: str
    """OpenGL's GL_RENDERER."""
    version: int
    """The newest OpenGL that it gives, as 460."""
    extensions: tuple[str, ...] = ()
    """OpenGL's."""
    number: int | None = None
    """The number that people know it by: CUDA's index, as nvidia-smi shows it with CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    uuid: str | None = None
    """As nvidia-smi has it: "GPU-" and 32 hexadecimal digits with dashes."""
    pci: str | None = None
    """Its address, as "0000:3b:00.0"."""
    memory: int | None = None
    """Bytes, all of them."""
    memory_free: int | None = None
    """Bytes, now."""
    load: float | None = None
    """Of its time lately, from 0 to 1."""
    sessions: int = 0
    """This host's sessions that are on it now."""
    software: bool = False
    """It is no GPU."""
    index: int = 0
    """Its place in EGL's own order; that is nobody's number, and moderngl's `device_index` on the host."""
    trouble: str | None = None
    """Why no session can begin on it now: its workers fail."""

    @property
    def label(self) -> str:
        """The shortest of its names."""
        return SOFTWARE if self.software else "-" if self.number is None else str(self.number)

    @property
    def header(self) -> str:
        """What the answer to a request for a websocket says; see DEVICE_HEADER."""
        return f"{'-' if self.number is None else self.number} {self.uuid or '-'}"

    def described(self) -> str:
        """In a line: its names, and what it is."""
        return f"{', '.join(name for name in (self.label, self.uuid, self.pci) if name)} ({self.name})"

    def answers_to(self, name: str) -> bool:
        """Whether this is the device that is named: by its number, UUID (or the beginning of it) or PCI address.

        The address may have more zeros before it, as nvidia-smi shows it, or no domain at all ("3b:00.0"). A software
        renderer, which has none of these, is named SOFTWARE.
        """
        name = name.strip().lower()
        if name == SOFTWARE:
            return self.software
        if name.isascii() and name.isdecimal():
            return self.number is not None and name.lstrip("0") == str(self.number).lstrip("0")
        uuid, pci = (self.uuid or "").lower(), (self.pci or "").lower()
        is_pci = bool(pci) and (name.lstrip("0") == pci.lstrip("0") or name == pci.partition(":")[2])
        return is_pci or (len(name) > 7 and uuid.startswith(name))


class HostReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host's answer."""

    software: str
    """Version of glremote."""
    protocol: int
    """Version of the protocol (messages.VERSION)."""
    moderngl: str
    sessions: int
    """That are there now, on all devices."""
    max_sessions: int
    """That there may be: of the host; or, if that is less, with all those that the token that asks may still begin. One
    of its own that has lost its connection gives its place to a new one, and so counts as such a place."""
    draining: bool = False
    """It takes no new sessions."""
    devices: tuple[Device, ...] = ()
    trouble: str | None = None
    """Why no session can begin on any of them now, though there may be room."""


def encode(report: HostReport) -> bytes:
    """As JSON."""
    return msgspec.json.encode(report)


def pack(body: bytes) -> bytes:
    """As PACKING says."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    return packer.compress(body) + packer.flush()


def unpack(packed: bytes) -> bytes:
    """Raises ProtocolError for what is not packed so, and for more than LARGEST."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        body = unpacker.decompress(packed, LARGEST)
    except zlib.error as error:
        raise ProtocolError(f"what came is not packed with {PACKING}: {error}") from None
    if not unpacker.eof:
        raise ProtocolError(f"what came is not whole, or longer than {LARGEST} bytes")
    return body


def decode(body: bytes) -> HostReport:
    """Raises ProtocolError for what is no report."""
    try:
        return msgspec.json.decode(body, type=HostReport)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"what came is no report of a host's devices: {error}") from None


def encode_devices(devices: tuple[Device, ...]) -> bytes:
    """A machine's devices alone, where no host serves them (host/telling.py)."""
    return msgspec.json.encode(devices)


def decode_devices(body: bytes) -> tuple[Device, ...]:
    """Raises ProtocolError for what is none."""
    try:
        return msgspec.json.decode(body, type=tuple[Device, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"what came are no devices: {error}") from None
