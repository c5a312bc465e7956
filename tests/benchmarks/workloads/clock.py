"""What the workloads share: the clock, the digest of all results, and their size."""

from __future__ import annotations

import json
import os
import time
import zlib

SMALL = os.environ.get("GLREMOTE_BENCH_SMALL") == "1"
"""Whether the workloads are to be tiny: for the tests, where no time is looked at."""


def sized(full: int, small: int) -> int:
    """A count of the workload, which is another in the tests."""
    return small if SMALL else full


class Clock:
    """Made just before the context; `report` prints one JSON line."""

    def __init__(self, workload: str) -> None:
        self._workload = workload
        self._phases: dict[str, float] = {}
        self._digest = 0
        self._reads = 0
        self._began = self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """The phase ends here."""
        now = time.perf_counter()
        self._phases[phase] = now - self._last
        self._last = now

    def saw(self, result: bytes | memoryview | int, waited: bool = True) -> None:
        """A result, for the digest; and whether the program must have stood still for it."""
        data = result.to_bytes(8, "little") if isinstance(result, int) else result
        self._digest = zlib.crc32(data, self._digest)  # much quicker than the reads that are measured
        self._reads += waited

    def report(self) -> None:
        """Print what was measured; `reads` is how many answers the program could not go on without."""
        total = time.perf_counter() - self._began
        said = {"workload": self._workload, "total_s": total, "phases": self._phases, "reads": self._reads}
        print(json.dumps({**said, "digest": f"{self._digest:08x}"}), flush=True)
