"""Values of ``score_mod`` and ``mask_mod``, which record what is done to them.

A :class:`Scalar` stands for the score, a coordinate, or what was computed of
them. Python's operators, the functions of :mod:`flashcore.functions`, and those
of PyTorch and NumPy of the same names record ops of arith and math in a
:class:`Tracer`, whose ops are a region of ``flashcore.attention`` (docs/Op.md
lists what regions have).
"""

from __future__ import annotations

import copy
import math
import numbers
import struct
import sys
from typing import (
    Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Set, Tuple, TypeVar,
)  # fmt: skip

from flashcore import _core
from flashcore.operands import SEED
from flashcore.problem import shortest_float32

__all__ = [
    "Capture", "Captured", "Captures", "Op", "Scalar", "Tracer", "apply", "call_torch", "capture",
    "fail", "is_number", "is_recorded", "named", "number", "signature_of",
]  # fmt: skip

#: In the order of promotion: what meets a later one becomes it.
_TYPES = ("i1", "i32", "index", "f32")
#: What tensors are read as: their element in the kernel, by their own.
_ELEMENTS = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f32", "int32": "i32",
    "int64": "i32", "int16": "i32", "int8": "i8", "uint8": "i8", "bool": "i8",
}  # fmt: skip
_MAX_RANK = 4


class Op(NamedTuple):
    """A value of a region: an op of MLIR, "constant" or "load"."""

    name: str
    type: str
    operands: Tuple[int, ...] = ()
    #: The predicate of a comparison, the text of a constant, the number of the
    #: tensor that is read, or the type that a cast is from.
    detail: Any = None


class Capture:
    """A tensor that a region reads, as the kernel takes it."""

    def __init__(self, array: Any) -> None:
        view = _view(array)
        if view.dtype not in _ELEMENTS:
            fail(f"expects captured tensors of {', '.join(_ELEMENTS)}, but got {view.dtype}")
        if view.rank > _MAX_RANK:
            fail(f"expects captured tensors of at most {_MAX_RANK} axes, but got {view.rank}")
        self.array = array
        self.rank = view.rank
        #: Its own type, where that says how a byte is read.
        self.dtype = view.dtype
        self.element = _ELEMENTS[view.dtype]
        wide = {"f32": "float32", "i32": "int32"}.get(self.element, view.dtype)
        #: What its elements are converted to at each call; None for none.
        self.converted = wide if wide != view.dtype else None
        self.is_backwards = min(view.strides, default=0) < 0
        is_dense = self.converted or self.is_backwards or view.strides[-1:] == (1,)
        inner = "1" if is_dense else "?"
        axes = "".join("?x" for _ in range(self.rank))
        strides = ", ".join(["?"] * (self.rank - 1) + [inner])
        layout = f", strided<[{strides}]>" if self.rank else ""
        self.type = f"memref<{axes}{self.element}{layout}>"

    def without_array(self) -> Capture:
        """The same, which keeps no memory."""
        other = copy.copy(self)
        other.array = None
        return other


def signature_of(array: Any) -> Tuple[Any, ...]:
    """All that a :class:`Capture` knows of an array but its memory."""
    view = _view(array)
    strides = view.strides
    return view.dtype, view.rank, strides[-1:] == (1,), min(strides, default=0) < 0


class Captures:
    """The tensors of both regions, each once."""

    def __init__(self) -> None:
        self.list: List[Capture] = []
        #: Whether what is traced depends on their sizes.
        self.has_read_sizes = False
        self._numbers: Dict[int, int] = {}

    def number(self, array: Any) -> int:
        # The list keeps the arrays, so that no other has the same id().
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.list)
            self.list.append(Capture(array))
        return self._numbers[id(array)]


class Tracer:
    """The ops of one region, each once. Values are numbered from its arguments on."""

    arguments = ("f32", "index", "index", "index", "index")

    def __init__(self, captures: Captures) -> None:
        self.captures = captures
        self.ops: List[Op] = [Op("argument", kind, (), i) for i, kind in enumerate(self.arguments)]
        self._numbers: Dict[Op, int] = {op: i for i, op in enumerate(self.ops)}
        #: Whole numbers that are never negative, as coordinates are.
        self.naturals: Set[int] = {1, 2, 3, 4}

    def emit(self, name: str, kind: str, *operands: Scalar, detail: Any = None) -> Scalar:
        op = Op(name, kind, tuple(operand.value for operand in operands), detail)
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(op)
        return Scalar(self, self._numbers[op], kind)

    def constant(self, number: Any, kind: str) -> Scalar:
        if kind == "i1":
            return self.emit("constant", kind, detail="true" if number else "false")
        if kind == "f32":
            return self.emit("constant", kind, detail=_float_text(float(number)))
        bits = {"i8": 7, "i32": 31}.get(kind, 63)
        if not -(1 << bits) <= int(number) < 1 << bits:
            fail(f"expects whole numbers of {bits + 1} bits, but got {number}")
        result = self.emit("constant", kind, detail=str(int(number)))
        if number >= 0:
            self.naturals.add(result.value)
        return result

    def load(self, array: Any, indices: Sequence[Any]) -> Scalar:
        number = self.captures.number(array)
        capture = self.captures.list[number]
        at = [self._index(index) for index in indices]
        if capture.element in ("f16", "bf16"):
            half = self.emit("load", capture.element, *at, detail=number)
            return self.emit("arith.extf", "f32", half, detail=capture.element)
        result = self.emit("load", capture.element, *at, detail=number)
        if capture.element != "i8":
            return result
        if capture.dtype == "bool":
            return self.emit("arith.cmpi", "i1", result, self.constant(0, "i8"), detail="ne")
        if capture.dtype == "int8":
            return self.emit("arith.extsi", "i32", result, detail="i8")
        natural = self.emit("arith.extui", "i32", result, detail="i8")
        self.naturals.add(natural.value)
        return natural

    def _index(self, index: Any) -> Scalar:
        if isinstance(index, Scalar) and index.kind == "f32":
            fail("expects whole numbers as indices of a captured tensor, but got a float32")
        if isinstance(index, numbers.Integral) and index < 0:
            fail(f"expects indices of a captured tensor of at least 0, but got {index}")
        if not isinstance(index, Scalar) and not isinstance(index, numbers.Integral):
            fail(f"expects whole numbers as indices of a captured tensor, but got {index!r}")
        return self.cast(self.scalar(index, "index"), "index")

    def scalar(self, operand: Any, kind: str) -> Scalar:
        """An operand as a value; ``kind`` is what a number becomes."""
        if isinstance(operand, Scalar):
            if operand.tracer is not self:
                fail("expects values of this call of the function, but got one of another")
            return operand
        if is_number(operand):
            return self.constant(operand, kind)
        if isinstance(operand, Captured):
            return operand.read(self)
        if _is_torch_tensor(operand):
            return Captured(operand).read(self)
        fail(f"expects values of the function or numbers as operands, but got {operand!r}")

    def promote(self, *operands: Any, least: str = "i1") -> List[Scalar]:
        """Operands, made of one type."""
        values = [x if is_number(x) else self.scalar(x, "") for x in operands]
        ranks = [_TYPES.index(least)]
        for value in values:
            if isinstance(value, Scalar):
                ranks.append(_TYPES.index(value.kind))
            elif _is_bool(value):
                ranks.append(0)
            else:  # a whole number takes the type of what it meets
                ranks.append(1 if isinstance(value, numbers.Integral) else 3)
        kind = _TYPES[max(ranks)]
        return [self.cast(self.scalar(value, kind), kind) for value in values]

    def cast(self, value: Scalar, kind: str) -> Scalar:
        source = value.kind
        if source == kind:
            return value
        if source == "i1":
            return self.emit(
                "arith.select", kind, value, self.constant(1, kind), self.constant(0, kind)
            )
        if kind == "i1":
            return self.compare("ne", "une", value, 0)
        if source == "f32":
            whole = self.emit("arith.fptosi", "i32", value, detail="f32")
            return self.cast(whole, kind)
        if kind == "f32":  # numbers of 64 bits have no conversion in a region
            return self.emit("arith.sitofp", kind, self.cast(value, "i32"), detail="i32")
        result = self.emit("arith.index_cast", kind, value, detail=source)
        if value.value in self.naturals:
            self.naturals.add(result.value)
        return result

    def compare(self, whole: str, real: str, lhs: Any, rhs: Any) -> Scalar:
        """By a predicate of arith.cmpi, or of arith.cmpf."""
        least = "i1" if whole in ("eq", "ne") else "i32"
        a, b = self.promote(lhs, rhs, least=least)
        if a.kind == "f32":
            return self.emit("arith.cmpf", "i1", a, b, detail=real)
        return self.emit("arith.cmpi", "i1", a, b, detail=whole)

    def arithmetic(self, real: str, whole: str, lhs: Any, rhs: Any) -> Scalar:
        a, b = self.promote(lhs, rhs, least="i32")
        if a.kind == "f32":
            return self.emit(real, "f32", a, b)
        result = self.emit(whole, a.kind, a, b)
        natural = [value.value in self.naturals for value in (a, b)]
        if all(natural) and whole != "arith.subi" or any(natural) and whole == "arith.maxsi":
            self.naturals.add(result.value)
        return result


class Captured:
    """A tensor with the first of its indices: ``table[head]``."""

    def __init__(self, array: Any, indices: Tuple[Any, ...] = ()) -> None:
        self._array = array
        self._indices = indices

    def __getitem__(self, index: Any) -> Any:
        more = index if isinstance(index, tuple) else (index,)
        indices = self._indices + more
        rank = _view(self._array).rank
        if len(indices) > rank:
            fail(f"expects at most {rank} indices of a captured tensor, but got {len(indices)}")
        tracer = _tracer_of(indices)
        tensor = _tensor_of(indices)
        if len(indices) == rank and tensor is not None:
            torch = sys.modules["torch"]
            return torch.as_tensor(self._array).to(tensor.device)[indices]
        if len(indices) < rank or tracer is None:
            return Captured(self._array, indices)
        return tracer.load(self._array, indices)

    def sizes(self) -> Tuple[int, ...]:
        """Of the axes that have no index yet."""
        return tuple(_view(self._array).shape)[len(self._indices) :]

    def read(self, tracer: Tracer) -> Scalar:
        """Its one element."""
        missing = _view(self._array).rank - len(self._indices)
        if missing:
            fail(
                f"expects an element of a captured tensor, but got one with {missing} axes left: "
                "index them"
            )
        return tracer.load(self._array, self._indices)


def _view(array: Any) -> "_core.View":
    return _core.view(array, None, "a captured tensor")


def capture(array: Any) -> Captured:
    """An array that score_mod or mask_mod reads: ``capture(table)[head, q_idx]``.

    array: NumPy or CuPy array of float16, bfloat16, float32, int32, int8, uint8 or
        bool with up to four axes, where q is; others are converted at each call. PyTorch's
        tensors need none of this: they are indexed as they are.

    Returns what takes indices, numbers or values of the function. An array of
    rank 0 is a value as it is.
    """
    return array if isinstance(array, Captured) else Captured(array)


def number(value: Any) -> Captured:
    """A number that a function reads as data, so that others of its type have the same kernel.

    value: a float, or a whole number of 32 bits; of Python or NumPy.

    Returns what stands for it in score_mod and mask_mod, for operators and functions: where a
    kernel for each number would be compiled, as of a window that grows, this is one for all.
    A new one is made for another number. Kernels read it from memory, which costs a tile no more
    than a tensor of rank 0 does.

    Raises TypeError for what is no number, and ValueError for one that does not fit.
    """
    import numpy

    if not isinstance(value, numbers.Real) or _is_bool(value):
        raise TypeError(f"expects value to be a number, but got {value!r}")
    if not isinstance(value, numbers.Integral):
        with numpy.errstate(over="ignore"):
            became = numpy.array(float(value), "float32")
        if math.isinf(became) and not math.isinf(value):
            raise ValueError(f"expects value to be a number of float32, but got {value!r}")
        return Captured(became)
    if not -(1 << 31) <= int(value) < 1 << 31:
        raise ValueError(f"expects value to be a whole number of 32 bits, but got {value!r}")
    return Captured(numpy.array(int(value), "int32"))


# Errors ---------------------------------------------------------------------


def place() -> str:
    """FILE:LINE of the caller's function."""
    frame = sys._getframe(1)
    while frame.f_back:
        root = frame.f_globals.get("__name__", "").partition(".")[0]
        if root not in ("flashcore", "torch", "numpy"):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def fail(text: str) -> NoReturn:
    raise TypeError(f"{place()}: {text}")


# Values ---------------------------------------------------------------------


def _is_bool(operand: object) -> bool:
    """Of Python, or NumPy's, which is no number of Python's."""
    kind = type(operand)
    return kind is bool or kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")


def is_number(operand: object) -> bool:
    return isinstance(operand, numbers.Real) or _is_bool(operand)


def _is_torch_tensor(operand: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(operand, torch.Tensor)


def _float_text(number: float) -> str:
    """A literal of MLIR for a float32."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", number))[0]
    except OverflowError:
        number = math.copysign(math.inf, number)
        bits = struct.unpack("<I", struct.pack("<f", number))[0]
    if not math.isfinite(number):
        return f"0x{bits:08X}"
    text = shortest_float32(number)
    return text if "." in text else text.replace("e", ".0e")


def _tracer_of(operands: Any) -> Optional[Tracer]:
    for operand in operands:
        if isinstance(operand, Scalar):
            return operand.tracer
        if isinstance(operand, Captured):
            found = _tracer_of(operand._indices)
            if found:
                return found
        if isinstance(operand, (tuple, list)):
            found = _tracer_of(operand)
            if found:
                return found
    return None


def _operator(name: str) -> Any:
    return lambda self, other: apply(name, (self, other))


def _reflected(name: str) -> Any:
    return lambda self, other: apply(name, (other, self))


def _no_branch(self: Any) -> NoReturn:
    fail(
        "expects no branch on values of the function (if, and, or, not, a < b < c, min, max): "
        "flashcore.where or torch.where chooses, and &, | and ~ join conditions"
    )


def _no_number(name: str) -> Any:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        fail(
            f"expects no {name} of values of the function, which are known in the kernel alone: "
            "flashcore and torch have exp, floor and others, and arrays of NumPy are read by "
            "flashcore.capture(array)[...]"
        )

    return refuse


class Scalar:
    """The score, a coordinate, or a value computed of them."""

    def __init__(self, tracer: Tracer, value: int, kind: str) -> None:
        self.tracer = tracer
        self.value = value
        self.kind = kind

    __hash__ = None  # type: ignore[assignment]
    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reflected("mod")
    __pow__, __rpow__ = _operator("pow"), _reflected("pow")
    __and__, __rand__ = _operator("and"), _reflected("and")
    __or__, __ror__ = _operator("or"), _reflected("or")
    __xor__, __rxor__ = _operator("xor"), _reflected("xor")
    __rshift__, __rrshift__ = _operator("rshift"), _reflected("rshift")
    __lshift__, __rlshift__ = _operator("lshift"), _reflected("lshift")
    __matmul__, __rmatmul__ = _operator("matmul"), _reflected("matmul")
    __divmod__, __rdivmod__ = _operator("divmod"), _reflected("divmod")
    __getitem__, __len__, __iter__ = (_no_number(name) for name in ("index", "length", "items"))
    __round__, __trunc__ = (_no_number(name) for name in ("round", "trunc"))
    __floor__, __ceil__ = (_no_number(f"math.{name}") for name in ("floor", "ceil"))
    __lt__, __le__, __gt__, __ge__ = (_operator(name) for name in ("lt", "le", "gt", "ge"))
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __bool__ = _no_branch
    __int__, __float__, __index__ = (_no_number(name) for name in ("int", "float", "index"))
    __complex__, __array__ = _no_number("complex"), _no_number("NumPy array")

    def __neg__(self) -> Any:
        return apply("neg", (self,))

    def __pos__(self) -> Scalar:
        return self

    def __invert__(self) -> Any:
        return apply("not", (self,))

    def __abs__(self) -> Any:
        return apply("abs", (self,))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in functions:
            fail(f"expects an op that score_mod and mask_mod have, but got {name!r}{hint(name)}")
        return lambda *args, **options: apply(name, (self, *args), options)

    def __repr__(self) -> str:
        return f"<{self.kind} of score_mod or mask_mod>"

    @property
    def dtype(self) -> Any:
        name = {"f32": "float32", "i1": "bool"}.get(self.kind, "int32")
        torch = sys.modules.get("torch")
        return getattr(torch, name) if torch else name

    @property
    def device(self) -> None:
        """For new_ones(..., device=score.device), whose values have no place."""
        return None

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), options: Any = None
    ) -> Any:
        return call_torch(function, args, options or {})

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **options: Any) -> Any:
        if method != "__call__":
            fail(f"expects functions of single values, but got numpy.{ufunc.__name__}.{method}")
        return apply(ufunc.__name__, args, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return apply(function.__name__, args, options)


def is_recorded(args: Tuple[Any, ...], options: Dict[str, Any]) -> bool:
    """Whether a function on these is an op of a region: there is a value of ours among them."""
    return _tracer_of((*args, *options.values())) is not None


def call_torch(function: Any, args: Tuple[Any, ...], options: Dict[str, Any]) -> Any:
    """A function of PyTorch on values of ours, or on its own alone."""
    if not is_recorded(args, options):
        return function(*args, **options)
    name = function.__name__.strip("_")
    name = name[len("special_") :] if name.startswith("special_") else name
    if name == "getitem":
        tensor, index = args
        return Captured(tensor)[index]
    return apply(name, args, options)


# Functions ------------------------------------------------------------------


#: What to write in the place of what a function of one score cannot have.
_HINTS = {
    ("sum", "mean", "max", "min", "amax", "amin", "argmax", "softmax", "log_softmax", "cumsum",
     "any", "all", "prod", "norm", "logsumexp", "var", "std", "sort", "topk"):
        "a function sees one score of one query and one key; maximum, minimum, | and & join two "
        "values, and what is known before the call may be a tensor that it reads",
    ("item", "tolist", "numpy", "cpu", "detach", "clone", "contiguous", "view", "reshape",
     "unsqueeze", "squeeze", "expand", "permute", "transpose"):
        "values are numbers of the kernel as they are",
    ("rand", "randn", "bernoulli", "dropout"):
        f"flashcore.attention has dropout_p and {SEED}",
    ("masked_fill", "masked_fill_"): "write where(condition, value, score)",
    ("einsum", "matmul", "mm", "bmm", "dot"): "write sums and products of elements",
    ("atan", "atan2", "asin", "acos", "sinh", "cosh", "lgamma", "digamma", "erfinv"):
        "read a table of it, or write it with exp, log, sin, cos and powers",
}  # fmt: skip


def hint(name: str) -> str:
    """What a message adds, with its colon; empty for nothing."""
    for names, text in _HINTS.items():
        if name in names:
            return f": {text}"
    return ": docs/Python.md lists them"


def apply(name: str, args: Tuple[Any, ...], options: Optional[Dict[str, Any]] = None) -> Any:
    """A function by any of its names."""
    function = functions.get(name)
    if function is None and name[:1] == "r" and name[1:] in functions:  # Tensor.__rsub__
        function, args = functions[name[1:]], args[::-1]
    if function is None:
        fail(f"expects an op that score_mod and mask_mod have, but got {name!r}{hint(name)}")
    tracer = _tracer_of((*args, *(options or {}).values()))
    if tracer is None:
        tensor = _tensor_of(args)
        if tensor is not None:
            return _apply_to_tensors(name, tensor, args)
        fail(f"expects a value of score_mod or mask_mod in {name}, but got {args!r}")
    try:
        return function(tracer, *args, **(options or {}))
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next:
            raise  # it ran, and says where it failed
        fail(f"expects other arguments of {name}: {error}")


def _tensor_of(args: Tuple[Any, ...]) -> Any:
    """One of PyTorch's, if there is one: where it computes a call, functions get tensors."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return next((x for x in args if isinstance(x, kind)), None) if kind else None


def _apply_to_tensors(name: str, tensor: Any, args: Tuple[Any, ...]) -> Any:
    torch = sys.modules["torch"]
    if name in ("minimum", "maximum"):  # which take no numbers
        args = tuple(torch.as_tensor(x, dtype=tensor.dtype, device=tensor.device) for x in args)
    return getattr(torch, name)(*args)


#: By all their names; flashcore.functions fills it.
functions: Dict[str, Callable[..., Any]] = {}


Function = TypeVar("Function", bound=Callable[..., Any])


def named(*names: str) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        functions.update(dict.fromkeys(names, function))
        return function

    return register
