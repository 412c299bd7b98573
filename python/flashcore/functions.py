"""Functions of values of ``score_mod`` and ``mask_mod``.

``flashcore.exp(score)`` is what ``torch.exp(score)`` and ``numpy.exp(score)`` are:
each is found by its name in a table of functions, which take the tracer and
their arguments, values or numbers.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Optional, Sequence

from flashcore.scalars import Scalar, Tracer, apply, fail, functions, is_number, named

__all__ = [
    "ceil", "clamp", "cos", "erf", "exp", "exp2", "floor", "isin", "log", "log2", "maximum", "minimum", "rsqrt",
    "sigmoid", "sin", "sqrt", "tanh", "where",
]  # fmt: skip


def _add_arithmetic(names: Sequence[str], real: str, whole: str) -> None:
    @named(*names)
    def function(t: Tracer, a: Any, b: Any) -> Scalar:
        return t.arithmetic(real, whole, a, b)


_add_arithmetic(("add",), "arith.addf", "arith.addi")
_add_arithmetic(("sub", "subtract"), "arith.subf", "arith.subi")
_add_arithmetic(("mul", "multiply"), "arith.mulf", "arith.muli")
_add_arithmetic(("maximum",), "arith.maximumf", "arith.maxsi")
_add_arithmetic(("minimum",), "arith.minimumf", "arith.minsi")


def _add_comparison(names: Sequence[str], whole: str, real: str) -> None:
    @named(*names)
    def function(t: Tracer, a: Any, b: Any) -> Scalar:
        return t.compare(whole, real, a, b)


_add_comparison(("lt", "less"), "slt", "olt")
_add_comparison(("le", "less_equal"), "sle", "ole")
_add_comparison(("gt", "greater"), "sgt", "ogt")
_add_comparison(("ge", "greater_equal"), "sge", "oge")
_add_comparison(("eq", "equal"), "eq", "oeq")
_add_comparison(("ne", "not_equal"), "ne", "une")


def _add_math(*names: str) -> None:
    @named(*names)
    def function(t: Tracer, x: Any) -> Scalar:
        return t.emit(f"math.{names[0]}", "f32", *t.promote(x, least="f32"))


for _name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos"):
    _add_math(_name)


def _add_bitwise(names: Sequence[str], op: str) -> None:
    @named(*names)
    def function(t: Tracer, a: Any, b: Any) -> Scalar:
        x, y = t.promote(a, b)
        if x.kind == "f32":
            fail(f"expects bools or whole numbers in {names[0]}, but got a float32")
        return t.emit(op, x.kind, x, y)


_add_bitwise(("and", "bitwise_and"), "arith.andi")
_add_bitwise(("or", "bitwise_or"), "arith.ori")
_add_bitwise(("xor", "bitwise_xor"), "arith.xori")


def _power_of_shift(name: str, by: Any) -> int:
    """2 to the power of a shift, whose product and quotient are what it is."""
    if not isinstance(by, numbers.Integral) or not 0 <= int(by) <= 30:
        fail(f"expects a shift by a value or by a number from 0 to 30 in {name}, but got {by!r}")
    return 1 << int(by)


def _shift_by_value(t: Tracer, name: str, op: str, x: Any, by: Scalar) -> Scalar:
    value, count = t.promote(_expect_whole(t, name, x), _expect_whole(t, name, by), least="i32")
    return t.emit(op, value.kind, value, count)


def _expect_whole(t: Tracer, name: str, x: Any) -> Scalar:
    (value,) = t.promote(x, least="i32")
    if value.kind == "f32":
        fail(f"expects a whole number in {name}, but got a float32")
    return value


@named("rshift", "bitwise_right_shift", "right_shift")
def _shift_right(t: Tracer, x: Any, by: Any) -> Scalar:
    if isinstance(by, Scalar):
        return _shift_by_value(t, ">>", "arith.shrsi", x, by)
    return _floordiv(t, _expect_whole(t, ">>", x), _power_of_shift(">>", by))


@named("lshift", "bitwise_left_shift", "left_shift")
def _shift_left(t: Tracer, x: Any, by: Any) -> Scalar:
    if isinstance(by, Scalar):
        return _shift_by_value(t, "<<", "arith.shli", x, by)
    power = _power_of_shift("<<", by)
    return t.arithmetic("", "arith.muli", _expect_whole(t, "<<", x), power)


def _add_logical(name: str, op: str) -> None:
    @named(name)
    def function(t: Tracer, a: Any, b: Any) -> Scalar:
        return t.emit(op, "i1", *(_as_bool(t, x) for x in (a, b)))


_add_logical("logical_and", "arith.andi")
_add_logical("logical_or", "arith.ori")
_add_logical("logical_xor", "arith.xori")


def _as_bool(t: Tracer, x: Any) -> Scalar:
    (value,) = t.promote(x)
    return t.cast(value, "i1")


@named("logical_not")
def _logical_not(t: Tracer, x: Any) -> Scalar:
    return _not(t, _as_bool(t, x))


@named("not", "invert", "bitwise_not")
def _not(t: Tracer, x: Any) -> Scalar:
    (value,) = t.promote(x)
    if value.kind == "f32":
        fail("expects a bool or a whole number in ~, but got a float32")
    ones = t.constant(True if value.kind == "i1" else -1, value.kind)
    return t.emit("arith.xori", value.kind, value, ones)


@named("neg", "negative")
def _neg(t: Tracer, x: Any) -> Scalar:
    (value,) = t.promote(x, least="i32")
    if value.kind == "f32":
        return t.emit("arith.negf", "f32", value)
    return t.emit("arith.subi", value.kind, t.constant(0, value.kind), value)


@named("abs", "absolute", "fabs")
def _abs(t: Tracer, x: Any) -> Scalar:
    (value,) = t.promote(x, least="i32")
    if value.kind == "f32":
        return t.emit("math.absf", "f32", value)
    result = t.emit("math.absi", value.kind, value)
    t.naturals.add(result.value)
    return result


@named("div", "truediv", "divide", "true_divide")
def _div(t: Tracer, a: Any, b: Any, *, rounding_mode: Optional[str] = None) -> Scalar:
    if rounding_mode == "floor":
        return _floordiv(t, a, b)
    if rounding_mode is not None:
        fail(f"expects rounding_mode to be None or 'floor', but got {rounding_mode!r}")
    return t.emit("arith.divf", "f32", *t.promote(a, b, least="f32"))


def _refuse_zero(divisor: Any) -> None:
    if is_number(divisor) and divisor == 0:
        fail("expects a divisor other than 0")


def _is_natural(t: Tracer, a: Scalar, divisor: Any) -> bool:
    """Whether rounding down and rounding to 0 are the same."""
    return a.value in t.naturals and is_number(divisor) and divisor > 0


@named("floordiv", "floor_divide")
def _floordiv(t: Tracer, a: Any, b: Any) -> Scalar:
    _refuse_zero(b)
    x, y = t.promote(a, b, least="i32")
    if x.kind == "f32":
        return _floor(t, t.emit("arith.divf", "f32", x, y))
    op = "arith.divui" if _is_natural(t, x, b) else "arith.floordivsi"
    return t.arithmetic("", op, x, y)


@named("mod", "remainder")
def _mod(t: Tracer, a: Any, b: Any) -> Scalar:
    _refuse_zero(b)
    x, y = t.promote(a, b, least="i32")
    if x.kind != "f32" and _is_natural(t, x, b):
        return t.arithmetic("", "arith.remui", x, y)
    product = t.arithmetic("arith.mulf", "arith.muli", _floordiv(t, x, y), y)
    return t.arithmetic("arith.subf", "arith.subi", x, product)


#: Of powers that are products; others are those of a logarithm.
_MOST_FACTORS = 64


@named("pow", "power", "float_power")
def _pow(t: Tracer, x: Any, exponent: Any) -> Scalar:
    if isinstance(exponent, Scalar):
        return _pow_of_value(t, x, exponent)
    if not is_number(exponent):
        fail(f"expects an exponent that is a number or a value, but got {exponent!r}")
    if exponent in (0.5, -0.5):
        return t.emit(f"math.{'sqrt' if exponent > 0 else 'rsqrt'}", "f32", *t.promote(x, least="f32"))
    if float(exponent).is_integer() and abs(exponent) <= _MOST_FACTORS:
        return _pow_by_products(t, x, int(exponent), isinstance(exponent, numbers.Integral))
    return _exp2_of_product(t, x, exponent)


def _pow_by_products(t: Tracer, x: Any, count: int, is_whole: bool) -> Scalar:
    least = "i32" if is_whole and count >= 0 else "f32"
    (factor,) = t.promote(x, least=least)
    if count == 0:
        return t.constant(1, factor.kind)
    result: Any = None
    left = abs(count)
    while left:
        if left & 1:
            product = None if result is None else (result, factor)
            result = factor if not product else t.arithmetic("arith.mulf", "arith.muli", *product)
        left >>= 1
        if left:
            factor = t.arithmetic("arith.mulf", "arith.muli", factor, factor)
    return _div(t, 1.0, result) if count < 0 else result


def _pow_of_value(t: Tracer, base: Any, exponent: Scalar) -> Scalar:
    """A number or a value to the power of a value."""
    if is_number(base):
        if base <= 0:
            fail(f"expects a positive base of a power that is a value, but got {base!r}")
        is_whole = exponent.kind in ("i32", "index") and isinstance(base, numbers.Integral)
        if base == 2 and is_whole and exponent.value in t.naturals:  # no shift goes backwards
            return _shift_left(t, t.constant(1, exponent.kind), exponent)
        (power,) = t.promote(exponent, least="f32")
        power = t.arithmetic("arith.mulf", "", power, math.log2(base)) if base != 2 else power
        return t.emit("math.exp2", "f32", power)
    return _exp2_of_product(t, base, exponent)


def _exp2_of_product(t: Tracer, x: Any, exponent: Any) -> Scalar:
    """x to any power where it is not negative, and NaN where it is."""
    logarithm = t.emit("math.log2", "f32", *t.promote(x, least="f32"))
    return t.emit("math.exp2", "f32", t.arithmetic("arith.mulf", "", logarithm, exponent))


@named("square")
def _square(t: Tracer, x: Any) -> Scalar:
    return _pow(t, x, 2)


@named("floor")
def _floor(t: Tracer, x: Any) -> Scalar:
    return _round(t, "math.floor", x)


@named("ceil")
def _ceil(t: Tracer, x: Any) -> Scalar:
    return _round(t, "math.ceil", x)


def _round(t: Tracer, op: str, x: Any) -> Scalar:
    (value,) = t.promote(x, least="i32")
    return t.emit(op, "f32", value) if value.kind == "f32" else value


@named("sigmoid")
def _sigmoid(t: Tracer, x: Any) -> Scalar:
    (value,) = t.promote(x, least="f32")
    power = t.emit("math.exp", "f32", t.emit("arith.negf", "f32", value))
    one = t.constant(1, "f32")
    return t.emit("arith.divf", "f32", one, t.emit("arith.addf", "f32", one, power))


@named("clamp", "clip")
def _clamp(t: Tracer, x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = t.arithmetic("arith.maximumf", "arith.maxsi", x, min)
    if max is not None:
        x = t.arithmetic("arith.minimumf", "arith.minsi", x, max)
    return x


@named("where")
def _where(t: Tracer, condition: Any, a: Any, b: Any) -> Scalar:
    if is_number(condition):
        return t.promote(a, b)[0 if condition else 1]
    (chooser,) = t.promote(condition)
    if chooser.kind != "i1":
        fail(f"expects a condition of where that is a bool, but got {chooser.kind}")
    x, y = t.promote(a, b)
    result = t.emit("arith.select", x.kind, chooser, x, y)
    if {x.value, y.value} <= t.naturals:
        t.naturals.add(result.value)
    return result


@named("to", "type", "astype")
def _to(t: Tracer, x: Scalar, dtype: Any, **_: Any) -> Scalar:
    name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]
    kinds = {"float32": "f32", "float": "f32", "bool": "i1"}
    kinds.update(dict.fromkeys(("int32", "int64", "int", "long"), "i32"))
    if name not in kinds:
        fail(f"expects a conversion to float32, int32, int64 or bool, but got {name}")
    if kinds[name] == "i32" and x.kind == "index":
        return x
    return t.cast(x, kinds[name])


for _name, _dtype in (("float", "float32"), ("int", "int32"), ("long", "int64"), ("bool", "bool")):
    functions[_name] = lambda t, x, dtype=_dtype: _to(t, x, dtype)


def _add_new(name: str, value: bool) -> None:
    """Of torch.nn.attention's own masks, which begin with a True."""

    @named(name)
    def function(t: Tracer, x: Scalar, size: Any = (), dtype: Any = None, **_: Any) -> Scalar:
        if tuple(size):
            fail(f"expects single values of {name}, but got size={tuple(size)}")
        return _to(t, t.constant(value, "i1"), x.dtype if dtype is None else dtype)


_add_new("new_ones", True)
_add_new("new_zeros", False)


def exp(x: Any) -> Any:
    """e to the power of a value of score_mod or mask_mod."""
    return apply("exp", (x,))


def erf(x: Any) -> Any:
    """The error function of a value of score_mod or mask_mod, to 2^-22."""
    return apply("erf", (x,))


def isin(x: Any, values: Any) -> Any:
    """Whether a value of score_mod or mask_mod is one of at most 64.

    values: numbers in a list, or a tensor or capture of one axis, of whose size there is a
        kernel.
    """
    return apply("isin", (x, values))


def exp2(x: Any) -> Any:
    """2 to the power of a value of score_mod or mask_mod."""
    return apply("exp2", (x,))


def log(x: Any) -> Any:
    """The natural logarithm of a value of score_mod or mask_mod."""
    return apply("log", (x,))


def log2(x: Any) -> Any:
    """The logarithm of base 2 of a value of score_mod or mask_mod."""
    return apply("log2", (x,))


def sqrt(x: Any) -> Any:
    """The square root of a value of score_mod or mask_mod."""
    return apply("sqrt", (x,))


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x) of a value of score_mod or mask_mod."""
    return apply("rsqrt", (x,))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent of a value of score_mod or mask_mod."""
    return apply("tanh", (x,))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) of a value of score_mod or mask_mod."""
    return apply("sigmoid", (x,))


def sin(x: Any) -> Any:
    """The sine of a value of score_mod or mask_mod, in radians."""
    return apply("sin", (x,))


def cos(x: Any) -> Any:
    """The cosine of a value of score_mod or mask_mod, in radians."""
    return apply("cos", (x,))


def floor(x: Any) -> Any:
    """A value of score_mod or mask_mod, rounded down; a whole number stays one."""
    return apply("floor", (x,))


def ceil(x: Any) -> Any:
    """A value of score_mod or mask_mod, rounded up; a whole number stays one."""
    return apply("ceil", (x,))


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two values of score_mod or mask_mod; NaN where one is."""
    return apply("minimum", (a, b))


def maximum(a: Any, b: Any) -> Any:
    """The larger of two values of score_mod or mask_mod; NaN where one is."""
    return apply("maximum", (a, b))


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """A value of score_mod or mask_mod, at least ``min`` and at most ``max``."""
    return apply("clamp", (x, min, max))


def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``, of score_mod or mask_mod."""
    return apply("where", (condition, a, b))
