"""Findings of the emulator: mistakes of kernels, as its reports have them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

__all__ = ["Finding", "Place", "read_finding", "read_findings"]


@dataclass(frozen=True)
class Place:
    """Who did something: a line of the PTX, a CTA, a warp and its lanes.

    lanes: bit i stands for lane i.
    source: file and line of the program that the PTX was made from, if known.
    text: that line of the PTX.
    """

    line: int
    cta: Tuple[int, int, int]
    warp: int
    lanes: int
    source: str = ""
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """A mistake of a kernel.

    check: which one found it: "memory", "init", "race", "async", "sync" or
        "layout".
    kind: such as "out-of-bounds".
    message: what happened.
    place: who did it; other: the other party of a race, or a copy in flight.
    rule: the sentence of the PTX ISA that was broken.
    count: how often the same instruction did it.
    address, bytes: what was accessed.
    """

    check: str
    kind: str
    message: str
    place: Optional[Place]
    other: Optional[Place]
    rule: str
    count: int
    address: int
    bytes: int


def read_findings(report: str) -> Tuple[Finding, ...]:
    """Those of a report of the emulator, which is JSON."""
    return tuple(read_finding(entry) for entry in json.loads(report)["findings"])


def read_finding(entry: Dict[str, Any]) -> Finding:
    """One of them, or a note, which has the same fields."""
    return Finding(
        entry["check"],
        entry["kind"],
        entry["message"],
        _place(entry.get("place")),
        _place(entry.get("other")),
        entry.get("rule", ""),
        entry.get("count", 1),
        entry.get("address", 0),
        entry.get("bytes", 0),
    )


def _place(entry: Optional[Dict[str, Any]]) -> Optional[Place]:
    if not entry:
        return None
    x, y, z = entry["cta"]
    return Place(
        entry["line"],
        (x, y, z),
        entry["warp"],
        entry.get("lanes", 0),
        entry.get("source", ""),
        entry.get("text", ""),
    )
