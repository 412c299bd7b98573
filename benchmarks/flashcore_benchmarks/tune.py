"""flashcore-tune: finds schedules that beat the default on this GPU.

Legal schedules are compiled in parallel; those that spill, or whose accesses
the emulator finds wasteful, are dropped; the others are timed beside the
default schedule, the best are mutated, and in the end timed again and checked
on normal and rising inputs. tuning.json is what flashcore-compile takes:

  flashcore-tune run --problems 'd64-s4096' --minutes 10
  flashcore-tune run --shape 'b1 h32/8 s4096 d128 bf16 causal window=1024'
  flashcore-compile attention.mlir --tuning-file=build/tune/tuning.json --explain

A search that was stopped, or that --minutes ended, goes on when the same
command is run again.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import sys
import time

from . import given, problems, results
from .bench import default_chip
from .cli import (
    Parser,
    add_tools,
    add_version,
    default_text,
    positive_number,
    program,
    report_error,
    run_tool,
)
from .errors import NEEDS_TORCH, UserError
from .progress import Progress
from .toolchain import OUT, Refused, Toolchain
from .tuning import schedules, tune_report, tuning_file
from .tuning.evaluate import Evaluator
from .tuning.search import Search, Settings

FORMAT, VERSION = "flashcore-tune-state", 1
DEFAULT_OUT = OUT / "tune"


def parse_arguments(arguments):
    return make_parser().parse_args(arguments)


def make_parser():
    parser = Parser(
        prog=program("tune"),
        description=__doc__.replace("flashcore-tune", program("tune")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    run = commands.add_parser(
        "run", help="search, and write tuning.json and a report"
    )
    report = commands.add_parser(
        "report", help="report and plot of a folder of run"
    )
    report.add_argument("folder", type=pathlib.Path)
    run.add_argument(
        "--problems",
        nargs="+",
        metavar="REGEX",
        default=[],
        help="problems by name, with or without -dense or -causal; "
        "flashcore-bench list shows all",
    )
    given.add_options(run)
    run.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    add_tools(run)
    run.add_argument(
        "--out",
        type=pathlib.Path,
        default=DEFAULT_OUT,
        help="folder for tuning.json, state and report (default: "
        f"{default_text(DEFAULT_OUT)})",
    )
    run.add_argument(
        "--minutes",
        type=positive_number,
        help="of all problems together, shared out evenly (default: no limit)",
    )
    run.add_argument("--fresh", action="store_true", help="forget the state")
    _add_settings(run)
    return parser


SETTINGS_HELP = {
    "seed": "of schedules, orders and inputs",
    "generations": "rounds of mutation",
    "population": "schedules a generation",
    "keep": "the best, which are mutated and are timed again in the end",
    "batch": "schedules of one rotation, beside the default",
    "rounds": "of a rotation; twice as many in the end",
    "min_gain": "share of time that a schedule must gain to replace the default",
    "draws": "inputs of each kind that a finalist's errors are checked on",
}


def _add_settings(parser):
    for field in dataclasses.fields(Settings):
        parser.add_argument(
            "--" + field.name.replace("_", "-"),
            type=type(field.default),
            default=field.default,
            help=f"{SETTINGS_HELP[field.name]} (default: {field.default})",
        )


def check_settings(settings):
    for name, low in (
        ("generations", 1),
        ("population", 1),
        ("keep", 1),
        ("batch", 1),
        ("rounds", 5),
        ("min_gain", 0),
        ("draws", 1),
    ):
        value = getattr(settings, name)
        if value < low:
            option = name.replace("_", "-")
            raise UserError(
                f"expects --{option} of at least {low}, but got {value}"
            )


def read_state(path):
    try:
        state = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}")
    except ValueError as error:
        raise UserError(f"'{path}' is not JSON: {error}")
    if not isinstance(state, dict) or (
        (state.get("format"), state.get("version")) != (FORMAT, VERSION)
    ):
        raise UserError(f"'{path}' is no state of this version; use --fresh")
    return state


class Tuner:
    """All problems of a run. `timer` is a TorchTimer or a test's stand-in."""

    def __init__(self, timer, toolchain, out, chip, settings, is_fresh=False):
        check_settings(settings)
        self._timer, self._toolchain = timer, toolchain
        self._out, self._settings = pathlib.Path(out), settings
        self._chip = chip or default_chip(timer.chip, toolchain)
        self._path = self._out / "state.json"
        card = timer.card()
        self.state = {
            "format": FORMAT,
            "version": VERSION,
            "card": card,
            "chip": self._chip,
            "settings": dataclasses.asdict(settings),
            "fields": [],
            "date": datetime.date.today().isoformat(),
            "notes": [],
            "problems": {},
        }
        self._fields = schedules.known_fields(toolchain)
        self.state["fields"] = [field.name for field in self._fields]
        if self._path.exists() and not is_fresh:
            self._continue(read_state(self._path))

    def _continue(self, old):
        """Takes up a state, unless it was made in another way."""
        for what in ("settings", "chip", "fields"):
            if old[what] != self.state[what]:
                raise UserError(
                    f"'{self._path}' was made with {what} {old[what]}, but this "
                    f"run has {self.state[what]}: use --fresh or another --out"
                )
        if old["card"]["name"] != self.state["card"]["name"]:
            raise UserError(
                f"'{self._path}' was made on {old['card']['name']}, but this is "
                f"{self.state['card']['name']}: use --fresh or another --out"
            )
        self.state = old

    def save(self):
        results.write_json(self._path, self.state)

    def run(self, selected, minutes=None, progress=None):
        """Searches problem after problem; True when all are finished."""
        progress = progress or Progress(self._steps(len(selected)))
        start, is_complete = time.monotonic(), True
        for i, problem in enumerate(selected):
            deadline = float("inf")
            if minutes is not None:
                left = 60 * minutes - (time.monotonic() - start)
                deadline = time.monotonic() + left / (len(selected) - i)
            outcome = self.search(
                problem,
                progress,
                lambda deadline=deadline: time.monotonic() >= deadline,
            )
            is_complete &= outcome is not None and outcome["complete"]
            progress.note(f"{problem.name}: {describe(outcome)}")
        self._write_outputs()
        return is_complete

    def _steps(self, count):
        """Rotations, when every schedule is worth timing."""
        settings = self._settings
        batches = -(-settings.population // settings.batch)
        return count * settings.generations * batches

    def search(self, problem, progress, is_late):
        """The outcome for one problem; see Search.run."""
        evaluator = Evaluator(
            self._toolchain,
            problem,
            self._out / "bundles" / problem.name,
            self._chip,
            self._timer.errors_on,
        )
        for note in evaluator.notes:
            if note not in self.state["notes"]:
                self.state["notes"].append(note)
        state = self.state["problems"].setdefault(
            problem.name, {"problem": results.describe(problem)}
        )
        if results.problem_of(state) != problem:
            raise UserError(
                f"'{self._path}' has another problem of the name "
                f"'{problem.name}': use --fresh or another --out"
            )
        search = Search(
            problem,
            evaluator,
            self._timer,
            self._fields,
            self._settings,
            state,
            self.save,
        )
        return search.run(progress, is_late)

    def _write_outputs(self):
        outcomes = [
            (results.problem_of(entry), entry["outcome"])
            for entry in self.state["problems"].values()
            if "outcome" in entry
        ]
        card = self.state["card"]
        contents = tuning_file.make(
            card["name"],
            self._chip,
            self.state["date"],
            card["sms"],
            outcomes,
        )
        results.write_json(self._out / "tuning.json", contents)
        (self._out / "report.md").write_text(tune_report.write(self.state))
        self.save()


def describe(outcome):
    if outcome is None:
        return "time was up before anything was timed"
    when = "" if outcome["complete"] else " when time was up"
    if not outcome["winner"]:
        return "the default stays" + when
    return f"{100 * outcome['winner']['gain']:+.1f} % over the default{when}"


def select(options, toolchain):
    """The problems of the command line."""
    if not (options.problems or options.shape or options.mlir):
        raise UserError("expects --problems, --shape or --mlir, but got none")
    selected = []
    if options.problems:
        selected = problems.select(options.problems, dtype=options.dtype)
    return selected + given.load(options, toolchain)


def command_run(options):
    toolchain = Toolchain(options.tools, options.out)
    selected = select(options, toolchain)
    from .tuning.timer import TorchTimer

    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: getattr(options, name) for name in names})
    tuner = Tuner(
        TorchTimer(),
        toolchain,
        options.out,
        options.chip,
        settings,
        options.fresh,
    )
    is_complete = tuner.run(selected, options.minutes)
    show_report(options.out, tuner.state)
    if not is_complete:
        print("not all problems are finished: run the same command again")
    return 0


def show_report(folder, state):
    print(tune_report.write(state))
    try:
        tune_report.draw(state, folder / "gains.png")
    except UserError as error:
        print(f"no plot: {error}")
    print(f"wrote {folder}/tuning.json and report.md")


def command_report(options):
    state = read_state(options.folder / "state.json")
    print(tune_report.write(state), end="")
    for path in tune_report.draw(state, options.folder / "gains.png"):
        print(f"wrote {path}")
    return 0


def main(arguments=None):
    return run_tool("tune", lambda: parse_arguments(arguments), _run)


def _run(options):
    command = {"run": command_run, "report": command_report}[options.command]
    try:
        return command(options)
    except (UserError, Refused) as error:
        return report_error("tune", error)
    except ModuleNotFoundError as error:
        return report_error("tune", f"{error}; {NEEDS_TORCH}")
    except KeyboardInterrupt:
        print("stopped; the same command continues", file=sys.stderr)
        return 130
