"""One line that says how far the work is."""

import sys
import time


class Progress:
    """Overwrites its line on a terminal; elsewhere prints a line a step."""

    def __init__(self, total, stream=None):
        self._total, self._done = total, 0
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._start = time.monotonic()

    def step(self, text):
        """One more of `total` is done."""
        self._done += 1
        elapsed = time.monotonic() - self._start
        left = elapsed / self._done * (self._total - self._done)
        head = f"[{self._done}/{self._total}, {format_seconds(left)} left]"
        self._write(f"{head} {text}")

    def note(self, text):
        """A line that stays."""
        self._stream.write(
            ("\r\033[K" if self._is_terminal else "") + text + "\n"
        )
        self._stream.flush()

    def _write(self, text):
        if not self._is_terminal:
            return self.note(text)
        self._stream.write(f"\r\033[K{text[:118]}")
        self._stream.flush()

    def close(self):
        if self._is_terminal:
            self._stream.write("\n")


def format_seconds(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d}"
