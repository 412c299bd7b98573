"""Clock, power, temperature and throttle reasons, as nvidia-smi reports them.

nvidia-smi runs beside the measurements and prints a line every 100 ms. Where
it is missing or answers nothing, the rounds have no conditions, and `note`
says so.
"""

import shutil
import subprocess
import threading
import time

_FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_KEYS = ("sm_mhz", "memory_mhz", "power_w", "temperature_c")
# The second name is that of drivers before 535.
_REASON_FIELDS = (
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",
)
# Of nvml.h: nvmlClocksEventReason...
_REASONS = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}


def reasons_of(mask):
    """Names of the bits of a throttle mask; an idle card (bit 0) has none."""
    return [name for bit, name in _REASONS.items() if mask & bit]


def parse_line(line):
    """One line of nvidia-smi's CSV; fields it cannot read are left out, and a
    line that is none gives nothing."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_KEYS) + 1:
        return None
    sample = {}
    for key, cell in zip(_KEYS, cells):
        try:
            sample[key] = float(cell)
        except ValueError:
            pass
    try:
        sample["throttle"] = reasons_of(int(cells[-1], 16))
    except ValueError:
        pass
    return sample or None


def combine(samples):
    """What held during a round: means, and every reason that was seen."""
    result = {}
    for key in _KEYS:
        values = [sample[key] for sample in samples if key in sample]
        if values:
            result[key] = round(sum(values) / len(values), 1)
    reasons = [r for sample in samples for r in sample.get("throttle", ())]
    if any("throttle" in sample for sample in samples):
        result["throttle"] = sorted(set(reasons))
    return result


class Monitor:
    """A context manager around the measurements; `gpu` is what nvidia-smi
    takes as --id, an index or a UUID."""

    def __init__(self, gpu="0", interval_ms=100, executable=None):
        self.note = None
        self._gpu, self._interval = str(gpu), interval_ms
        self._executable = executable or shutil.which("nvidia-smi")
        self._samples, self._lock, self._process = [], threading.Lock(), None

    def __enter__(self):
        if not self._executable:
            self.note = "no nvidia-smi here: clocks and power are not recorded"
            return self
        field = next(
            (
                f
                for f in _REASON_FIELDS
                if parse_line(self._ask((*_FIELDS, f)) or "")
            ),
            None,
        )
        if not field:
            self.note = (
                "nvidia-smi answers no query here: clocks and power are "
                "not recorded"
            )
            return self
        self._process = subprocess.Popen(
            [*self._query((*_FIELDS, field)), f"--loop-ms={self._interval}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_):
        if self._process:
            self._process.terminate()
            self._process.wait()

    def card(self):
        """Driver and power limit, those that nvidia-smi knows."""
        keys = {"driver": "driver_version", "power_limit_w": "power.limit"}
        cells = self._ask(keys.values()) if self._executable else None
        return (
            dict(zip(keys, map(str.strip, cells.split(",")))) if cells else {}
        )

    def _query(self, fields):
        return [
            self._executable,
            f"--query-gpu={','.join(fields)}",
            "--format=csv,noheader,nounits",
            f"--id={self._gpu}",
        ]

    def _ask(self, fields):
        """One line of nvidia-smi, or None where it refuses."""
        try:
            result = subprocess.run(
                self._query(fields), capture_output=True, text=True, timeout=30
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout.strip() if result.returncode == 0 else None

    def _read(self):
        for line in self._process.stdout:
            sample = parse_line(line)
            if sample:
                with self._lock:
                    self._samples.append((time.monotonic(), sample))

    def during(self, start, end):
        """The conditions of a time span; a span shorter than the interval
        gets the last sample before its end."""
        with self._lock:
            inside = [s for when, s in self._samples if start <= when <= end]
            before = [s for when, s in self._samples[-20:] if when < start]
        return combine(inside or before[-1:])
