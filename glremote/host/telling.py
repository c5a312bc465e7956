"""`python -m glremote.host.telling`: this machine's devices as JSON, for a program on it that loads no driver itself.

Knows: which module finds them out. Does not know: what is done with them (device/listing.py).
"""

from __future__ import annotations

import sys

from glremote.protocol.devices import encode_devices

from .probing import Probe


def main() -> None:
    """Tell them on standard output; where they could not be tried, why on standard error, and exit with 1."""
    found = Probe().found()
    if not found.tried:
        sys.exit(found.why)
    sys.stdout.buffer.write(encode_devices(found.devices))


if __name__ == "__main__":
    main()
