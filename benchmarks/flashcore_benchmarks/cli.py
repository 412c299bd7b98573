"""What the command lines of the tools share."""

import argparse
import os
import pathlib
import re
import shlex
import sys

from .errors import UserError
from .toolchain import DEFAULT_TOOLS, IS_INSTALLED, ROOT, version


def program(name):
    """What the user calls a tool: flashcore-bench in the tree, and flashcore
    bench of the Python package."""
    return f"flashcore {name}" if IS_INSTALLED else f"flashcore-{name}"


def report_error(name, error):
    """Returns the exit code."""
    # All of the package say "flashcore: error".
    print(f"{program(name).split()[0]}: error: {error}", file=sys.stderr)
    return 2


def add_version(parser):
    parser.add_argument(
        "--version", action="version", version=f"flashcore {version()}"
    )


class Parser(argparse.ArgumentParser):
    """Argparse drops the failure to write help or the version."""

    def _print_message(self, message, file=None):
        if message:
            (file or sys.stderr).write(message)


def run_tool(name, parse, run):
    """The exit code of a tool: `run` gets what `parse` returns. What a full
    device does not take is an error."""
    try:
        try:
            return run(parse())
        finally:  # --help and --version exit
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        # What is left in the buffer would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return report_error(name, f"cannot write: {error.strerror}")


def default_text(path):
    """A default folder, as seen from the root of the tree."""
    return path if IS_INSTALLED else path.relative_to(ROOT)


def positive_integer(text):
    return _positive(text, int, "integer")


def positive_number(text):
    return _positive(text, float, "number")


def _positive(text, parse, what):
    try:
        value = parse(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"expects a positive {what}, but got '{text}'"
        )
    return value


def add_tools(parser):
    parser.add_argument(
        "--tools",
        type=pathlib.Path,
        default=DEFAULT_TOOLS,
        help="folder of flashcore-compile, flashcore-run and flashcore-emu, or "
        "the executable 'flashcore', also packed as flashcore.gz (default: "
        f"{'those of the package' if IS_INSTALLED else 'build/release/bin'})",
    )
    parser.add_argument(
        "--chip",
        help="target of the kernels (default: the newest that the card runs, "
        "sm_89 on cards of 9.0 to 11.x)",
    )


def add_seed(parser):
    parser.add_argument(
        "--seed", type=int, default=0, help="of inputs and orders"
    )


def add_variants(parser):
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="NAME=OPTIONS",
        help="also kernels with these options of flashcore-compile, called "
        "flashcore:NAME, such as --variant three='--num-stages=3'; may be given "
        "several times",
    )


def add_ladder(parser):
    parser.add_argument(
        "--ladder",
        action="store_true",
        help="the schedules that have a name (flashcore-compile "
        "--list-schedules), each called flashcore:NAME, by default for the "
        "problems of docs/Ladder.md beside fa2 and cudnn",
    )


def add_tuning_file(parser):
    parser.add_argument(
        "--tuning-file",
        type=pathlib.Path,
        metavar="FILE",
        help="also kernels with the schedules of flashcore-tune, called "
        "flashcore:tuned",
    )


def parse_variants(texts, tuning_file=None):
    """{contender: options of flashcore-compile}."""
    variants = {}
    if tuning_file:
        variants["flashcore:tuned"] = [f"--tuning-file={tuning_file.resolve()}"]
    for text in texts:
        name, _, options = text.partition("=")
        if not re.fullmatch(r"[\w.-]+", name) or not options:
            raise UserError(f"expects --variant NAME=OPTIONS, but got '{text}'")
        if f"flashcore:{name}" in variants:
            raise UserError(f"--variant {text}: '{name}' is taken")
        try:
            variants[f"flashcore:{name}"] = shlex.split(options)
        except ValueError as error:
            raise UserError(f"--variant {text}: {error}")
    return variants
