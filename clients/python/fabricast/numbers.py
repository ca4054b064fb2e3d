"""Numbers and payloads of operations: types, reductions, and buffers."""

import ctypes
import enum
import sys
from array import array
from typing import Any, Iterable, Optional, Tuple, TypeVar, Union

from .errors import InvalidArgument

# Arguments and results of operations: a list, tuple, array.array, memoryview or array of numpy.
Numbers = TypeVar("Numbers")
# A payload: bytes, or anything else with the buffer protocol that is contiguous.
Payload = Union[bytes, bytearray, memoryview, "array[Any]", Any]


class Reduction(enum.IntEnum):
    """Functions that combine numbers, element by element, under MPI's names.

    SUM and PROD of integers wrap around, those of floats are computed in the order of ranks. MIN and MAX
    ignore NaN. MINLOC and MAXLOC take pairs of a value and its place, as lists [value, place, ...] or arrays
    with two columns: the pair with the least or greatest value, of equal ones that with the lowest place. The
    others are for integers only.
    """

    SUM = 0
    MIN = 1
    MAX = 2
    BAND = 3
    BOR = 4
    BXOR = 5
    PROD = 6
    LAND = 7
    LOR = 8
    LXOR = 9
    MINLOC = 10
    MAXLOC = 11

    def __repr__(self) -> str:
        return f"fabricast.{self.name}"


# Other names of reductions.
_ALIASES = {"and": "BAND", "or": "BOR", "xor": "BXOR", "product": "PROD"}
# Number of each type in the library, its other name, and its letter in the module array.
_TYPES = {
    "i32": (0, "int32", "i"),
    "i64": (1, "int64", "q"),
    "u32": (2, "uint32", "I"),
    "u64": (3, "uint64", "Q"),
    "f32": (4, "float32", "f"),
    "f64": (5, "float64", "d"),
}
_ALLOWED = ", ".join(f"{name} ({other})" for name, (_, other, _) in _TYPES.items())


def reduction_number(reduction: Union[Reduction, str]) -> int:
    """Finds a reduction by its value or name, in any case."""
    if isinstance(reduction, Reduction):
        return int(reduction)
    name = _ALIASES.get(reduction.lower(), reduction.upper())
    if name not in Reduction.__members__:
        raise InvalidArgument(f"'{reduction}' is none of {', '.join(Reduction.__members__)}")
    return int(Reduction[name])


class Contribution:
    """Numbers to send, and the place for as many in return."""

    def __init__(self, numbers: Any, dtype: Optional[Any]) -> None:
        self._like = numbers
        buffer = _as_buffer(numbers, None if dtype is None else _type_name(dtype))
        view = memoryview(buffer)
        name = _type_of(view)
        if not view.c_contiguous:
            raise InvalidArgument("the numbers are not contiguous in memory")
        self.kind, _, self._letter = _TYPES[name]
        self.count = view.nbytes // view.itemsize
        self._sent = payload_of(view)
        self._found = self._place(view)
        self.place = (ctypes.c_char * max(view.nbytes, 1)).from_buffer(self._found) if self.count else None

    @property
    def sent(self) -> Any:
        return self._sent[0]

    def result(self) -> Any:
        """The numbers that came, in the type of those that were sent."""
        self.place = None
        if _is_numpy(self._like):
            return self._found
        if isinstance(self._like, array):
            return self._found
        if isinstance(self._like, memoryview):
            return memoryview(self._found)
        found = self._found.tolist()
        return tuple(found) if isinstance(self._like, tuple) else found

    def _place(self, view: memoryview) -> Any:
        if _is_numpy(self._like):
            numpy = sys.modules["numpy"]
            return numpy.empty(self._like.shape, dtype=numpy.dtype(view.format))
        return array(self._letter, bytes(view.nbytes))


def payload_of(payload: Payload) -> Tuple[Any, int]:
    """Returns a pointer to the bytes of a payload for the library, which keeps them alive, and their count."""
    if isinstance(payload, bytes):
        return payload, len(payload)
    view = memoryview(payload)
    if not view.c_contiguous:
        raise InvalidArgument("the payload is not contiguous in memory")
    if view.readonly or not view.nbytes:
        copied = view.tobytes()
        return copied, len(copied)
    return (ctypes.c_char * view.nbytes).from_buffer(view), view.nbytes


def _is_numpy(numbers: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(numbers, numpy.ndarray)


def _as_buffer(numbers: Any, name: Optional[str]) -> Any:
    if _is_numpy(numbers):
        numpy = sys.modules["numpy"]
        wanted = numbers.dtype if name is None else numpy.dtype(_TYPES[name][1])
        return numpy.ascontiguousarray(numbers, dtype=wanted)
    if isinstance(numbers, (array, memoryview)):
        if name is not None and name != _type_of(memoryview(numbers)):
            raise InvalidArgument(f"the numbers are {_type_of(memoryview(numbers))} and not {name}")
        return numbers
    if isinstance(numbers, (bytes, bytearray)):
        raise InvalidArgument(f"bytes are not numbers; memoryview(...).cast gives them a type")
    listed = list(numbers)
    if name is None:
        name = "f64" if any(isinstance(number, float) for number in listed) else "i64"
    return _array(name, listed)


def _array(name: str, listed: Iterable[Any]) -> Any:
    try:
        return array(_TYPES[name][2], listed)
    except (OverflowError, TypeError) as error:
        raise InvalidArgument(f"the numbers do not fit {name}: {error}") from None


def _type_name(dtype: Any) -> str:
    """Finds a type by its name, that of numpy, or a type of numpy."""
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    for name, (_, other, _) in _TYPES.items():
        if text in (name, other):
            return name
    raise InvalidArgument(f"'{text}' is none of {_ALLOWED}")


def _type_of(view: memoryview) -> str:
    letter = view.format.lstrip("@=" + ("<" if sys.byteorder == "little" else ">"))
    kinds = {"f": "f", "d": "f", **dict.fromkeys("ilqn", "i"), **dict.fromkeys("ILQN", "u")}
    name = f"{kinds.get(letter, '?')}{8 * view.itemsize}"
    if name not in _TYPES:
        raise InvalidArgument(f"numbers of format '{view.format}' are none of {_ALLOWED}")
    return name
