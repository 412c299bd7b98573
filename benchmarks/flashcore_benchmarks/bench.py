"""flashcore-bench: FlashCore's kernels beside every peer on this machine.

One command on a machine with a GPU, PyTorch and FlashCore's executables
compiles the kernels, times them beside PyTorch's backends (and flash-attn, if
it is installed) and writes results.json, report.md and plots:

  flashcore-bench run --tools build/release/bin

Without PyTorch or a GPU, `compile` makes the kernels for another machine
(`run --bundles DIR` takes them there), and `report` and `plot` read a
results.json.
"""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import re
import shlex
import sys
import time

from . import plots, problems, report, results, roofline, rotation
from .bundle import Bundle, chip_number
from .cli import positive_integer, positive_number
from .errors import UserError
from .monitor import Monitor
from .progress import Progress
from .timing import Request
from .toolchain import DEFAULT_TOOLS, ROOT, Refused, Toolchain, attention
from .worker import Lost, WorkerDevice

PEERS = (
    "fa2",
    "cudnn",
    "efficient",
    "math",
    "flash-attn",
    "flash-attn-3",
    "flex",
)
# FlexAttention compiles for seconds a problem.
DEFAULT_PEERS = tuple(peer for peer in PEERS if peer != "flex")
DEFAULT_OUT = ROOT / "build/bench"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="flashcore-bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
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
    _add_rendering(commands)
    return parser.parse_args(arguments)


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
        help="problems by name, with or without -dense or -causal (default: all)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a third of the problems, fewer rounds",
    )
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")


def _add_compiling(parser):
    parser.add_argument(
        "--tools",
        type=pathlib.Path,
        default=DEFAULT_TOOLS,
        help="folder of flashcore-compile, or the executable 'flashcore', also "
        "packed as flashcore.gz (default: build/release/bin)",
    )
    parser.add_argument(
        "--chip",
        help="target of the kernels (default: sm_89 where the card runs it, "
        "else the card's own)",
    )
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="also kernels that learn sizes and strides at run time",
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME=OPTIONS",
        help="also kernels with these options of flashcore-compile, called "
        "flashcore:NAME, such as --variant three='--num-stages=3'; may be given "
        "several times",
    )
    parser.add_argument(
        "--tuning-file",
        type=pathlib.Path,
        metavar="FILE",
        help="also kernels with the schedules of flashcore-tune, called "
        "flashcore:tuned",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=DEFAULT_OUT,
        help="folder for bundles and results (default: build/bench)",
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
        default=list(DEFAULT_PEERS),
        metavar="PEER",
        help=f"of {', '.join(PEERS)} (default: all but flex, which compiles for "
        "seconds a problem)",
    )
    parser.add_argument("--flex", action="store_true", help="FlexAttention too")
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
        "--seed", type=int, default=0, help="of inputs and orders"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget the rows that are finished"
    )


def parse_variants(arguments):
    """{contender: options of flashcore-compile}."""
    variants = {}
    if arguments.tuning_file:
        path = arguments.tuning_file.resolve()
        variants["flashcore:tuned"] = [f"--tuning-file={path}"]
    for text in arguments.variant:
        name, _, options = text.partition("=")
        if not re.fullmatch(r"[\w.-]+", name) or not options:
            raise UserError(f"expects --variant NAME=OPTIONS, but got '{text}'")
        try:
            variants[f"flashcore:{name}"] = shlex.split(options)
        except ValueError as error:
            raise UserError(f"--variant {text}: {error}")
    return variants


class Kernels:
    """The bundles of each problem, by contender; of `is_dynamic` kernels the
    problems of a head_dim and mask share one."""

    def __init__(self, toolchain, folder, chip, variants, has_dynamic):
        self._toolchain, self._folder = toolchain, pathlib.Path(folder)
        self._chip, self._variants = chip, variants
        self._has_dynamic = has_dynamic
        self.refused = {}

    def _jobs(self, problem):
        """(contender, file name, MLIR, options)."""
        mlir = problem.mlir(attention)
        yield "flashcore", problem.name, mlir, []
        for name, options in self._variants.items():
            yield name, f"{problem.name}-{name.split(':')[1]}", mlir, options
        if self._has_dynamic:
            mask = "causal" if problem.causal else "dense"
            file = f"dynamic-d{problem.head_dim}-{mask}"
            yield "flashcore-dynamic", file, problem.mlir(attention, True), []

    def paths(self, problem):
        return {
            contender: self._folder / f"{file}-{problem.dtype}.fcb"
            for contender, file, _, _ in self._jobs(problem)
        }

    def compile(self, selected, progress):
        """Compiles what the problems need, once each and in parallel. Notes
        in `refused`, by path, what the compiler refuses."""
        self._folder.mkdir(parents=True, exist_ok=True)
        jobs = {}
        for problem in selected:
            paths = self.paths(problem)
            for contender, _, mlir, options in self._jobs(problem):
                jobs[paths[contender]] = mlir, options

        def compile_one(item):
            path, (mlir, options) = item
            arguments = ["--no-cubin", *options]
            if not any(option.startswith("--chip") for option in options):
                arguments.append(f"--chip={self._chip}")
            try:
                self._toolchain.compile(mlir, path, arguments)
            except Refused as error:
                self.refused[path] = str(error)
            return path

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path in pool.map(compile_one, jobs.items()):
                progress.step(f"compiled {path.stem}")

    def count(self, selected):
        return len({path for p in selected for path in self.paths(p).values()})

    def of(self, problem):
        """({contender: path}, {contender: why there is none})."""
        found, refused = {}, {}
        for contender, path in self.paths(problem).items():
            if path in self.refused:
                refused[contender] = self.refused[path]
            elif not path.exists():
                raise UserError(
                    f"no bundle '{path}': make it with flashcore-bench compile, "
                    "with the same --problems, --variant and --dynamic"
                )
            else:
                found[contender] = path
        return found, refused


def default_chip(device_chip):
    """The kernels are made for sm_89; newer cards run its PTX."""
    return "sm_89" if chip_number(device_chip) >= 89 else device_chip


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
                name: Bundle(path).manifest["ptx"]["fnv1a64"]
                for name, path in bundles.items()
            }
            if self._store.is_finished(problem, sums, self._peers):
                progress.step(f"{problem.name}: timed before")
                continue
            if time.monotonic() >= deadline:
                return selected[i:]
            entry = self._time(problem, bundles, monitor)
            entry["bundles"] = sums
            entry["refused"] = refused | entry["refused"]
            self._store.data["problems"][problem.name] = entry
            self._store.save()
            progress.step(f"{problem.name}: {summary(entry)}")
        return []

    def _time(self, problem, bundles, monitor):
        timing = self._timer.time(
            Request(problem, bundles, self._peers, self._seed, self._rounds)
        )
        roof = roofline.bound(problem, self._store.data["card"].get("peaks"))
        return {
            "problem": results.describe(problem),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(
                timespec="seconds"
            ),
            "contenders": {
                name: describe(problem, times, roof) | timing.facts[name]
                for name, times in timing.samples.items()
            },
            "refused": timing.refused,
            "lost": timing.lost,
            "conditions": [
                monitor.during(*span) for span in timing.spans if monitor
            ],
        }


def describe(problem, times, roof):
    us = rotation.summarize(times)
    median = us["median"]
    return {
        "us": us,
        "tflops": problem.flops / median * 1e-6,
        "gbs": problem.tensor_bytes / median * 1e-3,
        "roofline": roof and {"fraction": roof[0] / median, "bound": roof[1]},
    }


def summary(entry):
    """A line for the progress: the fastest peer beside ours."""
    medians = {n: c["us"]["median"] for n, c in entry["contenders"].items()}
    parts = [f"{name} {us:.2f} us" for name, us in medians.items()]
    return ", ".join(parts) or "nothing could be timed"


def open_torch_device():
    """Called in the worker process: only that one needs torch."""
    from .torch_device import TorchDevice

    return TorchDevice()


def command_run(arguments):
    start = time.monotonic()
    selected = problems.select(
        arguments.problems, arguments.quick, arguments.dtype
    )
    variants = parse_variants(arguments)
    progress = Progress(len(selected))
    with WorkerDevice(open_torch_device, on_loss=progress.note) as device:
        facts = device.describe()
        chip = arguments.chip or default_chip(facts["chip"])
        store = results.Results(arguments.out / "results.json", arguments.fresh)
        settings = {
            "seed": arguments.seed,
            "dtype": arguments.dtype,
            "chip": chip,
        }
        store.begin(settings, facts["card"])
        kernels = prepare_kernels(arguments, selected, chip, variants)
        if not store.data["card"].get("peaks"):
            measure_peaks(device, store)
        bench = Bench(
            device,
            kernels,
            store,
            dict.fromkeys(arguments.peers + ["flex"] * arguments.flex),
            choose_rounds(arguments),
            arguments.seed,
        )
        with Monitor(facts["gpu_id"]) as monitor:
            store.note(monitor.note)
            store.data["card"] |= monitor.card()
            deadline = start + 60 * (arguments.minutes or float("inf"))
            left = bench.run(selected, deadline, progress, monitor)
            progress.close()
    store.save()
    finish(store, arguments.out)
    if left:
        print(
            f"{len(left)} problems are left, from {left[0].name} on: run the same "
            "command again"
        )
    return report_failures(store.data)


def choose_rounds(arguments):
    count = arguments.rounds or (5 if arguments.quick else None)
    return rotation.Rounds.exactly(count) if count else rotation.Rounds()


def prepare_kernels(arguments, selected, chip, variants):
    """Those of --bundles, or compiled here."""
    folder = arguments.bundles or arguments.out / "bundles"
    toolchain = None
    if not arguments.bundles:
        toolchain = Toolchain(arguments.tools, arguments.out)
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


def report_failures(data):
    """1 if a result of ours was wrong, or a kernel of ours ended its
    process."""
    failed = [
        name
        for entry in data["problems"].values()
        for name, contender in entry["contenders"].items()
        if not results.passes(contender["error"])
    ]
    for entry in data["problems"].values():
        failed += entry["lost"]
    return int(any(name.startswith("flashcore") for name in failed))


def command_compile(arguments):
    selected = problems.select(
        arguments.problems, arguments.quick, arguments.dtype
    )
    variants = parse_variants(arguments)
    toolchain = Toolchain(arguments.tools, arguments.out)
    chip = arguments.chip or "sm_89"
    kernels = Kernels(
        toolchain, arguments.out, chip, variants, arguments.dynamic
    )
    progress = Progress(kernels.count(selected))
    kernels.compile(selected, progress)
    progress.close()
    for path, reason in kernels.refused.items():
        print(f"{path.stem}: {reason}", file=sys.stderr)
    return int(bool(kernels.refused))


def command_list(arguments):
    for p in problems.select(
        arguments.problems, arguments.quick, arguments.dtype
    ):
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
    "run": command_run,
    "compile": command_compile,
    "list": command_list,
    "report": command_report,
    "plot": command_plot,
}


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        return COMMANDS[options.command](options)
    except UserError as error:
        print(f"flashcore-bench: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
        return 130
