"""Arguments as moderngl's C code takes them: the same conversions, the same exceptions with the same text.

Knows: what the format letters of PyArg_ParseTuple accept (https://docs.python.org/3/c-api/arg.html), and moderngl's own
parsers of rectangles and the like. Does not know: what the arguments are for. Every function returns exactly the type
that a command's field has, so that no command buffer fails to encode.
"""

from __future__ import annotations

import ctypes
import math
import operator
from typing import Any

import moderngl

Data = bytes | memoryview
"""Contiguous bytes: `len` is their number."""
PyBUF_SIMPLE, PyBUF_WRITABLE = 0, 1


def uint32(value: Any) -> int:
    """`I`: an unsigned int, taken modulo 2**32 without a check."""
    number: int = operator.index(value)
    return number & 0xFFFFFFFF


def int32(value: Any) -> int:
    """`I` into a C int, as moderngl mostly does: taken modulo 2**32, negative from 2**31 on."""
    number = operator.index(value) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def checked_int32(value: Any) -> int:
    """`i`: an int, OverflowError outside of it."""
    number: int = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("Python int too large to convert to C long")
    if not -(1 << 31) <= number < 1 << 31:
        side = "greater than maximum" if number > 0 else "less than minimum"
        raise OverflowError(f"signed integer is {side}")
    return number


def uint64(value: Any, position: int) -> int:
    """`K`: an int, taken modulo 2**64; nothing else will do. `position` counts the arguments from 1."""
    if not isinstance(value, int):
        raise TypeError(f"argument {position} must be int, not {_name(value)}")
    return int(value) & 0xFFFFFFFFFFFFFFFF


def ssize(value: Any) -> int:
    """`n`: a Py_ssize_t."""
    number: int = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return number


def real(value: Any) -> float:
    """`d`: a float, from anything with __float__ or __index__, but not from text."""
    return value if type(value) is float else math.ldexp(value, 0)


def float32(value: Any) -> float:
    """`f`: a float rounded to single precision; what is too large becomes infinite."""
    return ctypes.c_float(real(value)).value


def text(value: Any, position: int) -> str:
    """`s`: a str without null characters; `position` counts the arguments of the seam's call from 1."""
    if not isinstance(value, str):
        raise TypeError(f"argument {position} must be str, not {_name(value)}")
    if "\0" in value:
        raise ValueError("embedded null character")
    value.encode()  # what is no UTF-8 raises here, as in C
    return str(value)


def extent(value: Any, count: int, position: int = 1) -> tuple[int, ...]:
    """`(II)` or `(III)`: a sequence of that many unsigned ints; `position` counts the arguments from 1."""
    is_sequence = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if not is_sequence or isinstance(value, bytes | dict):
        raise TypeError(f"argument {position} must be {count}-item sequence, not {_name(value)}")
    if len(value) != count:
        raise TypeError(f"argument {position} must be sequence of length {count}, not {len(value)}")
    return tuple(uint32(value[i]) for i in range(count))


def data(value: Any) -> Data:
    """The bytes of any contiguous object with a buffer; the buffer's own exception where it has none.

    They are as they lie in memory, as for moderngl (PyBUF_SIMPLE): in a matrix of PyGLM column by column.
    """
    if type(value) is bytes:
        return value
    try:
        view = memoryview(value)
        return view.cast("B") if view.c_contiguous else b"".join((value,))
    except (TypeError, ValueError, BufferError):
        _get_buffer(value, PyBUF_SIMPLE)
    import numpy  # for what memoryview cannot cast: a structure of numpy's, its dates, or nothing at all

    found = memoryview(numpy.frombuffer(value, numpy.uint8))  # type: ignore[arg-type]
    return found if found.nbytes else b""


def writable(value: Any) -> memoryview:
    """The bytes of a writable, contiguous object, to be filled; otherwise what its buffer raises."""
    try:
        found = data(value)
    except (TypeError, ValueError, BufferError):
        _get_buffer(value, PyBUF_WRITABLE)  # what is not writable either may say that first
        raise
    if isinstance(found, memoryview) and not found.readonly:
        return found
    _get_buffer(value, PyBUF_WRITABLE)
    if not found:
        return memoryview(bytearray())
    import numpy  # for what lies in memory in another order than its items have: a matrix of PyGLM

    items: Any = numpy.asarray(value)
    return memoryview(items.transpose(numpy.argsort(items.strides)[::-1])).cast("B")


def _get_buffer(value: Any, flags: int) -> None:
    """PyObject_GetBuffer, as moderngl calls it: for the exception that it raises."""
    view = ctypes.create_string_buffer(256)  # a Py_buffer, which has 80 bytes
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(value), view, flags)
    ctypes.pythonapi.PyBuffer_Release(view)


def numbers(value: Any, counts: tuple[int, ...]) -> tuple[int, ...] | None:
    """As many ints as one of `counts`, from any sequence; None where moderngl's own parsers give up."""
    try:
        items = tuple(value)
        return tuple(long(item) for item in items) if len(items) in counts else None
    except Exception:
        return None


def long(value: Any) -> int:
    """PyLong_AsLong into a C int."""
    number: int = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("Python int too large to convert to C long")
    return int32(number)


def rect(value: Any, origin: tuple[int, int] = (0, 0)) -> tuple[int, int, int, int] | None:
    """(x, y, width, height), or (width, height) at the origin; None where it is neither."""
    found = numbers(value, (2, 4))
    if found is None:
        return None
    return (*origin, *found) if len(found) == 2 else found  # type: ignore[return-value]


def box(value: Any) -> tuple[int, int, int, int, int, int] | None:
    """(x, y, z, width, height, depth), or (width, height, depth) at the origin; None where it is neither."""
    found = numbers(value, (3, 6))
    if found is None:
        return None
    return (0, 0, 0, *found) if len(found) == 3 else found  # type: ignore[return-value]


def alignment(value: Any) -> int:
    """1, 2, 4 or 8."""
    number = int32(value)
    if number not in (1, 2, 4, 8):
        raise moderngl.Error("the alignment must be 1, 2, 4 or 8")
    return number


SIZES = {
    "f1": 1, "f2": 2, "f4": 4, "u1": 1, "u2": 2, "u4": 4, "i1": 1, "i2": 2, "i4": 4,
    "ni1": 1, "ni2": 2, "nu1": 1, "nu2": 2,
}  # fmt: skip
"""Bytes of one component of each dtype."""


def dtype(value: Any, position: int) -> str:
    """One of moderngl's 13 dtypes."""
    name = text(value, position)
    if name not in SIZES:
        raise moderngl.Error("invalid dtype")
    return name


def image_size(width: int, height: int, depth: int, pixel: int, alignment: int) -> int:
    """Bytes of an image whose rows, of `width` pixels of `pixel` bytes, begin at multiples of `alignment`."""
    row = (width * pixel + alignment - 1) // alignment * alignment
    return (row & 0xFFFFFFFFFFFFFFFF) * height * depth & 0xFFFFFFFFFFFFFFFF


def sized(value: Any, size: int) -> Data:
    """The bytes of `value`, which must be `size`."""
    found = data(value)
    if len(found) != size:
        raise moderngl.Error(f"data size mismatch {printf(len(found))} != {printf(size)}")
    return found


def out_of_range(offset: int, size: int) -> moderngl.Error:
    """A range that is not within a buffer."""
    return moderngl.Error(f"out of range offset = {printf(offset)} or size = {printf(size)}")


def printf(value: int) -> int:
    """A 64-bit number as moderngl prints it through %d: its lower half."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _name(value: Any) -> str:
    return "None" if value is None else c_name(type(value))


def c_name(kind: type) -> str:
    """A type's `tp_name`: of types that are written in C, with their module."""
    written_in_c = not kind.__flags__ & (1 << 9)  # Py_TPFLAGS_HEAPTYPE
    return f"{kind.__module__}.{kind.__name__}" if written_in_c and kind.__module__ != "builtins" else kind.__name__


def c_string(value: Any) -> str:
    """A str as C code sees it: up to its first null character."""
    if not isinstance(value, str):
        raise TypeError("bad argument type for built-in operation")
    value.encode()
    return value.partition("\0")[0]
