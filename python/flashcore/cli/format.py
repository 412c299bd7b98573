"""Sizes and times as text, and back."""

from __future__ import annotations

import time

__all__ = ["age_text", "size_text"]


def size_text(count: int) -> str:
    """Bytes: "51.2 MiB"."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def age_text(moment: float) -> str:
    """How long ago a moment in seconds since 1970 was: "3 h ago"."""
    seconds = max(0.0, time.time() - moment)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
