"""Compares two builds of the Python package, call by call.

Each build has a process of its own, which holds the graphs of a shape's default
call and of static=True. They replay in turn, in pairs of random order, so that
clock and heat drift for both; a row is the median of the pairs' ratios. A row
that got slower by more than 3 % is timed again before it counts.

  flashcore-bench regress --base FOLDER [--new FOLDER]

FOLDER is what `pip install --target FOLDER flashcore_attention-*.whl` fills; by
default the new build is the package that is installed. The exit code is 1 where
a row got slower, or is no longer right.
"""

import dataclasses
import functools
import pathlib
import random
import statistics
import sys

from . import results, rotation
from .cli import add_seed, positive_integer
from .compare import TIE, read_shape
from .errors import UserError
from .peers import CALLS
from .progress import Progress
from .report import table
from .timing import Request
from .worker import Lost, WorkerDevice

# Prompts of 16k tokens, small and middle grids, masks and scores, decoding.
SHAPES = (
    "b32 h32 s512 d64",
    "b8 h32 s2048 d64 causal",
    "b2 h32 s8192 d64",
    "b32 h16 s512 d128",
    "b8 h16 s2048 d128",
    "b2 h16 s8192 d128 causal",
    "b8 h8 s2048 d256 causal",
    "b1 h8 s512 d64",
    "b1 h8 s512 d64 causal",
    "b1 h12 s128 d64",
    "b8 h16 s256 d64",
    "b4 h12 s1024 d64",
    "b2 h8 s777 d64 causal",
    "b2 h12 s448x1500 d64",
    "b1 h16 s1024 d128",
    "b1 h48 s512 d128 causal",
    "b1 h32 s512 d128 window=256,0 causal",
    "b1 h32 s512 d64 softcap=30",
    "b1 h32 s512 d64 bias=1hqk",
    "b1 h32/8 s1x1024 d128",
    "b1 h32/8 s1x8192 d128",
    "b1 h32/8 s1x65536 d128",
    "b8 h32/8 s1x8192 d128",
    "b20 h32/8 s1x8192 d128",
    "b64 h32/8 s1x2048 d128",
)
PAIRS = 7
BUILDS = ("base", "new")


def add_arguments(parser):
    parser.add_argument(
        "--base",
        type=pathlib.Path,
        required=True,
        metavar="FOLDER",
        help="the package of the build to compare with",
    )
    parser.add_argument(
        "--new",
        type=pathlib.Path,
        metavar="FOLDER",
        help="the package of the new build (default: the one that is installed)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="WORDS",
        help="an attention in the words of flashcore-compile --shape, with every "
        f"size known; may be given several times (default: {len(SHAPES)} of them)",
    )
    parser.add_argument(
        "--pairs",
        type=positive_integer,
        default=PAIRS,
        help="replays of each build for a row (default: %(default)s)",
    )
    add_seed(parser)
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        metavar="FILE",
        help="also write the samples, as JSON",
    )


@dataclasses.dataclass
class Row:
    """A shape and one way to call it, with the microseconds of each pair."""

    shape: str
    call: str
    base: list
    new: list
    refused: dict = dataclasses.field(default_factory=dict)  # by build: why

    @property
    def ratio(self):
        """Of the new build's time to the old one's."""
        return statistics.median(n / b for n, b in zip(self.new, self.base))

    @property
    def verdict(self):
        if self.refused:
            return "; ".join(f"{b}: {why}" for b, why in self.refused.items())
        if self.ratio > 1 + TIE:
            return "slower"
        return "faster" if self.ratio < 1 - TIE else ""

    @property
    def is_regression(self):
        """Whether it is worse than before: what could not be timed before may
        still not be."""
        return set(self.refused) == {"new"} or self.verdict == "slower"


def open_package(folder):
    """Called in the worker process: the device, with the package of `folder`."""
    if folder:
        sys.path.insert(0, str(folder))
    from .package import import_package
    from .torch_device import TorchDevice

    found = pathlib.Path(import_package().__file__).resolve()
    if folder and folder not in found.parents:
        raise UserError(f"expects a package in {folder}, but got that of {found}")
    return TorchDevice(is_cold=True)


def read_folder(folder):
    """The folder of a package, or a UserError."""
    if folder is None:
        return None
    if not (folder / "flashcore" / "__init__.py").exists():
        raise UserError(
            f"expects a folder with the package flashcore, but got {folder}; "
            f"python3 -m pip install --no-deps --target {folder} WHEEL makes one"
        )
    return folder.resolve()


class Regress:
    """Times rows of the two builds; `workers` are WorkerDevices by name, or a
    test's stand-ins."""

    def __init__(self, workers, pairs, seed):
        self._workers, self._pairs = workers, pairs
        self._seed = seed
        self._rng = random.Random(seed)

    def time(self, problem):
        """The rows of a shape."""
        request = Request(
            problem, {}, tuple(CALLS), self._seed, rotation.Rounds()
        )
        refused = {}
        for build, worker in self._workers.items():
            try:
                refused[build] = worker.prepare(request)
            except Lost as loss:
                refused[build] = dict.fromkeys(CALLS, loss.reason)
        return [self._time(problem.name, call, refused) for call in CALLS]

    def _time(self, shape, call, refused):
        row = Row(shape, call, [], [])
        row.refused = {b: refused[b][call] for b in BUILDS if call in refused[b]}
        for pairs in (self._pairs, 2 * self._pairs):
            if not row.refused:
                self._add(row, pairs)
            if row.verdict != "slower":
                break
        return row

    def _add(self, row, pairs):
        row.base, row.new = [], []
        for _ in range(pairs):
            for build in self._rng.sample(BUILDS, len(BUILDS)):
                samples = row.base if build == "base" else row.new
                try:
                    samples.append(self._workers[build].measure(row.call))
                except Lost as loss:
                    row.refused[build] = loss.reason
                    return


def write(rows):
    """Markdown: a line a row, and what they are together."""
    head = ["shape", "call", "base, us", "new, us", "new / base", ""]
    lines = []
    for row in rows:
        times = ["", "", ""]
        if not row.refused:
            times = [f"{statistics.median(x):.2f}" for x in (row.base, row.new)]
            times.append(f"{row.ratio:.3f}")
        lines.append([row.shape, row.call, *times, row.verdict])
    timed = [row.ratio for row in rows if not row.refused]
    slower = sum(row.is_regression for row in rows)
    told = f"{slower} of {len(rows)} rows slower, or not timed any more"
    if timed:
        told += f"; geometric mean {statistics.geometric_mean(timed):.3f}"
    return f"{table(head, lines)}\n\n{told}"


def command(arguments):
    folders = {
        "base": read_folder(arguments.base),
        "new": read_folder(arguments.new),
    }
    if folders["new"]:
        sys.path.insert(0, str(folders["new"]))
    selected = [read_shape(words) for words in arguments.shape or SHAPES]
    progress = Progress(len(selected))
    rows = []
    with WorkerDevice(
        functools.partial(open_package, folders["base"])
    ) as base, WorkerDevice(
        functools.partial(open_package, folders["new"])
    ) as new:
        regress = Regress(
            {"base": base, "new": new}, arguments.pairs, arguments.seed
        )
        try:
            for problem in selected:
                rows += regress.time(problem)
                ratios = ", ".join(
                    row.verdict if row.refused else f"{row.ratio:.3f}"
                    for row in rows[-len(CALLS) :]
                )
                progress.step(f"{problem.name}: {ratios}")
        finally:
            progress.close()
            if rows:
                print(write(rows))
    if arguments.out:
        results.write_json(
            arguments.out, {"rows": [dataclasses.asdict(row) for row in rows]}
        )
    return int(any(row.is_regression for row in rows))
