"""Functions of values that are made of others: activations, and what has no instruction.

Each is that of PyTorch of its name, of one value in float32. Its text is the formula, so
that whoever reads the kernel's region sees what is computed.
"""

from __future__ import annotations

import math
from typing import Any

from flashcore.scalars import Captured, Scalar, Tracer, apply, fail, is_number, named

__all__: "list[str]" = []


def _real(t: Tracer, x: Any) -> Any:
    (value,) = t.promote(x, least="f32")
    return value


def _maximum(a: Any, b: Any) -> Any:
    return apply("maximum", (a, b))


def _minimum(a: Any, b: Any) -> Any:
    return apply("minimum", (a, b))


def _where(condition: Any, a: Any, b: Any) -> Any:
    return apply("where", (condition, a, b))


def _exp(x: Any) -> Any:
    return apply("exp", (x,))


def _sigmoid(x: Any) -> Any:
    return apply("sigmoid", (x,))


@named("erf")
def _erf(t: Tracer, x: Any) -> Scalar:
    """Abramowitz and Stegun 7.1.26 (1.5e-7), and near 0 the series, of small relative error."""
    value = _real(t, x)
    size = apply("abs", (value,))
    s = 1.0 / (1.0 + 0.3275911 * size)
    series = 1.061405429
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = coefficient + series * s
    far = 1.0 - series * s * _exp(-(value * value))
    square = value * value
    near: Any = 1 / 216.0
    for coefficient in (-1 / 42.0, 1 / 10.0, -1 / 3.0, 1.0):
        near = coefficient + near * square
    near = (2 / math.sqrt(math.pi)) * value * near
    result: Scalar = _where(size < 0.4, near, _where(value < 0.0, -far, far))
    return result


@named("erfc")
def _erfc(t: Tracer, x: Any) -> Any:
    return 1.0 - _erf(t, x)


@named("log1p")
def _log1p(t: Tracer, x: Any) -> Any:
    """Near 0 by the quotient that takes what rounding 1 + x left into account."""
    value = _real(t, x)
    sum_ = value + 1.0
    difference = sum_ - 1.0
    quotient = apply("log", (sum_,)) * (value / _where(difference == 0.0, 1.0, difference))
    return _where(difference == 0.0, value, quotient)


@named("expm1")
def _expm1(t: Tracer, x: Any) -> Any:
    """Near 0 by its series."""
    value = _real(t, x)
    near: Any = 1 / 24.0
    for coefficient in (1 / 6.0, 0.5, 1.0):
        near = coefficient + near * value
    return _where(apply("abs", (value,)) < 0.1, near * value, _exp(value) - 1.0)


@named("relu")
def _relu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    return _maximum(x, 0)


@named("relu6")
def _relu6(t: Tracer, x: Any, inplace: bool = False) -> Any:
    return _minimum(_maximum(x, 0), 6)


@named("leaky_relu")
def _leaky_relu(t: Tracer, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    value = _real(t, x)
    return _where(value > 0.0, value, value * negative_slope)


@named("elu")
def _elu(t: Tracer, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    value = _real(t, x)
    return _where(value > 0.0, value, _expm1(t, value) * alpha)


@named("softplus")
def _softplus(t: Tracer, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """(1 / beta) log(1 + exp(beta x)), which no exponential overflows."""
    value = _real(t, x) * beta
    rest = _log1p(t, _exp(-apply("abs", (value,))))
    smooth = (_maximum(value, 0.0) + rest) * (1.0 / beta)
    return _where(value > threshold, x, smooth)


@named("logsigmoid", "log_sigmoid")
def _logsigmoid(t: Tracer, x: Any) -> Any:
    return -_softplus(t, -_real(t, x))


@named("expit")
def _expit(t: Tracer, x: Any) -> Any:
    return _sigmoid(x)


@named("silu", "swish")
def _silu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    value = _real(t, x)
    return value * _sigmoid(value)


@named("mish")
def _mish(t: Tracer, x: Any, inplace: bool = False) -> Any:
    value = _real(t, x)
    return value * apply("tanh", (_softplus(t, value),))


@named("gelu")
def _gelu(t: Tracer, x: Any, *, approximate: str = "none") -> Any:
    value = _real(t, x)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (value + 0.044715 * value * value * value)
        return 0.5 * value * (1.0 + apply("tanh", (inner,)))
    if approximate != "none":
        fail(f"expects approximate to be 'none' or 'tanh', but got {approximate!r}")
    return 0.5 * value * (1.0 + _erf(t, value * math.sqrt(0.5)))


@named("hardtanh")
def _hardtanh(
    t: Tracer, x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    return _minimum(_maximum(x, min_val), max_val)


@named("hardsigmoid")
def _hardsigmoid(t: Tracer, x: Any, inplace: bool = False) -> Any:
    return _relu6(t, _real(t, x) + 3.0) / 6.0


@named("softsign")
def _softsign(t: Tracer, x: Any) -> Any:
    value = _real(t, x)
    return value / (1.0 + apply("abs", (value,)))


@named("reciprocal")
def _reciprocal(t: Tracer, x: Any) -> Any:
    return 1.0 / _real(t, x)


@named("sign", "sgn")
def _sign(t: Tracer, x: Any) -> Any:
    (value,) = t.promote(x, least="i32")
    zero, one = (t.constant(n, value.kind) for n in (0, 1))
    return _where(value > zero, one, _where(value < zero, -one, zero))


@named("trunc", "fix")
def _trunc(t: Tracer, x: Any) -> Any:
    (value,) = t.promote(x, least="i32")
    if value.kind != "f32":
        return value
    return _where(value < 0.0, apply("ceil", (value,)), apply("floor", (value,)))


@named("frac")
def _frac(t: Tracer, x: Any) -> Any:
    return _real(t, x) - _trunc(t, _real(t, x))


@named("round", "rint")
def _round(t: Tracer, x: Any) -> Any:
    """To the nearest, half to even."""
    (value,) = t.promote(x, least="i32")
    if value.kind != "f32":
        return value
    down = apply("floor", (value,))
    rest = value - down
    half = down * 0.5
    is_odd = half != apply("floor", (half,))
    return _where((rest > 0.5) | ((rest == 0.5) & is_odd), down + 1.0, down)


@named("hypot")
def _hypot(t: Tracer, a: Any, b: Any) -> Any:
    x, y = _real(t, a), _real(t, b)
    return apply("sqrt", (x * x + y * y,))


@named("lerp")
def _lerp(t: Tracer, start: Any, end: Any, weight: Any) -> Any:
    first = _real(t, start)
    return first + (end - first) * weight


@named("logit")
def _logit(t: Tracer, x: Any, eps: Any = None) -> Any:
    value = _real(t, x)
    if eps is not None:
        value = _minimum(_maximum(value, eps), 1.0 - eps)
    return apply("log", (value / (1.0 - value),))


@named("log10")
def _log10(t: Tracer, x: Any) -> Any:
    return apply("log2", (x,)) * math.log10(2)


@named("tan")
def _tan(t: Tracer, x: Any) -> Any:
    return apply("sin", (x,)) / apply("cos", (x,))


@named("isnan")
def _isnan(t: Tracer, x: Any) -> Any:
    value = _real(t, x)
    return value != value


@named("isinf")
def _isinf(t: Tracer, x: Any) -> Any:
    return apply("abs", (_real(t, x),)) == math.inf


#: Comparisons of isin.
_MOST_VALUES = 64


@named("isin")
def _isin(
    t: Tracer, elements: Any, test_elements: Any, *, assume_unique: bool = False,
    invert: bool = False,
) -> Any:  # fmt: skip
    """A comparison with each."""
    (value,) = t.promote(elements)
    found: Any = t.constant(False, "i1")
    for one in _values_of(t, test_elements):
        found = found | (value == one)
    return ~found if invert else found


def _values_of(t: Tracer, values: Any) -> "list[Any]":
    if is_number(values) or isinstance(values, Scalar):
        return [values]
    if isinstance(values, (list, tuple, set, frozenset, range)):
        count, element = len(values), None
    else:
        array = values if isinstance(values, Captured) else Captured(values)
        sizes = array.sizes()
        if len(sizes) != 1:
            fail(f"expects values of one axis in isin, but got {len(sizes)}")
        t.captures.has_read_sizes = True
        count, element = sizes[0], array
    if count > _MOST_VALUES:
        fail(
            f"expects at most {_MOST_VALUES} values in isin, but got {count}: read a tensor that "
            "says of each place whether it is one"
        )
    if element is None:
        return sorted(values)
    return [t.load(element._array, (index,)) for index in range(count)]
