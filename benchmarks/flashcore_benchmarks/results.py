"""The results file of flashcore-bench.

    {
      "format": "flashcore-bench", "version": 2,
      "settings": {"seed": 0, "dtype": "f16", "chip": "sm_89"},
      "card": {"name": ..., "chip": ..., "peaks": {"mma_tflops": ...,
               "dram_gbs": ..., "source": ...} or null, ...},
      "notes": [what could not be done, in words],
      "variants": {CONTENDER: its options of flashcore-compile}, if there are any,
      "problems": {NAME: {
        "problem": {the fields of problems.Problem},
        "date": when it was timed (UTC),
        "bundles": {CONTENDER: checksum of its PTX},
        "contenders": {CONTENDER: {
          "us": {"median": ..., "min": ..., "max": ..., "rounds": [...]},
          "tflops": ..., "gbs": ...,
          "roofline": {"fraction": ..., "bound": "tensor" or "dram"} or null,
          "error": {"max": ..., "yardstick": ..., "ratio": ...},
          "calls_per_replay": ..., "code": ..., "kernels": [...]}},
        "refused": {CONTENDER: why},
        "lost": [those of `refused` that ended their process],
        "conditions": [a round: {"sm_mhz": ..., "memory_mhz": ...,
                       "power_w": ..., "temperature_c": ..., "throttle": [...]}]
      }}
    }

Times are microseconds of one call on the device. `error.max` is the largest
difference of O from the f32 reference, `yardstick` that of the same formula in
the input precision; a ratio over 2 fails. Numbers that are not finite are
written as null.

A compact file (docs/figures/bench.json, hopper.json) is what compact() leaves
of one: what was measured, with the conditions of all rounds together and those
of each problem. read() adds what follows from it, so that tables and plots are
made of either.
"""

import collections
import dataclasses
import json
import os
import pathlib
import shlex
import statistics

from . import roofline
from .errors import UserError
from .package import finite
from .problems import Problem

FORMAT, VERSION = "flashcore-bench", 2
ERROR_LIMIT = 2.0
# Name and unit of the conditions that conditions() sums up.
QUANTITIES = {
    "sm_mhz": ("SM clock", "MHz"),
    "power_w": ("power", "W"),
    "temperature_c": ("temperature", "C"),
}


def empty():
    """Results without any."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": {},
        "card": {},
        "notes": [],
        "problems": {},
    }


class Results:
    """The file at `path`, read where it exists; save() writes it whole."""

    def __init__(self, path, is_fresh=False):
        self.path = pathlib.Path(path)
        self.data = empty()
        if self.path.exists() and not is_fresh:
            self.data = read(self.path)

    def begin(self, settings, card):
        """Says what the coming rows are made with; rows of other settings or
        another card do not compare with them."""
        if self.data["problems"]:
            pairs = [
                (k, self.data["settings"].get(k), v)
                for k, v in settings.items()
            ]
            pairs.append(("card", self.data["card"].get("name"), card["name"]))
            for key, old, new in pairs:
                if old != new:
                    raise UserError(
                        f"'{self.path}' was made with {key} {old}, but this run "
                        f"has {new}: use --fresh, or another folder with --out"
                    )
        self.data["settings"] = dict(settings)
        if self.data["card"].get("name") != card["name"]:
            self.data["card"] = {}
        self.data["card"] |= card

    def is_finished(self, problem, bundles, peers):
        """Whether these contenders were timed, with the same kernels. Where
        none was, the device itself failed."""
        entry = self.data["problems"].get(problem.name)
        if not entry or not entry["contenders"]:
            return False
        answered = entry["contenders"].keys() | entry["refused"].keys()
        return entry["bundles"] == bundles and answered >= {*bundles, *peers}

    def describe_variants(self, variants):
        """Options by contender, of this run and of those that it continues."""
        if variants:
            texts = {name: shlex.join(each) for name, each in variants.items()}
            self.data["variants"] = self.data.get("variants", {}) | texts

    def note(self, text):
        if text and text not in self.data["notes"]:
            self.data["notes"].append(text)

    def save(self):
        write_json(self.path, self.data)


def write_json(path, data):
    """Replaces the file at once, so that an interrupted run leaves the old
    one."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    text = json.dumps(finite(data), indent=1, allow_nan=False)
    temporary.write_text(text + "\n")
    os.replace(temporary, path)


def write_compact(path, data):
    """A problem a line, so that a diff of two runs shows which differ."""
    head = {key: value for key, value in data.items() if key != "problems"}
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    rows = [
        f"{json.dumps(name)}: {json.dumps(entry)}"
        for name, entry in data["problems"].items()
    ]
    lines.append('"problems": {\n' + ",\n".join(rows) + "\n}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path):
    try:
        data = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}")
    except ValueError as error:
        raise UserError(f"'{path}' is not JSON: {error}")
    found = (
        (data.get("format"), data.get("version"))
        if isinstance(data, dict)
        else (None, None)
    )
    if found != (FORMAT, VERSION):
        raise UserError(
            f"'{path}': expects results of {FORMAT}, version {VERSION}, but got "
            f"format {found[0]}, version {found[1]}"
        )
    _add_rates(data)
    return data


def _add_rates(data):
    """To the contenders of a compact file, which has times alone."""
    peaks = data["card"].get("peaks")
    for entry in data["problems"].values():
        for contender in entry["contenders"].values():
            if "tflops" not in contender:
                us = contender["us"]["median"]
                contender |= roofline.rates(problem_of(entry), us, peaks)


def problem_of(entry):
    return Problem(**entry["problem"])


def describe(problem):
    """As JSON has it, which knows no tuples."""
    fields = dataclasses.asdict(problem)
    return {name: _as_json(value) for name, value in fields.items()}


def _as_json(value):
    return list(value) if isinstance(value, tuple) else value


def conditions(data):
    """Of all rounds that were watched: their number, median, least and most of
    the QUANTITIES, and how many the card was held back in, by reason."""
    if "conditions" in data:
        return data["conditions"]
    seen = [
        c
        for entry in data["problems"].values()
        for c in entry["conditions"]
        if c
    ]
    summary = {"rounds": len(seen)}
    for key in QUANTITIES:
        values = [c[key] for c in seen if key in c]
        if values:
            summary[key] = {
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
            }
    if any("throttle" in c for c in seen):
        reasons = (r for c in seen for r in c.get("throttle", ()))
        summary["throttle"] = dict(collections.Counter(reasons))
    return summary


def problem_conditions(entry):
    """Those of one problem that were watched: the clock's median over its
    rounds, and the power in the last of them. nvidia-smi's power is a mean over
    a second, so that of the first is what there was before."""
    seen = entry.get("conditions") or {}
    if isinstance(seen, dict):  # of a compact file
        return seen
    clocks = [c["sm_mhz"] for c in seen if "sm_mhz" in c]
    powers = [c["power_w"] for c in seen if "power_w" in c]
    found = {"sm_mhz": statistics.median(clocks)} if clocks else {}
    return found | ({"power_w": powers[-1]} if powers else {})


def compact(data, contenders):
    """What tables and plots of these contenders need."""
    kept = ("format", "version", "settings", "card", "notes", "variants")
    return {key: data[key] for key in kept if key in data} | {
        "conditions": conditions(data),
        "problems": {
            name: _compact_entry(entry, contenders)
            for name, entry in data["problems"].items()
        },
    }


def _compact_entry(entry, contenders):
    plain = {f.name: f.default for f in dataclasses.fields(Problem)}
    conditions = problem_conditions(entry)
    return {
        "problem": {
            name: value
            for name, value in describe(problem_of(entry)).items()
            if value != _as_json(plain[name])
        },
        "date": entry["date"],
        "contenders": {
            name: _compact_times(entry["contenders"][name])
            for name in contenders
            if name in entry["contenders"]
        },
        "refused": {},
    } | ({"conditions": conditions} if conditions else {})


def _compact_times(contender):
    """With two more decimals than tables show."""
    us, error = contender["us"], contender["error"]["ratio"]
    return {
        "us": {key: round(us[key], 4) for key in ("median", "min", "max")},
        "error": {"ratio": error and round(error, 4)},
    }


def passes(error):
    """FlashAttention's criterion."""
    return error["ratio"] is not None and error["ratio"] <= ERROR_LIMIT


def describe_wrong(error):
    """Why a result does not pass."""
    if error["ratio"] is None or error["ratio"] != error["ratio"]:
        return "its result is NaN or infinite"
    return (
        f"its result is wrong: an error of {error['ratio']:.1f} times that of plain "
        f"attention, where {ERROR_LIMIT:.0f} is allowed"
    )


def report_failures(data):
    """The exit code: 1 if a result of ours was wrong, or a kernel of ours ended
    its process."""
    failed = [
        name
        for entry in data["problems"].values()
        for name, contender in entry["contenders"].items()
        if not passes(contender["error"])
    ]
    for entry in data["problems"].values():
        failed += entry["lost"]
    return int(any(name.startswith("flashcore") for name in failed))
