"""What arguments that are no arrays may be: a rule for each kind, and a table of arguments.

They choose a kernel and are keys of caches. So they are numbers, bools and words of
Python's, which never change, and scalars of NumPy's, which become these. An array is
none, with one element neither: what it holds may change from call to call, on a GPU
nobody knows it without waiting, and a gradient of it would be lost without a word.
"""

from __future__ import annotations

import numbers
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

__all__ = ["CHOICE", "FLAG", "NUMBER", "WHOLE", "WORD", "expect_one_of", "is_array", "read"]


def _is_symbol(value: object, name: str) -> bool:
    """Whether it stands for a number of a program that PyTorch traces."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "torch" and kind.__name__ == name


def _is_numpy_scalar(value: object) -> bool:
    """Such as those of ml_dtypes, which are no numbers of Python's registry."""
    bases = type(value).__mro__
    return any((base.__module__, base.__name__) == ("numpy", "generic") for base in bases)


def _read_number(value: Any) -> Any:
    if type(value) in (float, int) or _is_symbol(value, "SymFloat") or _is_symbol(value, "SymInt"):
        return value
    if _is_flag(value) or isinstance(value, (str, bytes)):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if not _is_numpy_scalar(value) or isinstance(value, numbers.Complex):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):  # of a record, for one
        return None


def _read_whole(value: Any) -> Any:
    if type(value) is int or _is_symbol(value, "SymInt"):
        return value
    return int(value) if isinstance(value, numbers.Integral) and not _is_flag(value) else None


def _is_flag(value: object) -> bool:
    """A bool of Python's or of NumPy's."""
    kind = type(value)
    return kind is bool or kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")


def _read_flag(value: Any) -> Any:
    if type(value) is bool or _is_symbol(value, "SymBool"):
        return value
    return bool(value) if _is_flag(value) else None


def _read_word(value: Any) -> Any:
    return str(value) if isinstance(value, str) else None


def _read_choice(value: Any) -> Any:
    word = _read_word(value)
    return _read_flag(value) if word is None else word


class Kind(NamedTuple):
    """what: as errors say it. convert: the function that makes it of an array of one element.
    read: the value as Python has it; None for what is of another kind."""

    what: str
    convert: str
    read: Callable[[Any], Any]


NUMBER = Kind("a number", "float", _read_number)
WHOLE = Kind("a whole number", "int", _read_whole)
FLAG = Kind("a bool", "bool", _read_flag)
WORD = Kind("a str", "str", _read_word)
CHOICE = Kind("a bool or a str", "bool", _read_choice)

#: Those which are None by default, or of which None says something.
_OPTIONAL = frozenset(
    ("softcap", "scale", "softmax_scale", "window", "max_seqlen_q", "device", "scores", "block")
)

#: All arguments of public functions that are no arrays, functions or places of results.
_KINDS: Dict[Kind, Tuple[str, ...]] = {
    NUMBER: ("scale", "softmax_scale", "softcap", "dropout_p"),
    WHOLE: (
        "window", "window_size", "max_seqlen_q", "max_seqlen_k", "num_splits", "cache_seqlens", "block_size",
        "grid", "block", "shared", "threads", "seed", "max_instructions", "multiprocessors",
        "seqlen_q", "seqlen_k", "block_m", "block_n", "batch", "head", "attention_chunk", "num_heads_q",
    ),
    FLAG: (
        "lse", "static", "batch_invariant", "rotary_interleaved", "is_causal", "enable_gqa", "return_lse",
        "return_attn_probs", "return_softmax_lse", "deterministic",
    ),
    WORD: ("layout", "device", "scores", "checks", "schedule", "asynchronous"),
    CHOICE: ("causal",),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


def read(name: str, value: Any, kind: Optional[Kind] = None, whole: Any = None) -> Any:
    """The argument as a number, bool or str of Python's, or None where that is one.

    kind: in the place of the table's. whole: the argument that it is a part of, for errors.

    Raises TypeError, by the name of the argument, for what is of another kind.
    """
    if value is None and name in _OPTIONAL:
        return None
    kind = _KIND_OF[name] if kind is None else kind
    result = kind.read(value)
    if result is not None:
        return result
    what = kind.what if whole is None else f"{kind.what.partition(' ')[2]}s"
    none = " or None" if name in _OPTIONAL and whole is None else ""
    raise TypeError(
        f"expects {name} to be {what}{none}, but got "
        f"{describe(value if whole is None else whole)}{_hint(name, value, kind)}"
    )


def is_array(value: object) -> bool:
    """Whether it is one of some library, of whatever size."""
    return hasattr(type(value), "__dlpack__") or hasattr(type(value), "__array__")


def describe(value: Any) -> str:
    """A value in an error. What arrays hold is not looked at, which may wait for a GPU."""
    if isinstance(value, (tuple, list)):
        items = ", ".join(describe(item) for item in value)
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if is_array(value):
        return f"an array ({type(value).__module__}.{type(value).__name__})"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _hint(name: str, value: Any, kind: Kind) -> str:
    if not is_array(value) or kind is WORD:
        return ""
    return (
        f": {kind.convert}({name}) is what it holds now, without a gradient, and waits for a GPU "
        "that has it"
    )


def expect_one_of(name: str, value: Any, allowed: Tuple[Any, ...], kind: Kind = WORD) -> Any:
    """One of the words that are allowed, or of the bools; None may be among them."""
    result = None if value is None else kind.read(value)
    if result in allowed and (result is not None or value is None):
        return result
    listed = ", ".join(repr(choice) for choice in allowed)
    error = TypeError if value is not None and result is None else ValueError
    raise error(f"expects {name} to be one of {listed}, but got {describe(value)}")
