"""The results file of flashcore-bench.

    {
      "format": "flashcore-bench", "version": 2,
      "settings": {"seed": 0, "dtype": "f16", "chip": "sm_89"},
      "card": {"name": ..., "chip": ..., "peaks": {"mma_tflops": ...,
               "dram_gbs": ..., "source": ...} or null, ...},
      "notes": [what could not be done, in words],
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
"""

import dataclasses
import json
import math
import os
import pathlib

from .errors import UserError
from .problems import Problem

FORMAT, VERSION = "flashcore-bench", 2
ERROR_LIMIT = 2.0


class Results:
    """The file at `path`, read where it exists; save() writes it whole."""

    def __init__(self, path, is_fresh=False):
        self.path = pathlib.Path(path)
        self.data = {
            "format": FORMAT,
            "version": VERSION,
            "settings": {},
            "card": {},
            "notes": [],
            "problems": {},
        }
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
    text = json.dumps(_finite(data), indent=1, allow_nan=False)
    temporary.write_text(text + "\n")
    os.replace(temporary, path)


def _finite(value):
    """The value with null for every number that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
    return data


def problem_of(entry):
    return Problem(**entry["problem"])


def describe(problem):
    """As JSON has it, which knows no tuples."""
    fields = dataclasses.asdict(problem)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
    }


def passes(error):
    """FlashAttention's criterion."""
    return error["ratio"] is not None and error["ratio"] <= ERROR_LIMIT
