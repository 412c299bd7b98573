"""Masks that are timed: as a region, and as a function of queries and keys."""
from typing import Callable, NamedTuple, Optional


class Mask(NamedTuple):
    """`body` computes %visible of query %i and key %j; None for a dense attention.
    `shows` says the same of arrays of queries q and keys k, which broadcast."""

    shows: Callable
    body: Optional[str]


_DISTANCE = """%distance = arith.subi %i, %j : index
    %size = math.absi %distance : index"""
MASKS = {
    "dense": Mask(lambda q, k: (q >= 0) & (k >= 0), None),
    "causal": Mask(lambda q, k: k <= q, "%visible = arith.cmpi sle, %j, %i : index"),
    "window-1024": Mask(lambda q, k: (k <= q) & (q - k <= 1024), f"""{_DISTANCE}
    %left = arith.constant 1024 : index
    %near = arith.cmpi sle, %distance, %left : index
    %past = arith.cmpi sle, %j, %i : index
    %visible = arith.andi %near, %past : i1"""),
    "block-diagonal-1024": Mask(lambda q, k: q // 1024 == k // 1024, """%edge = arith.constant 1024 : index
    %x = arith.divsi %i, %edge : index
    %y = arith.divsi %j, %edge : index
    %visible = arith.cmpi eq, %x, %y : index"""),
    "global-64-local-256": Mask(lambda q, k: (abs(q - k) <= 256) | (k < 64) | (q < 64), f"""{_DISTANCE}
    %reach = arith.constant 256 : index
    %first = arith.constant 64 : index
    %local = arith.cmpi sle, %size, %reach : index
    %key = arith.cmpi slt, %j, %first : index
    %query = arith.cmpi slt, %i, %first : index
    %global = arith.ori %key, %query : i1
    %visible = arith.ori %local, %global : i1"""),
    "prefix-1024": Mask(lambda q, k: (k < 1024) | (k <= q), """%prefix = arith.constant 1024 : index
    %x = arith.cmpi slt, %j, %prefix : index
    %y = arith.cmpi sle, %j, %i : index
    %visible = arith.ori %x, %y : i1"""),
    "sink-4-window-1024": Mask(lambda q, k: ((q - k <= 1024) | (k < 4)) & (k <= q), f"""{_DISTANCE}
    %left = arith.constant 1024 : index
    %sinks = arith.constant 4 : index
    %near = arith.cmpi sle, %distance, %left : index
    %first = arith.cmpi slt, %j, %sinks : index
    %kept = arith.ori %near, %first : i1
    %past = arith.cmpi sle, %j, %i : index
    %visible = arith.andi %kept, %past : i1"""),
}


def with_mask(words, mask):
    """The attention with the mask as a region."""
    if not mask.body:
        return words
    return f"""{words} mask={{
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    {mask.body}
    flashcore.yield %visible : i1
  }}"""
