"""The options of an attention: those of a call, checked, as kernels have them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple, Union

from flashcore.kinds import CHOICE, describe, expect_one_of, read
from flashcore.problem import FEW_QUERIES, Schedule, schedule_of

if TYPE_CHECKING:
    from flashcore.tensors import Tensor

__all__ = [
    "DEVICES", "LAYOUTS", "STAGES", "Further", "Options", "Window", "has_few_queries", "is_positive",
    "is_share", "make_options", "options_beside", "read_causal", "read_dropout", "read_window",
    "round_to_float32", "without_gradients",
]  # fmt: skip

LAYOUTS = ("bhsd", "bshd")
DEVICES = (None, "cuda", "emulator", "reference")
#: Of scores that are returned.
STAGES = ("scaled", "capped", "changed", "masked", "probabilities")

Window = Union[None, int, Tuple[Optional[int], Optional[int]]]


class Further(NamedTuple):
    """What a problem says of such arguments (:class:`flashcore.Problem`)."""

    operands: Tuple[str, ...]
    regions: Tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """The options of a call, checked."""

    causal: Optional[str] = None
    window_left: Optional[int] = None
    window_right: Optional[int] = None
    softcap: Optional[float] = None
    scale: Optional[float] = None
    lse: bool = False
    layout: str = "bhsd"
    schedule: Schedule = ()
    device: Optional[str] = None
    static: bool = False
    refuses_gradients: bool = True
    #: Of P; its words are among ``captured``.
    dropout: Optional[float] = None
    #: Of clauses, score_mod and mask_mod, with the places of the tensors that they read.
    further: "Optional[Further]" = None
    captured: "Tuple[Tensor, ...]" = ()
    #: The word of lists of blocks, such as "128x128:11"; they are among ``captured``.
    blocks: Optional[str] = None
    #: The stage of scores that are returned, or None.
    scores: Optional[str] = None
    #: Which columns a rotary embedding pairs.
    rotary_interleaved: bool = False
    #: Whether sequences back to back have few queries each; None: as their mean says.
    has_few_queries: Optional[bool] = None

    @property
    def needs_lse(self) -> bool:
        """Whether the kernel writes it: probabilities are made of it."""
        return self.lse or self.scores == "probabilities"


def without_gradients(options: Options) -> Options:
    """For callers that see to gradients themselves, such as a custom op."""
    return replace(options, refuses_gradients=False)


def make_options(
    causal: Union[bool, str] = False,
    window: Window = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    lse: bool = False,
    layout: str = "bhsd",
    schedule: Any = None,
    device: Optional[str] = None,
    static: bool = False,
    scores: Optional[str] = None,
) -> Options:
    """Checks the options of :func:`flashcore.attention`."""
    left, right = read_window(window)
    return Options(
        read_causal(causal),
        left,
        right,
        read_positive("softcap", softcap),
        read_positive("scale", scale),
        read("lse", lse),
        expect_one_of("layout", layout, LAYOUTS),
        schedule_of(schedule),
        expect_one_of("device", device, DEVICES),
        read("static", static),
        scores=expect_one_of("scores", scores, (None, *STAGES)),
    )


#: A program with more sets of options starts over.
_MAX_OPTIONS = 1024
#: Types of options that never change, and are the same where they are equal and of one type.
_PLAIN = frozenset((type(None), bool, int, float, str))
#: Options of :func:`options_beside` that were checked before, by their values and types.
_known_options: Dict[Any, Options] = {}


def options_beside(window: Window, *others: Any) -> Options:
    """The options of a call with functions or clauses.

    others: the other arguments of :func:`make_options`, in its order, then dropout,
        rotary_interleaved and has_few_queries as :class:`Options` has them.

    To check them takes longer than all else of a call whose options were seen before.
    """
    sides = window if type(window) is tuple else (window,)
    kinds = tuple(map(type, (*sides, *others)))
    if not _PLAIN.issuperset(kinds):
        return _make_options_beside(window, *others)
    key = window, others, kinds
    options = _known_options.get(key)
    if options is None:
        options = _make_options_beside(window, *others)
        if len(_known_options) >= _MAX_OPTIONS:
            _known_options.clear()
        _known_options[key] = options
    return options


def _make_options_beside(window: Window, causal: Any, *others: Any) -> Options:
    *given, dropout, rotary_interleaved, has_few_queries = others
    return replace(
        make_options(causal, window, *given),
        dropout=dropout,
        rotary_interleaved=rotary_interleaved,
        has_few_queries=has_few_queries,
    )


def read_causal(causal: object) -> Optional[str]:
    """The alignment of a causal mask, or None. PyTorch traces it."""
    allowed = (False, True, "bottom_right", "top_left")
    choice = expect_one_of("causal", causal, allowed, CHOICE)
    if isinstance(choice, str):
        return choice
    return "bottom_right" if choice else None


def read_window(window: Any) -> Tuple[Optional[int], Optional[int]]:
    """Keys to the left and right; None is unbounded. PyTorch traces it."""
    sides = window if isinstance(window, (tuple, list)) else (window, None)
    if len(sides) != 2:
        raise ValueError(
            f"expects window to be keys or (left, right), but got {describe(window)}"
        )
    left, right = (_read_bound(side, window) for side in sides)
    return left, right


def _read_bound(side: Any, window: object) -> Optional[int]:
    keys: Optional[int] = read("window", side, whole=window)
    if keys is None:
        return None
    if keys < -1:
        raise ValueError(f"expects window to be at least 0, or -1 for no bound, but got {window!r}")
    return None if keys == -1 else keys


#: The least that kernels do not take for 0.
_LEAST_NORMAL = 2.0**-126


def read_positive(name: str, value: Any) -> Optional[float]:
    """As kernels have it, in f32."""
    number = rounded = math.inf
    try:
        given = read(name, value)
        if given is None:
            return None
        number = float(given)
        rounded = round_to_float32(number)
    except OverflowError:
        pass
    if 0 < rounded < _LEAST_NORMAL:
        raise ValueError(
            f"expects {name} to be a positive number of float32 that is normal, of at least "
            f"2^-126 (1.1754944e-38), or None, but got {number!r}"
        )
    if not 0 < rounded < math.inf:
        raise ValueError(
            f"expects {name} to be a positive number of float32, or None, but got {value!r}"
        )
    return number


def is_positive(number: Any) -> bool:
    """Whether kernels have such a scale."""
    try:
        read_positive("scale", number)
    except ValueError:
        return False
    return True


def round_to_float32(number: Any) -> float:
    """As kernels have numbers of the host."""
    return float(struct.unpack("f", struct.pack("f", float(number)))[0])


def is_share(dropout_p: float) -> bool:
    """Whether kernels drop such a share."""
    return 2**-17 <= round_to_float32(dropout_p) < 1 - 2**-17


def read_dropout(dropout_p: Any, rng: Any) -> Optional[float]:
    """As the kernel has it, in f32, of which it takes a multiple of 2^-16. None for 0."""
    number = read("dropout_p", dropout_p)
    if number == 0:
        return None
    try:
        share = round_to_float32(number)
    except OverflowError:
        share = math.inf
    if not is_share(share):
        raise ValueError(
            f"expects dropout_p to be 0, or from 2^-17 to below 1 - 2^-17, but got {dropout_p!r}"
        )
    if rng is None:
        raise ValueError(
            f"expects rng, seed and offset of int64 (2,), with dropout_p {dropout_p!r}, but got "
            "None"
        )
    return share


def has_few_queries(max_seqlen_q: Any, cu_seqlens_q: Any) -> Optional[bool]:
    """What the caller says of sequences back to back; None for nothing."""
    if max_seqlen_q is None:
        return None
    if cu_seqlens_q is None:
        raise ValueError(
            f"expects no max_seqlen_q without cu_seqlens_q, but got {max_seqlen_q}: the axis of "
            "q says how many queries there are"
        )
    return bool(read("max_seqlen_q", max_seqlen_q) <= FEW_QUERIES)
