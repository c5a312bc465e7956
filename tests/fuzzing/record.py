"""Makes the corpus: what clients and hosts said to each other while the samples ran. `python -m tests.fuzzing.record`

A file has the packets of one direction, each behind its length in 4 bytes; what patches carry is cut short.
"""

from __future__ import annotations

import importlib
import struct
from pathlib import Path
from typing import Any

import glremote
from glremote.host.inprocess import InProcessHost
from glremote.host.port import Is
from glremote.protocol.messages import Patch, decode, encode

CORPUS = Path(__file__).parent / "corpus"
LENGTH = struct.Struct(">I")
SAMPLES = (
    "compute_image", "cube_map", "geometry_shader", "indexed_mesh", "indirect", "multisample", "occlusion",
    "storage_buffers", "tessellation", "texture_array", "transform_feedback", "triangle", "uniform_blocks", "volume",
)  # fmt: skip
LONGEST_PATCH = 64
MOST_PACKETS = 12


def shortened(packet: bytes) -> bytes:
    """A packet whose patches carry little."""
    pieces = []
    for message, body in decode(packet):
        body = body[:LONGEST_PATCH] if isinstance(message, Patch) else body
        pieces += [encode(message, body), bytes(body)]
    return b"".join(pieces)


def written(packets: list[bytes]) -> bytes:
    """Packets as a file of the corpus."""
    return b"".join(LENGTH.pack(len(packet)) + packet for packet in packets)


def read(path: Path) -> list[bytes]:
    """The packets of a file of the corpus."""
    data, at, packets = path.read_bytes(), 0, []
    while at < len(data):
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size + size
        packets.append(data[at - size : at])
    return packets


def main() -> None:
    """Run the samples on a host in this process, and write down what passes."""
    up: list[bytes] = []
    down: list[bytes] = []

    def listen(worker: Any) -> None:
        receive, send = worker.port.receive, worker.port.send

        def received(timeout: float | None = None) -> Any:
            event = receive(timeout)
            if event is not None and event.what is Is.PACKET:
                up.append(bytes(event.data))
            return event

        def sent(what: Is, pieces: Any = ()) -> None:
            if what is Is.PACKET:
                down.append(b"".join(map(bytes, pieces)))
            send(what, pieces)

        worker.port.receive, worker.port.send = received, sent

    for name in SAMPLES:
        up.clear()
        down.clear()
        host = InProcessHost(wrap=listen)
        ctx = glremote.instance().connect(host.connect, "recorded", "the corpus", 430)
        importlib.import_module(f"glremote.samples.{name}").render(ctx)
        ctx.release()
        host.close()
        for suffix, packets in ("up", up), ("down", down):
            kept = [shortened(packet) for packet in packets[:MOST_PACKETS]]
            (CORPUS / f"{name}.{suffix}").write_bytes(written(kept))


if __name__ == "__main__":
    main()
