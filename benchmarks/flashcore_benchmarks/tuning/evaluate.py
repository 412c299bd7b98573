"""What can be said of a schedule without timing it.

A kernel that ptxas makes spill, or whose accesses the emulator finds wasteful,
is not worth the card's time. Errors are those flashcore-run finds, on the GPU
or, where there is none, on the emulator.
"""

import dataclasses
import json
import pathlib

from ..package import read
from ..toolchain import Refused, attention
from . import schedules

MAX_SPILL_BYTES = 100
# Wavefronts above the ideal are bank conflicts.
MAX_CONFLICT_SHARE = 0.01
# Of the wavefronts a product, as a multiple of the default schedule's.
MAX_WAVEFRONTS = 2.5
# The longest sequences of queries and keys that are run on the emulator, and
# that errors are checked on by a GPU. They are no multiples of a tile.
EMULATED_SIZES = (70, 150)
CHECKED_SIZES = (1000, 1023)


@dataclasses.dataclass
class Candidate:
    """A schedule and what became of it. `status` is `refused` (by the
    compiler), `rejected` (by its resources or counters) or `good`."""

    schedule: dict
    status: str = "good"
    reason: str = ""
    bundle: pathlib.Path = None
    resources: dict = dataclasses.field(default_factory=dict)

    def reject(self, reason, status="rejected"):
        self.status, self.reason = status, reason
        return self

    def record(self):
        """For the state file."""
        return {
            "schedule": self.schedule,
            "status": self.status,
            "reason": self.reason,
            "resources": self.resources,
        }


class Evaluator:
    """Compiles and examines schedules for one problem. Errors are checked on
    `device` of flashcore-run."""

    def __init__(self, toolchain, problem, folder, chip, device):
        self._toolchain, self._problem = toolchain, problem
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._chip = chip
        self._device = device
        self._reference = None

    @property
    def notes(self):
        if self._toolchain.has_ptxas:
            return []
        return ["no ptxas: registers and spills are not known"]

    def default_schedule(self, fields, forced=()):
        """What the compiler chooses, beside the options `forced`."""
        arguments = ["--emit=mlir", "--explain", f"--chip={self._chip}"]
        result = self._toolchain.run_compiler(
            self._problem.text(attention), [*arguments, *forced]
        )
        if result.returncode:
            raise Refused(result.stderr.strip())
        return schedules.parse_explanation(result.stderr, fields)

    def examine(self, schedule, name):
        """A Candidate, its bundle called `name`."""
        candidate = Candidate(schedule, bundle=self._folder / f"{name}.fcb")
        try:
            self._compile(self._problem, schedule, candidate.bundle, True)
            small = self._folder / f"{name}-count.fcb"
            reduced = reduce(self._problem, EMULATED_SIZES)
            self._compile(reduced, schedule, small)
        except Refused as error:
            return candidate.reject(first_error(str(error)), "refused")
        candidate.resources = resources(read(candidate.bundle))
        spills = candidate.resources.get("spill_stores", 0)
        if spills > MAX_SPILL_BYTES:
            return candidate.reject(
                f"spills {spills} bytes, more than {MAX_SPILL_BYTES}"
            )
        return self._count_accesses(candidate, small)

    def set_reference(self, candidate):
        """The default schedule, whose wavefronts others are compared with."""
        self._reference = candidate

    def _compile(self, problem, schedule, path, assemble=False):
        arguments = [f"--chip={self._chip}", *schedules.options(schedule)]
        if not assemble or not self._toolchain.has_ptxas:
            arguments.append("--no-cubin")
        self._toolchain.compile(problem.text(attention), path, arguments)

    def _count_accesses(self, candidate, path):
        bundle = read(path)
        totals = dict.fromkeys(
            ("shared_wavefronts", "shared_wavefronts_ideal", "mma"), 0
        )
        for options in emulator_runs(bundle):
            result = self._toolchain.run(
                "emu", [bundle.ptx, *options, "--stats", "json"]
            )
            if result.returncode:
                text = (result.stdout + result.stderr).strip()
                return candidate.reject(f"the emulator finds: {text[:200]}")
            counters = json.loads(result.stdout)["counters"]
            for name in totals:
                totals[name] += counters[name]
        candidate.resources |= totals
        ideal = totals["shared_wavefronts_ideal"]
        conflicts = totals["shared_wavefronts"] - ideal
        if conflicts > MAX_CONFLICT_SHARE * ideal:
            return candidate.reject(
                f"{conflicts} wavefronts of bank conflicts beside {ideal}"
            )
        return self._compare_wavefronts(candidate)

    def _compare_wavefronts(self, candidate):
        def ratio(resources):
            return resources["shared_wavefronts"] / max(1, resources["mma"])

        if self._reference is None or "mma" not in self._reference.resources:
            return candidate
        times = ratio(candidate.resources) / ratio(self._reference.resources)
        if times > MAX_WAVEFRONTS:
            return candidate.reject(
                f"{times:.1f} times the default's shared-memory wavefronts a "
                f"product, more than {MAX_WAVEFRONTS}"
            )
        return candidate

    def check_errors(self, candidate, draws):
        """The largest error of O on normal and on rising inputs, as a share of
        what is allowed, or None where a run failed; and what it said."""
        name = candidate.bundle.stem
        sizes = EMULATED_SIZES if self._device == "emulator" else CHECKED_SIZES
        bundle = self._folder / f"{name}-check.fcb"
        reduced = reduce(self._problem, sizes)
        try:
            self._compile(reduced, candidate.schedule, bundle)
        except Refused as error:
            return None, first_error(str(error))
        grid = self._folder / f"{name}-check.json"
        entries = [
            {"bundle": bundle.name, "kind": kind, "seed": i + 1}
            for kind in ("normal", "rising")
            for i in range(draws)
        ]
        grid.write_text(json.dumps(entries))
        answer = self._folder / f"{name}-errors.json"
        answer.unlink(missing_ok=True)
        result = self._toolchain.run(
            "run", ["--grid", grid, "--device", self._device, "--json", answer]
        )
        if not answer.exists():
            return None, (result.stderr or result.stdout).strip()
        return worst_errors(json.loads(answer.read_text()))


def worst_errors(runs):
    """What check_errors returns, from the JSON of flashcore-run."""
    shares, texts = {}, []
    for run in runs:
        if run["result"] != "PASS":
            texts.append(run.get("error", "its error is too large"))
        elif "o" in run:
            share = run["o"]["error"] / run["o"]["allowed"]
            shares[run["kind"]] = max(share, shares.get(run["kind"], 0.0))
    return (None if texts else shares), "; ".join(dict.fromkeys(texts))


def reduce(problem, sizes):
    """The same problem with fewer rows, batches and heads, on dense tensors. A
    single query keeps its heads: the largest error of a few rows is a matter
    of luck."""
    group = problem.heads_q // problem.heads_kv
    heads_kv = problem.heads_kv if problem.seqlen_q == 1 else 1
    return dataclasses.replace(
        problem,
        batch=1,
        heads_q=group * heads_kv,
        heads_kv=heads_kv,
        seqlen_q=min(problem.seqlen_q, sizes[0]),
        seqlen_k=min(problem.seqlen_k, sizes[1]),
        source=None,
    )


def emulator_runs(bundle):
    """For each kernel the options of flashcore-emu that run it on dense
    tensors: random inputs and workspace, poisoned outputs."""
    sizes = bundle.sizes()
    pointers = {
        name: tensor.emulator_argument(
            sizes, "poison" if tensor.is_output else f"randn:{number}"
        )
        for number, (name, tensor) in enumerate(bundle.tensors.items(), 1)
    }
    floats = -(-bundle.workspace_bytes(sizes) // 4)
    pointers["workspace"] = f"f32[{floats}]:randn:{len(pointers) + 1}"
    pointers |= bundle.emulator_copies(sizes, "randn:1")
    return [
        launch.emulator_options(pointers) for launch in bundle.launches(sizes)
    ]


def resources(bundle):
    """What ptxas said of a bundle's kernels: the worst of each."""
    reports = [k.resources for k in bundle.kernels if k.resources]
    names = ("registers", "spill_stores", "spill_loads")
    worst = {n: max(getattr(r, n) for r in reports) for n in names if reports}
    shared = max(k.dynamic_shared_memory for k in bundle.kernels)
    return worst | {"shared_bytes": shared}


def first_error(text):
    """The message of a diagnostic, without its place and source line."""
    line = next((li for li in text.splitlines() if "error: " in li), text)
    return line.split("error: ", 1)[-1]
