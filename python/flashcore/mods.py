"""``score_mod`` and ``mask_mod`` of a call: traced once, and what they read.

What a function becomes follows from its code, the values that it closes over and the globals
that it reads, and for tensors from their types and ranks alone. :func:`read_mods` finds what a
function with the same became before. One that reads what cannot be compared, such as an
object's attributes, is traced at each call, unless :func:`mask` or :func:`score` says that it
does not change.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import types
import weakref
from typing import Any, Dict, FrozenSet, List, NamedTuple, NoReturn, Optional, Tuple

from flashcore.kinds import describe
from flashcore.options import CaptureKind, Mods
from flashcore.regions import KEY, Frozen, Mod, TracedMods, trace_mods
from flashcore.scalars import Captured, signature_of

__all__ = ["Handle", "handle_of", "mask", "places_of", "read_mods", "reads_by_key", "score"]


_serials = itertools.count()
#: By their serial numbers, for what has no place for an object.
_handles: "weakref.WeakValueDictionary[str, Handle]" = weakref.WeakValueDictionary()


class Handle:
    """A function that is traced once, whatever it reads: the result of mask and score."""

    def __init__(self, name: str, function: Mod) -> None:
        _expect_function("function", function)
        self.name = name
        self.function = function
        is_score = name == "score_mod"
        traced = trace_mods(function, None) if is_score else trace_mods(None, function)
        program = traced.score if is_score else traced.mask
        assert program is not None
        self.frozen = Frozen(program, traced.captures)
        #: What it reads.
        self.arrays = tuple(capture.array for capture in traced.captures)
        #: What no other handle of the process has had; text, of which torch.compile has constants.
        self.serial = f"{name}{next(_serials)}"
        _handles[self.serial] = self

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __repr__(self) -> str:
        return f"<{self.name} {self.function!r}>"


def _expect_function(name: str, function: Any) -> None:
    """Of one that is to be traced, which a handle is no more."""
    if isinstance(function, Handle) or not callable(function):
        raise TypeError(f"expects {name} to be a function, but got {describe(function)}")


def handle_of(serial: str) -> Handle:
    """The handle with this number, which somebody holds."""
    return _handles[serial]


def mask(function: Mod) -> Handle:
    """A ``mask_mod`` that is traced here, and not again.

    function: of (batch, head, q_idx, kv_idx), as ``mask_mod`` of :func:`flashcore.attention`.

    Returns what stands in its place in any number of calls. What the function reads is what
    it is now: numbers do not change any more, and tensors may change what they hold, but not
    be replaced.

    Raises TypeError, with file and line, for what a mask_mod cannot have.
    """
    return Handle("mask_mod", function)


def score(function: Mod) -> Handle:
    """A ``score_mod`` that is traced here, and not again; as :func:`mask`.

    function: of (score, batch, head, q_idx, kv_idx), as ``score_mod`` of
        :func:`flashcore.attention`.
    """
    return Handle("score_mod", function)


class Became(NamedTuple):
    """What functions became, and the tensors that they read."""

    traced: TracedMods
    mods: Mods
    arrays: Tuple[Any, ...]


class _Known(NamedTuple):
    """The same of any functions with one key."""

    traced: TracedMods
    mods: Mods
    #: Of each tensor that they read, its number among those that they hold.
    places: Tuple[int, ...]


#: By what functions depend on.
_known: Dict[Any, _Known] = {}
#: A program with more starts over.
_MAX_KNOWN = 1024


def read_mods(
    score_mod: Optional[Mod], mask_mod: Optional[Mod]
) -> Tuple[Mods, Tuple[Any, ...]]:
    """What the functions are to a kernel, and the tensors that they read.

    Raises TypeError, with file and line, for what a region cannot have.
    """
    became = _read(score_mod, mask_mod)
    return became.mods, became.arrays


def reads_by_key(mask_mod: Mod) -> bool:
    """Whether a mask reads a tensor at a place that depends on the key."""
    traced = _read(None, mask_mod).traced
    assert traced.mask
    of_key = {KEY}
    for value, op in enumerate(traced.mask.ops):
        if of_key.intersection(op.operands):
            if op.name == "load":
                return True
            of_key.add(value)
    return False


#: Where a function holds a value: 0 of score_mod or 1 of mask_mod, and then steps ("closure",
#: number), ("global", name), ("item", number) of a tuple, ("array", 0) of a capture, and
#: ("handle", number) of what a handle reads.
Place = Tuple[Any, ...]


class Places(NamedTuple):
    """Where functions hold all that they become something else for, and what they read."""

    seen: Tuple[Place, ...]
    captured: Tuple[Place, ...]


def places_of(score_mod: Optional[Mod], mask_mod: Optional[Mod]) -> Optional[Places]:
    """None where that is not all in closures and globals."""
    found: List[Tuple[Place, Any]] = []
    try:
        for number, mod in enumerate((score_mod, mask_mod)):
            if type(mod) is Handle:
                arrays = enumerate(mod.arrays)
                found += [((number, ("handle", i)), array) for i, array in arrays]
            elif mod is not None:
                _key(mod, [], 0)
                _find_places(mod, (number,), found)
    except _Unknowable:
        return None
    became = _read(score_mod, mask_mod)
    places = {id(value): place for place, value in found}
    if not became.traced.is_pure or not all(id(array) in places for array in became.arrays):
        return None
    captured = tuple(places[id(array)] for array in became.arrays)
    return Places(tuple(place for place, _ in found), captured)


def _find_places(value: Any, place: Place, found: List[Tuple[Place, Any]]) -> None:
    """Those in a value whose key is known."""
    kind = type(value)
    if kind in (types.FunctionType, tuple, list):
        found.append((place, value))  # which code it is, and how many items there are
    if kind is types.FunctionType:
        if value.__defaults__ or value.__kwdefaults__:
            _refuse()
        for number, cell in enumerate(value.__closure__ or ()):
            _find_places(cell.cell_contents, (*place, ("closure", number)), found)
        if not _is_of_package(value):
            for name in _names_of(value.__code__).globals:
                if name in value.__globals__:
                    held = value.__globals__[name]
                    _find_places(held, (*place, ("global", name)), found)
    elif kind is tuple or kind is list:
        for number, item in enumerate(value):
            _find_places(item, (*place, ("item", number)), found)
    elif kind is Captured:
        if value._indices or not hasattr(value._array, "requires_grad"):
            _refuse()
        found.append(((*place, ("array", 0)), value._array))
    elif kind is types.ModuleType and _is_package(value.__name__):
        return
    elif kind in (types.ModuleType, types.MethodType, functools.partial, dict, Handle):
        _refuse()
    else:
        found.append((place, value))


def _read(score_mod: Optional[Mod], mask_mod: Optional[Mod]) -> Became:
    tensors: List[Any] = []
    try:
        key = (
            None if score_mod is None else _key_of("score_mod", score_mod, tensors),
            None if mask_mod is None else _key_of("mask_mod", mask_mod, tensors),
            _aliases(tensors),
        )
        known = _known.get(key)
    except _Unknowable:
        return _trace(score_mod, mask_mod)
    if known is None:
        became = _trace(score_mod, mask_mod)
        numbers = {id(tensor): i for i, tensor in enumerate(tensors)}
        if not became.traced.is_pure or not all(id(x) in numbers for x in became.arrays):
            return became
        places = tuple(numbers[id(x)] for x in became.arrays)
        known = _Known(became.traced.without_arrays(), became.mods, places)
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = known
    return Became(known.traced, known.mods, tuple([tensors[place] for place in known.places]))


def _key_of(name: str, mod: Mod, tensors: List[Any]) -> Any:
    """What one of the two depends on."""
    if type(mod) is not Handle:
        return _key(mod, tensors, 0)
    if mod.name != name:
        raise TypeError(f"expects {name} to be a function, but got that of a {mod.name}: {mod!r}")
    tensors += mod.arrays
    return Handle, mod.serial


def _aliases(tensors: List[Any]) -> Tuple[int, ...]:
    """Which tensors are one: of each the number of the first that it is."""
    if len(tensors) < 2:
        return ()
    first: Dict[int, int] = {}
    return tuple([first.setdefault(id(tensor), i) for i, tensor in enumerate(tensors)])


def _trace(score_mod: Optional[Mod], mask_mod: Optional[Mod]) -> Became:
    score, mask = (mod.frozen if type(mod) is Handle else mod for mod in (score_mod, mask_mod))
    traced = trace_mods(score, mask)
    kinds = tuple(
        tuple(CaptureKind(x.dtype, x.rank, x.converted, x.is_backwards)) for x in traced.captures
    )
    arrays = tuple(capture.array for capture in traced.captures)
    return Became(traced, (traced.regions.words(), kinds), arrays)


# What functions depend on ---------------------------------------------------


class _Unknowable(Exception):
    """A function reads what cannot be told from what it was at another call."""


def _refuse() -> NoReturn:
    raise _Unknowable


#: Of packages whose functions are what they are: only what they close over is read.
_PACKAGES = frozenset(("flashcore", "math", "numpy", "operator", "torch"))
#: Builtins whose result follows from their arguments.
_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in (
        "abs all any bool dict divmod enumerate filter float frozenset int isinstance len list map "
        "max min pow range reversed round sorted str sum tuple type zip"
    ).split()
)
#: Types of values that never change.
_PLAIN = frozenset((bool, int, str, bytes, type(None), type(Ellipsis), range))
_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_MAX_DEPTH = 16
_MISSING = object()


class _Names(NamedTuple):
    """What the code of a function reads by name."""

    globals: Tuple[str, ...]
    attributes: FrozenSet[str]
    #: Whether it stores or imports, so that it may not do the same again.
    has_effects: bool
    #: What it hands on as it is, and not an attribute of it alone.
    handed_on: FrozenSet[str]


@functools.lru_cache(maxsize=4096)
def _names_of(code: types.CodeType) -> _Names:
    """Of the code and of what is defined in it."""
    read: Dict[str, None] = {}
    attributes = set()
    has_effects = False
    handed_on = set()
    last = None  # the name that was loaded just before
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        is_attribute = name.startswith("LOAD") and ("ATTR" in name or "METHOD" in name)
        if last is not None and not is_attribute:
            handed_on.add(last)
        last = None
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            last = str(instruction.argval)
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            read[str(instruction.argval)] = None
        elif is_attribute:
            attributes.add(str(instruction.argval))
            has_effects = has_effects or instruction.argval == "random"
        elif name.startswith(("STORE_ATTR", "STORE_GLOBAL", "STORE_NAME", "DELETE", "IMPORT", "YIELD")):
            has_effects = has_effects or name != "DELETE_FAST"
        elif name == "STORE_DEREF" and instruction.argval in code.co_freevars:
            has_effects = True  # a nonlocal variable
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_of(constant)
            read.update(dict.fromkeys(inner.globals))
            attributes |= inner.attributes
            has_effects = has_effects or inner.has_effects
            handed_on |= inner.handed_on
    return _Names(tuple(read), frozenset(attributes), has_effects, frozenset(handed_on))


def _key(function: Any, tensors: List[Any], depth: int) -> Any:
    """What a function depends on; the tensors that it holds are added to ``tensors``."""
    if type(function) is not types.FunctionType:
        return _value_key(function, tensors, frozenset(), depth)
    code = function.__code__
    names = _names_of(code)
    if names.has_effects or depth > _MAX_DEPTH or function.__dict__.keys() - {"__wrapped__"}:
        _refuse()
    attributes = names.attributes
    parts: List[Any] = [code]
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            _refuse()
        if type(value) is types.ModuleType and name in names.handed_on:
            _expect_package(value)
        parts.append(_value_key(value, tensors, attributes, depth))
    if function.__defaults__:
        parts.append(_value_key(function.__defaults__, tensors, attributes, depth))
    if function.__kwdefaults__:
        parts.append(_value_key(function.__kwdefaults__, tensors, attributes, depth))
    if not _is_of_package(function):
        variables = function.__globals__
        for name in names.globals:
            value = variables.get(name, _MISSING)
            if value is _MISSING:
                value = getattr(builtins, name, None)
            if type(value) is types.ModuleType and name in names.handed_on:
                _expect_package(value)
            parts.append(_value_key(value, tensors, attributes, depth))
    return tuple(parts)


def _is_of_package(value: Any) -> bool:
    """Whether a function is of one; what it says of itself may be another's (functools.wraps)."""
    if type(value) is types.FunctionType:
        module = value.__globals__.get("__name__")
    else:
        module = getattr(value, "__module__", None)
    return type(module) is str and _is_package(module)


def _is_package(name: str) -> bool:
    """Whether a module is one of such a package, or in it."""
    return name.partition(".")[0] in _PACKAGES


def _expect_package(module: types.ModuleType) -> None:
    """Of another that is handed on, somebody else reads nobody knows what."""
    if not _is_package(module.__name__):
        _refuse()


def _value_key(value: Any, tensors: List[Any], attributes: FrozenSet[str], depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:  # 0 is not -0 to a function, and NaN is itself
        return kind, value.hex()
    if depth > _MAX_DEPTH:
        _refuse()
    if kind is types.FunctionType:
        return _key(value, tensors, depth + 1)
    if kind is Captured:
        tensors.append(value._array)
        if not value._indices:
            return kind, _signature_of(value._array)
        indices = _value_key(value._indices, tensors, attributes, depth + 1)
        return kind, _signature_of(value._array), indices
    if kind is types.ModuleType:
        return _module_key(value, tensors, attributes, depth)
    if kind is tuple or kind is list:
        for item in value:
            if type(item) is types.ModuleType:
                _expect_package(item)
        items = [_value_key(item, tensors, attributes, depth + 1) for item in value]
        return (kind, *items)
    if kind is dict:
        pairs = value.items()
        return (kind, *[_value_key(pair, tensors, attributes, depth + 1) for pair in pairs])
    return _object_key(value, tensors, attributes, depth)


def _module_key(
    module: Any, tensors: List[Any], attributes: FrozenSet[str], depth: int
) -> Any:
    """Of packages of ours and PyTorch's itself; of others what code may read there."""
    if "random" in module.__name__:
        _refuse()
    if _is_package(module.__name__):
        return id(module)  # modules stay
    members = vars(module)
    read = sorted(attributes.intersection(members))
    keys = [(name, _value_key(members[name], tensors, attributes, depth + 1)) for name in read]
    return (id(module), *keys)


def _object_key(
    value: Any, tensors: List[Any], attributes: FrozenSet[str], depth: int
) -> Any:
    kind = type(value)
    if kind is Handle:  # called by a function, which sees what it is now
        return _key(value.function, tensors, depth + 1)
    if kind is functools.partial:
        held = value.func, value.args, value.keywords
        return (kind, _value_key(held, tensors, attributes, depth + 1))
    if kind is types.MethodType:
        bound = value.__func__, value.__self__
        return (kind, _value_key(bound, tensors, attributes, depth + 1))
    if kind is type and value in _BUILTINS or isinstance(value, _FUNCTIONS) and _is_known(value):
        return id(value)
    package = kind.__module__.partition(".")[0]
    if package == "torch":
        if kind.__name__ in ("dtype", "device", "layout"):
            return kind, value
        if hasattr(value, "requires_grad"):
            tensors.append(value)
            return kind, _signature_of(value)
    if package == "numpy" and kind.__name__ == "ufunc":
        return id(value)
    if package == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return kind, value.dtype.str, value.tobytes()  # a number
    _refuse()


def _signature_of(array: Any) -> Any:
    try:
        return signature_of(array)
    except Exception:  # of what no function can read, which tracing tells if one does
        _refuse()


def _is_known(function: Any) -> bool:
    return function in _BUILTINS or _is_of_package(function)
