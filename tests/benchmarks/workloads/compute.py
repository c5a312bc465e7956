"""Thousands of small round trips: a step of a compute shader, a few bytes are read, and they decide the next step."""

import struct
from typing import Any

import moderngl
import numpy as np
from clock import Clock, sized

STEPS, CELLS = sized(3000, 30), 4096

clock = Clock("compute")
ctx: Any = moderngl.create_context(430, standalone=True, backend="egl")  # type: ignore[arg-type]
step = ctx.compute_shader("""
    #version 430
    layout(local_size_x = 256) in;
    layout(std430, binding = 0) buffer Cells { uint cells[]; };
    layout(std430, binding = 1) buffer Verdict { uint most; uint odd; };
    uniform uint factor;
    void main() {
        uint cell = gl_GlobalInvocationID.x;
        uint next = cells[cell] * factor + cell;
        cells[cell] = next;
        atomicMax(most, next >> 8);
        atomicAdd(odd, next & 1u);
    }
""")
cells = ctx.buffer(np.arange(CELLS, dtype="u4"))
verdict = ctx.buffer(reserve=8)
cells.bind_to_storage_buffer(0)
verdict.bind_to_storage_buffer(1)
factor = 3
clock.lap("setup")
for _ in range(STEPS):
    verdict.write(bytes(8))
    step["factor"].value = factor
    step.run(CELLS // 256)
    ctx.memory_barrier()
    answer = verdict.read()
    most, odd = struct.unpack("2I", answer)
    factor = most % 1000 * 2 + (3 if odd > CELLS // 2 else 5)
    clock.saw(answer)
clock.saw(cells.read())
clock.lap("steps")
clock.report()
