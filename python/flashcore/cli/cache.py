"""Lists, clears or fills the folder of compiled kernels.

FLASHCORE_CACHE_DIR names the folder's parent (~/.cache/flashcore by default),
FLASHCORE_CACHE_SIZE bounds it. The code that the driver assembled lies beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import textwrap
from pathlib import Path
from typing import Any, Dict, List, Optional

from flashcore import _core, cache
from flashcore.cli.command import Parser, UsageError, number, print_json
from flashcore.cli.functions import add_function_arguments, read_functions
from flashcore.cli.format import age_text, size_text
from flashcore.cli.progress import Progress
from flashcore.errors import Error
from flashcore.problem import abridge

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list", json=False, regions=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=what, description=what, allow_abbrev=False)
        action.add_argument("--json", action="store_true", help="print JSON")
        return action

    parser.add_argument("--json", action="store_true", help="print JSON")
    listed = add("list", "the kernels that are kept, the last used at the end (the default)")
    listed.add_argument(
        "--regions", action="store_true", help="what the functions of masks and scores compute, too"
    )
    add("path", "the folder")
    add("clear", "delete all kernels, and what the driver assembled")
    prune = add("prune", "delete what was not used for longest")
    prune.add_argument(
        "--limit",
        type=_size,
        metavar="SIZE",
        help="how much to leave, such as 200M (default: FLASHCORE_CACHE_SIZE, or 512M)",
    )
    fill = add("precompile", "compile kernels into a folder that FLASHCORE_KERNELS then names")
    fill.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder")
    fill.add_argument(
        "--chips",
        type=lambda text: text.split(","),
        metavar="CHIP,...",
        help=f"such as sm_80,sm_90 (default: {','.join(_core.chips())})",
    )
    fill.add_argument(
        "--static", action="store_true", help="for exactly these sizes, as static=True has them"
    )
    fill.add_argument(
        "--multiprocessors",
        type=number,
        default=132,
        help="of the GPU, which say whether the keys of a decode are split (default: 132)",
    )
    add_function_arguments(fill)
    fill.add_argument(
        "problems",
        nargs="+",
        metavar="PROBLEM",
        help="words of --shape such as 'b8 h32/8 s1x4096 d128 bf16 causal', of a merge such as "
        "'merge d128 bf16', or @FILE with one a line",
    )


def _size(text: str) -> int:
    try:
        return cache.parse_size(text, "--limit")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    if options.action == "precompile":
        return _precompile(options)
    folder = cache.path()
    if folder is None:
        raise UsageError("expects a cache, but got FLASHCORE_CACHE_DIR=, which turns it off")
    actions = {"path": _path, "clear": _clear, "prune": _prune, "list": _list}
    return actions[options.action or "list"](folder, options)


def _path(folder: Path, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"path": str(folder), "problem": cache.why_unusable(folder)})
    else:
        print(folder)
    return 0


def _clear(folder: Path, options: argparse.Namespace) -> int:
    return _report_deleted(cache.clear() + _delete(_assembled(folder)), options)


def _prune(folder: Path, options: argparse.Namespace) -> int:
    return _report_deleted(cache.prune(options.limit), options)


def _report_deleted(count: int, options: argparse.Namespace) -> int:
    if options.json:
        print_json({"deleted": count})
    else:
        print(f"deleted {count} {'entry' if count == 1 else 'entries'}")
    return 0


def _assembled(folder: Path) -> List[Path]:
    """What the runtime keeps of the driver's work; docs/Runtime.md."""
    return sorted(folder.parent.glob("*.cubin"))


def _delete(files: List[Path]) -> int:
    count = 0
    for file in files:
        try:
            file.unlink()
            count += 1
        except FileNotFoundError:  # another process was faster
            pass
    return count


def _list(folder: Path, options: argparse.Namespace) -> int:
    entries = cache.entries()
    files = [file.stat().st_size for file in _assembled(folder)]
    if options.json:
        print_json(
            {
                "path": str(folder),
                "limit": cache.size_limit(),
                "kernels": [_describe(entry) for entry in entries],
                "assembled": {"files": len(files), "bytes": sum(files)},
            }
        )
        return 0
    _print_entries(entries, options.regions)
    total = sum(entry.bytes for entry in entries)
    print(f"{len(entries)} kernels, {size_text(total)} of {size_text(cache.size_limit())}: {folder}")
    if files:
        print(f"{len(files)} assembled by the driver, {size_text(sum(files))}: {folder.parent}")
    return 0


def _describe(entry: cache.Entry) -> Dict[str, Any]:
    return {**dataclasses.asdict(entry), "path": str(entry.path), "schedule": dict(entry.schedule)}


def _print_entries(entries: List[cache.Entry], with_regions: bool = False) -> None:
    for entry in entries:
        options = "".join(f" --{name}={value}" for name, value in entry.schedule)
        print(
            f"{size_text(entry.bytes):>9}  {age_text(entry.last_used):>10}  "
            f"{entry.chip:6} {abridge(entry.words)}{options}"
        )
        if with_regions:
            for region in _REGION.findall(entry.words):
                print(textwrap.indent(region.replace("\n  ", "\n"), " " * 30))


#: A word of a problem whose value is a region.
_REGION = re.compile(r"(?:score|mask)=\{[^{}]*\}")


def _precompile(options: argparse.Namespace) -> int:
    problems = [words for each in options.problems for words in _read(each)]
    _expect_chips(options.chips)
    functions = dict(zip(("score_mod", "mask_mod"), read_functions(options)))
    entries: List[cache.Entry] = []
    with Progress("compiling", silent=options.json) as progress:
        for i, words in enumerate(problems):
            progress.say(f"compiling {i + 1} of {len(problems)}: {words}")
            entries = _compile(words, options, functions)
    if options.json:
        print_json({"path": str(options.out), "kernels": [_describe(entry) for entry in entries]})
        return 0
    _print_entries(entries)
    total = size_text(sum(entry.bytes for entry in entries))
    print(f"{len(entries)} kernels, {total}; set FLASHCORE_KERNELS={options.out} to use them")
    return 0


def _expect_chips(chips: Optional[List[str]]) -> None:
    for chip in chips or []:
        if chip not in _core.chips():
            raise UsageError(f"expects chips of {', '.join(_core.chips())}, but got '{chip}'")


def _read(argument: str) -> List[str]:
    """The problems of an argument."""
    if not argument.startswith("@"):
        return [argument]
    try:
        lines = Path(argument[1:]).read_text().splitlines()
    except OSError as error:
        raise UsageError(
            f"expects a file of problems, but got '{argument[1:]}': {error.strerror}"
        ) from None
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _compile(
    words: str, options: argparse.Namespace, functions: Dict[str, Any]
) -> List[cache.Entry]:
    try:
        return cache.precompile(
            [words],
            options.out,
            chips=options.chips,
            static=options.static,
            multiprocessors=options.multiprocessors,
            **functions,
        )
    except (Error, ValueError) as error:
        raise UsageError(f"'{words}': {error}") from None
    except OSError as error:
        raise UsageError(
            f"expects a folder that can be written, but got '{options.out}': {error.strerror}"
        ) from None
