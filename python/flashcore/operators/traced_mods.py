"""Functions of a call that torch.compile traces.

What they become is a constant of the graph; what they read are inputs of it. torch.compile
calls a function for a constant once, and asks again where something has changed that it has
seen: so all that the functions hold is looked at where it sees it (:func:`_value_at`).
"""

from __future__ import annotations

import types
from typing import Any, Callable, Optional, Tuple

import torch

from flashcore.mods import Handle, handle_of, places_of, read_mods
from flashcore.mods import reads_by_key as _reads_by_key
from flashcore.operators.fallback import note
from flashcore.options import Mods

__all__ = ["read", "reads_by_key", "untraced"]


def read(score_mod: Any, mask_mod: Any) -> "Optional[Tuple[Mods, Tuple[Any, ...]]]":
    """What :func:`flashcore.mods.read_mods` returns; None for functions of which torch.compile
    cannot tell when they change."""
    if not torch.compiler.is_dynamo_compiling():
        return read_mods(score_mod, mask_mod)
    functions = (score_mod, mask_mod)
    for function in functions:
        if function is None or isinstance(function, Handle):
            continue
        if type(function) is not types.FunctionType:
            return None
        # torch.compile breaks its graph here for one that is made in it, of which it has no
        # constant; the call is a graph of its own then.
        "__name__" in function.__globals__
    known = _constants(*_named(score_mod), *_named(mask_mod))
    if known is None:
        return None
    mods, seen, captured = known
    for place in seen:
        isinstance(_value_at(functions, place), torch.Tensor)  # which looks at it
    return mods, tuple([_value_at(functions, place) for place in captured])


def _named(mod: Any) -> Tuple[Any, Optional[str]]:
    """A function, or the number of a handle: what torch.compile has constants of."""
    return (None, mod.serial) if isinstance(mod, Handle) else (mod, None)


def _mod_of(function: Any, serial: Optional[str]) -> Any:
    return function if serial is None else handle_of(serial)


def reads_by_key(mask_mod: Any) -> bool:
    """:func:`flashcore.mods.reads_by_key` as a constant of the graph; ``read`` guards it."""
    if not torch.compiler.is_dynamo_compiling():
        return _reads_by_key(mask_mod)
    is_read: bool = _constant_reads_by_key(*_named(mask_mod))
    return is_read


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _constants(
    score: Any, score_serial: Optional[str], mask: Any, mask_serial: Optional[str]
) -> Any:
    """What the functions are to a kernel; where what they hold is, and what they read."""
    mods = _mod_of(score, score_serial), _mod_of(mask, mask_serial)
    found = places_of(*mods)
    return None if found is None else (read_mods(*mods)[0], found.seen, found.captured)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
def _constant_reads_by_key(mask: Any, serial: Optional[str]) -> bool:
    return _reads_by_key(_mod_of(mask, serial))


def _value_at(functions: Tuple[Any, Any], place: Tuple[Any, ...]) -> Any:
    """What a function holds; a place is that of flashcore.mods."""
    value = functions[place[0]]
    for kind, name in place[1:]:
        if kind == "closure":
            value = value.__closure__[name].cell_contents
        elif kind == "global":
            value = value.__globals__[name]
        elif kind == "item":
            value = value[name]
        elif kind == "handle":
            value = value.arrays[name]
        else:
            value = value._array
    return value


def untraced(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A call outside of the graph that torch.compile makes, which it breaks for this.

    With fullgraph=True it says so.
    """
    note(
        "a function reads what is in no closure and no global, so torch.compile leaves its graph "
        "for the call; flashcore.mask and flashcore.score make it one that does not change"
    )
    return _disabled(function, *arguments, **options)


@torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
def _disabled(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **options)
