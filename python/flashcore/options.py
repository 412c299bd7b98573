"""The options of an attention: those of a call, checked, as kernels have them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Optional, Tuple, Union, get_args

from flashcore.kinds import CHOICE, describe, expect_one_of, read
from flashcore.operands import ENDS
from flashcore.problem import FEW_QUERIES, Schedule, schedule_of, schedule_with

__all__ = [
    "DEVICES", "LAYOUTS", "STAGES", "CaptureKind", "Causal", "Device", "Layout", "Mods", "Options", "Stage", "Window",
    "has_few_queries", "is_scale", "is_share", "make_options", "read_block_size", "read_causal", "read_dropout", "read_window", "round_to_float32",
    "without_gradients",
]  # fmt: skip

Causal = Union[bool, Literal["bottom_right", "top_left"]]
Layout = Literal["bhsd", "bshd"]
Device = Literal["cuda", "emulator", "reference"]
#: Of scores that are returned.
Stage = Literal["scaled", "capped", "changed", "masked", "probabilities"]

LAYOUTS: Tuple[str, ...] = get_args(Layout)
DEVICES: Tuple[Optional[str], ...] = (None, *get_args(Device))
STAGES: Tuple[str, ...] = get_args(Stage)

Window = Union[None, int, Tuple[Optional[int], Optional[int]]]


class CaptureKind(NamedTuple):
    """What is known of a tensor that functions read, whatever its memory.

    dtype: its own.
    converted: what its elements are converted to at each call; None for none.
    """

    dtype: str
    rank: int
    converted: Optional[str]
    is_backwards: bool


#: What functions became: the words of a problem, and the fields of a CaptureKind for each
#: tensor that they read. Of tuples and text alone, so that ``_core.Calls`` tells it from others.
Mods = Tuple[Tuple[str, ...], Tuple[Tuple[Any, ...], ...]]


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
    #: The stage of scores that are returned, or None.
    scores: Optional[str] = None
    #: Of P; its words are the argument ``rng``.
    dropout: Optional[float] = None
    #: Which columns a rotary embedding pairs.
    rotary_interleaved: bool = False
    #: Whether sequences back to back have few queries each; None: as their mean says.
    has_few_queries: Optional[bool] = None
    #: Queries and keys of the blocks of lists.
    block_size: Optional[Tuple[int, int]] = None
    #: What score_mod and mask_mod became.
    regions: Tuple[str, ...] = ()
    captures: Tuple[CaptureKind, ...] = ()
    #: Whether arrays of rows come, and results go, without the axis of a batch of one.
    without_batch: bool = False

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
    batch_invariant: bool = False,
    scores: Optional[str] = None,
    dropout_p: float = 0.0,
    rotary_interleaved: bool = False,
    has_few_queries: Optional[bool] = None,
    block_size: Any = None,
    mods: Optional[Mods] = None,
) -> Options:
    """Checks the options of :func:`flashcore.attention`.

    has_few_queries: what :func:`has_few_queries` says of max_seqlen_q.
    block_size: that of the argument block_mask.
    mods: of score_mod and mask_mod.
    """
    left, right = read_window(window)
    regions, captures = mods or ((), ())
    return Options(
        read_causal(causal),
        left,
        right,
        read_positive("softcap", softcap),
        read_positive("scale", scale),
        read("lse", lse),
        expect_one_of("layout", layout, LAYOUTS),
        schedule_of(schedule_with(schedule, batch_invariant)),
        expect_one_of("device", device, DEVICES),
        read("static", static),
        scores=expect_one_of("scores", scores, (None, *STAGES)),
        dropout=read_dropout(dropout_p),
        rotary_interleaved=read("rotary_interleaved", rotary_interleaved),
        has_few_queries=has_few_queries,
        block_size=None if block_size is None else read_block_size(block_size),
        regions=regions,
        captures=tuple(CaptureKind(*kind) for kind in captures),
    )


#: What the sizes of blocks in lists are multiples of, and their largest.
_BLOCK_UNIT, _MOST_OF_BLOCK = 16, 65536


def read_block_size(block_size: Any) -> Tuple[int, int]:
    """Queries and keys of a block."""
    sizes = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    sizes = [read("block_size", size, whole=block_size) for size in sizes]
    if len(sizes) != 2 or any(s % _BLOCK_UNIT or not 0 < s <= _MOST_OF_BLOCK for s in sizes):
        raise ValueError(
            f"expects blocks of queries and keys of multiples of {_BLOCK_UNIT} up to "
            f"{_MOST_OF_BLOCK}, but got {block_size!r}"
        )
    return sizes[0], sizes[1]


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


def is_scale(scale: Any) -> bool:
    """Whether kernels have such a number, which may be a symbol of a program that PyTorch traces."""
    if not isinstance(scale, (int, float)):
        return bool(scale > 0)
    try:
        read_positive("scale", scale)
    except ValueError:
        return False
    return True


def round_to_float32(number: Any) -> float:
    """As kernels have numbers of the host."""
    return float(struct.unpack("f", struct.pack("f", float(number)))[0])


def is_share(dropout_p: float) -> bool:
    """Whether kernels drop such a share: rounded to float32, 2^-17 to below 1 - 2^-17.

    PyTorch traces it: what rounds to either is within half a step of it.
    """
    return 2**-17 - 2**-42 <= dropout_p < 1 - 2**-17 - 2**-25


def read_dropout(dropout_p: Any) -> Optional[float]:
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
    return share


def has_few_queries(max_seqlen_q: Any, cu_seqlens_q: Any) -> Optional[bool]:
    """What the caller says of sequences back to back; None for nothing."""
    if max_seqlen_q is None:
        return None
    if cu_seqlens_q is None:
        raise ValueError(
            f"expects no max_seqlen_q without {ENDS[0]}, but got {max_seqlen_q}: the axis of "
            "q says how many queries there are"
        )
    longest = read("max_seqlen_q", max_seqlen_q)
    if longest < 0:
        raise ValueError(f"expects max_seqlen_q of at least 0, but got {longest}")
    return bool(longest <= FEW_QUERIES)
