"""flashcore-bench: FlashCore beside every peer on this machine.

On a machine with a GPU, PyTorch and FlashCore's Python package, a table to
paste of the package's calls beside PyTorch's backends, flash-attn (if it is
installed) and FlexAttention, on shapes of yours or on some common ones:

  flashcore-bench
  flashcore-bench --shape 'b1 h32/8 s4096 d128 bf16 causal'

With FlashCore's executables, too, kernels and schedules are compiled, timed
beside the same peers, and described in results.json, report.md and plots:

  flashcore-bench run

`--shape 'b1 h32/8 s4096 d128 bf16 causal'` and `--mlir FILE` take any problem in
place of those of `list`, or beside them with --problems.

Without PyTorch or a GPU, `compile` makes the kernels for another machine
(`run --bundles DIR` takes them there), `accuracy --device=emulator` checks
errors, and `report` and `plot` read a results.json. `publish` shows one in the
documentation.
"""

import argparse
import os
import pathlib
import sys
import time

from . import (
    accuracy,
    compare,
    counters,
    given,
    ladder,
    plots,
    problems,
    publish,
    regress,
    report,
    results,
    rotation,
)
from .cli import (
    Parser,
    add_ladder,
    add_seed,
    add_tools,
    add_tuning_file,
    add_variants,
    add_version,
    default_text,
    parse_variants,
    positive_integer,
    positive_number,
    program,
    report_error,
    run_tool,
)
from .errors import UserError
from .kernels import Kernels
from .monitor import Monitor
from .package import chip_number, read
from .peers import PEERS
from .progress import Progress
from .timing import Request, summary, time_entry
from .toolchain import IS_INSTALLED, OUT, Toolchain
from .worker import Lost, WorkerDevice

DEFAULT_OUT = OUT / "bench"


def parse_arguments(arguments=None):
    words = sys.argv[1:] if arguments is None else list(arguments)
    # Without a command it compares; these two are of all commands.
    if not words or (
        words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")
    ):
        words.insert(0, "compare")
    return make_parser().parse_args(words)


def make_parser():
    parser = Parser(
        prog=program("bench"),
        description=__doc__.replace("flashcore-bench", program("bench")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    compare.add_arguments(
        commands.add_parser(
            "compare",
            help="print a table of the package's calls beside other attentions "
            "(what is done without a command)",
            description=compare.__doc__.replace(
                "flashcore bench", program("bench")
            ),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    run = commands.add_parser("run", help="compile, time, report and plot")
    _add_selection(run)
    _add_compiling(run)
    _add_timing(run)
    compiling = commands.add_parser(
        "compile",
        help="make the bundles only, for a machine without a compiler",
    )
    _add_selection(compiling)
    _add_compiling(compiling)
    listing = commands.add_parser("list", help="list the problems")
    _add_selection(listing)
    accuracy.add_arguments(
        commands.add_parser(
            "accuracy",
            help="errors of the default and the fast schedules",
            description=accuracy.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    _add_rendering(commands)
    if not IS_INSTALLED:
        _add_regress(commands)
        _add_publishing(commands)
    return parser


def _add_regress(commands):
    """Not in the package, which is one of the builds already when its tools run."""
    regress.add_arguments(
        commands.add_parser(
            "regress",
            help="say which calls are slower than those of another build",
            description=regress.__doc__.replace(
                "flashcore-bench", program("bench")
            ),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _add_publishing(commands):
    publish.add_arguments(
        commands.add_parser(
            "publish",
            help="write what the documentation says of a run",
            description=publish.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )


def _add_rendering(commands):
    reporting = commands.add_parser(
        "report", help="Markdown tables of a results file"
    )
    plotting = commands.add_parser("plot", help="plots of a results file")
    for command, out in (
        (reporting, "file (default: print it)"),
        (plotting, "folder (default: figures beside the file)"),
    ):
        command.add_argument("results", type=pathlib.Path, help="results.json")
        command.add_argument("--out", type=pathlib.Path, help=out)
    reporting.add_argument(
        "--figures",
        type=pathlib.Path,
        help="folder of the plots that the report shows (default: none)",
    )


def _add_selection(parser):
    parser.add_argument(
        "--problems",
        nargs="+",
        metavar="REGEX",
        default=[],
        help="problems by name, with or without -dense or -causal (default: all "
        "but features.*, or none beside --shape and --mlir)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a third of the problems, fewer rounds",
    )
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")


def _add_compiling(parser):
    given.add_options(parser)
    add_tools(parser)
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="also kernels that learn sizes and strides at run time",
    )
    add_variants(parser)
    add_ladder(parser)
    add_tuning_file(parser)
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=DEFAULT_OUT,
        help=f"folder for bundles and results (default: {default_text(DEFAULT_OUT)})",
    )


def _add_timing(parser):
    parser.add_argument(
        "--bundles",
        type=pathlib.Path,
        help="take the kernels of 'flashcore-bench compile' from this folder "
        "instead of compiling",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        metavar="PEER",
        help=f"of {', '.join(PEERS)} (default: all; with --quick all but flex, "
        "which compiles for seconds a problem)",
    )
    parser.add_argument(
        "--rounds",
        type=positive_integer,
        help="rounds of a problem (default: 5, and up to 15 while they take "
        "less than 2 s; with --quick 5)",
    )
    parser.add_argument(
        "--minutes",
        type=positive_number,
        help="stop before a problem that would start later than this; the same "
        "command continues",
    )
    parser.add_argument(
        "--counters",
        action="store_true",
        help="also what ncu counts of our kernels, and which unit of the SM "
        "they keep busy",
    )
    add_seed(parser)
    parser.add_argument(
        "--fresh", action="store_true", help="forget the rows that are finished"
    )


def default_chip(device_chip, toolchain=None):
    """The newest chip that a card runs the PTX of. Up to 11.x that is at most
    sm_89, which figures are published of; without a toolchain to ask, too."""
    number = chip_number(device_chip)
    if not toolchain:
        return "sm_89" if number >= 89 else device_chip
    most = number if number >= 120 else min(number, 89)
    # What has a letter runs on one chip alone.
    chips = [chip for chip in toolchain.chips() if chip[-1].isdigit()]
    older = [chip for chip in chips if chip_number(chip) <= most]
    if not older:
        raise UserError(
            f"expects a card of {chips[0]} or newer, but got {device_chip}"
        )
    return older[-1]


class Bench:
    """Times problems and keeps the results. `timer` is a WorkerDevice or a
    test's stand-in."""

    def __init__(self, timer, kernels, store, peers, rounds, seed):
        self._timer, self._kernels, self._store = timer, kernels, store
        self._peers, self._rounds, self._seed = tuple(peers), rounds, seed

    def run(self, selected, deadline=float("inf"), progress=None, monitor=None):
        """Times what is not finished; returns the problems left for another
        run because of the deadline."""
        progress = progress or Progress(len(selected))
        for i, problem in enumerate(selected):
            bundles, refused = self._kernels.of(problem)
            sums = {
                name: read(path).checksum
                for name, path in bundles.items()
            }
            if self._store.is_finished(problem, sums, self._peers):
                progress.step(f"{problem.name}: timed before")
                continue
            if time.monotonic() >= deadline:
                return selected[i:]
            request = Request(
                problem, bundles, self._peers, self._seed, self._rounds
            )
            peaks = self._store.data["card"].get("peaks")
            entry = time_entry(self._timer, request, peaks, monitor)
            entry["bundles"] = sums
            entry["refused"] = refused | entry["refused"]
            self._store.data["problems"][problem.name] = entry
            self._store.save()
            progress.step(f"{problem.name}: {summary(entry)}")
        return []


def open_torch_device():
    """Called in the worker process: only that one needs torch."""
    from .torch_device import TorchDevice

    return TorchDevice()


def select(arguments, toolchain):
    """The problems of the command line. Without a toolchain those that are
    given must be compiled already."""
    has_given = arguments.shape or arguments.mlir
    selected = []
    if arguments.problems or arguments.quick or not has_given:
        selected = problems.select(
            arguments.problems, arguments.quick, arguments.dtype
        )
    if has_given and toolchain:
        selected += given.load(arguments, toolchain)
    elif has_given:
        selected += given.load_compiled(arguments, arguments.bundles)
    return selected


def climb(arguments):
    """What --ladder stands for in the place of other options."""
    if not arguments.ladder:
        return
    toolchain = Toolchain(arguments.tools, arguments.out)
    arguments.variant = ladder.variants(toolchain) + arguments.variant
    if not (arguments.problems or arguments.quick or arguments.shape or arguments.mlir):
        arguments.shape = list(ladder.PROBLEMS)


def command_run(arguments):
    start = time.monotonic()
    toolchain = None
    if not arguments.bundles:
        toolchain = Toolchain(arguments.tools, arguments.out)
    climb(arguments)
    selected = select(arguments, toolchain)
    variants = parse_variants(arguments.variant, arguments.tuning_file)
    progress = Progress(len(selected))
    with WorkerDevice(open_torch_device, on_loss=progress.note) as device:
        facts = device.describe()
        chip = arguments.chip or default_chip(facts["chip"], toolchain)
        store = results.Results(arguments.out / "results.json", arguments.fresh)
        settings = {
            "seed": arguments.seed,
            "dtype": arguments.dtype,
            "chip": chip,
        }
        store.begin(settings, facts["card"])
        store.describe_variants(parse_variants(arguments.variant))
        kernels = prepare_kernels(
            arguments, toolchain, selected, chip, variants
        )
        if not store.data["card"].get("peaks"):
            measure_peaks(device, store)
        bench = Bench(
            device,
            kernels,
            store,
            choose_peers(arguments),
            choose_rounds(arguments),
            arguments.seed,
        )
        with Monitor(facts["gpu_id"]) as monitor:
            store.note(monitor.note)
            store.data["card"] |= monitor.card()
            deadline = start + 60 * (arguments.minutes or float("inf"))
            try:
                left = bench.run(selected, deadline, progress, monitor)
                count(arguments, store, kernels, selected, toolchain)
            finally:
                progress.close()
                store.save()
                finish(store, arguments.out)
    if left:
        print(
            f"{len(left)} problems are left, from {left[0].name} on: run the same "
            "command again"
        )
    return results.report_failures(store.data)


def count(arguments, store, kernels, selected, toolchain):
    """Adds what ncu counts to what was timed. It is not needed for that: where
    it cannot count, a note says why."""
    if not (arguments.counters or arguments.ladder):
        return
    ncu = counters.find()
    if not (ncu and toolchain):
        missing = "ncu" if toolchain else "flashcore-run (--tools)"
        store.note(f"nothing was counted: {missing} was not found")
        return
    described = given.slug(ladder.DESCRIBED)
    try:
        counter = counters.Counters(ncu, toolchain)
        for problem in selected:
            entry = store.data["problems"].get(problem.name)
            if not entry or not (
                arguments.counters or problem.name == described
            ):
                continue
            for name, path in kernels.of(problem)[0].items():
                if name in entry["contenders"]:
                    entry["contenders"][name]["counters"] = counter.count(path)
    except UserError as error:
        store.note(f"not all was counted: {error}")


def choose_peers(arguments):
    if arguments.peers is not None:
        return dict.fromkeys(arguments.peers)
    if arguments.ladder:
        return ladder.PEERS
    return [p for p in PEERS if not (arguments.quick and p == "flex")]


def choose_rounds(arguments):
    count = arguments.rounds or (5 if arguments.quick else None)
    return rotation.Rounds.exactly(count) if count else rotation.Rounds()


def prepare_kernels(arguments, toolchain, selected, chip, variants):
    """Those of --bundles, or compiled here."""
    folder = arguments.bundles or arguments.out / "bundles"
    kernels = Kernels(toolchain, folder, chip, variants, arguments.dynamic)
    if toolchain:
        progress = Progress(kernels.count(selected))
        kernels.compile(selected, progress)
        progress.close()
    return kernels


def measure_peaks(device, store):
    try:
        store.data["card"]["peaks"] = device.peaks()
    except Lost as loss:
        store.note(f"the limits of the card are not known: {loss}")


def finish(store, out):
    """Plots where they can be drawn, and tables."""
    written, figures = [store.path, out / "report.md"], {}
    try:
        paths = plots.draw(store.data, out / "figures")
        figures = {path.stem: f"figures/{path.name}" for path in paths}
        written += paths
    except UserError as error:
        print(f"no plots: {error}")
    text = report.write(store.data, figures)
    (out / "report.md").write_text(text)
    print(text)
    print("wrote " + ", ".join(map(str, written)))


def command_compile(arguments):
    climb(arguments)
    variants = parse_variants(arguments.variant, arguments.tuning_file)
    toolchain = Toolchain(arguments.tools, arguments.out)
    selected = select(arguments, toolchain)
    chip = arguments.chip or "sm_89"
    kernels = Kernels(
        toolchain, arguments.out, chip, variants, arguments.dynamic
    )
    progress = Progress(kernels.count(selected))
    refused = kernels.compile(selected, progress)
    progress.close()
    for path, reason in refused.items():
        print(f"{path.stem}: {reason}", file=sys.stderr)
    return int(bool(refused))


def command_list(arguments):
    patterns = arguments.problems or ([] if arguments.quick else [".*"])
    for p in problems.select(patterns, arguments.quick, arguments.dtype):
        print(f"{p.name:24s} {p.group:11s} {p.describe()}")
    return 0


def command_report(arguments):
    figures = {}
    if arguments.figures:
        out = arguments.out or pathlib.Path("report.md")
        figures = {
            path.stem: os.path.relpath(path, out.parent)
            for path in arguments.figures.glob("*.png")
        }
    text = report.write(results.read(arguments.results), figures)
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text, end="")
    return 0


def command_plot(arguments):
    data = results.read(arguments.results)
    folder = arguments.out or arguments.results.parent / "figures"
    for path in plots.draw(data, folder):
        print(f"wrote {path}")
    return 0


COMMANDS = {
    "compare": compare.command,
    "regress": regress.command,
    "run": command_run,
    "compile": command_compile,
    "list": command_list,
    "accuracy": accuracy.command,
    "report": command_report,
    "plot": command_plot,
    "publish": publish.command,
}


def main(arguments=None):
    return run_tool("bench", lambda: parse_arguments(arguments), _run)


def _run(options):
    try:
        return COMMANDS[options.command](options)
    except UserError as error:
        return report_error("bench", error)
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
        return 130
