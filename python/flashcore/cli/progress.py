"""A line on the error stream about what takes more than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Optional, Type

__all__ = ["Progress"]


class Progress:
    """Says what is being done, from the first second on; takes the line away
    at the end. Silent unless the error stream is a terminal.

    with Progress("compiling") as progress: ...
    """

    DELAY = 1.0
    INTERVAL = 0.1

    def __init__(self, text: str, silent: bool = False) -> None:
        self._text = text
        self._silent = silent or not sys.stderr.isatty()
        self._start = time.monotonic()
        self._ends = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def say(self, text: str) -> None:
        """What is being done now."""
        self._text = text

    def __enter__(self) -> Progress:
        if not self._silent:
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._ends.set()
        if self._thread:
            self._thread.join()

    def _show(self) -> None:
        if self._ends.wait(self.DELAY):
            return
        while True:
            seconds = time.monotonic() - self._start
            sys.stderr.write(f"\r\033[K{self._text[:100]} ({seconds:.0f} s)")
            sys.stderr.flush()
            if self._ends.wait(self.INTERVAL):
                break
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
