"""Writes what the documentation says of a run of all problems.

`results` is the results.json of `flashcore-bench run --dynamic`. It becomes
docs/figures/bench.json and, with matplotlib, the plots beside it. The blocks
`speed...` of docs/performance.md and README.md are written from bench.json;
without `results` only they are.
"""

import pathlib
import sys

from . import pages, plots, results
from .errors import UserError
from .problems import all_problems
from .toolchain import ROOT

FIGURES = pathlib.Path("docs/figures")
# Of the tables and plots; an attention that is not fused would dwarf them.
CONTENDERS = (pages.OURS, pages.OPEN, "fa2", "cudnn", "efficient", "flex")
_REMEDY = "run benchmarks/flashcore-bench publish"


def add_arguments(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "results", type=pathlib.Path, nargs="?", help="of a new run"
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="write nothing, fail where a page does not say what bench.json does",
    )


def command(arguments):
    if arguments.results:
        publish(arguments.results, ROOT)
    hold(ROOT, is_update=not arguments.check)
    return 0


def publish(path, root):
    """Takes the place of the figures of the last run."""
    plots.pyplot("flashcore-bench publish results.json")
    data = results.read(path)
    _expect_all(data)
    figures = root / FIGURES
    results.write_compact(
        figures / "bench.json", results.compact(data, CONTENDERS)
    )
    plots.draw(results.read(figures / "bench.json"), figures)


def hold(root, is_update=False):
    """Writes the blocks of all pages, or fails where one differs."""
    # Of the tree alone; the Python package does not have it.
    sys.path.insert(0, str(ROOT / "scripts"))
    import marked_blocks

    data = results.read(root / FIGURES / "bench.json")
    for page, texts in pages.blocks(data).items():
        marked_blocks.hold(root / page, texts, is_update, _REMEDY)


def _expect_all(data):
    """The pages speak of all problems and of the card, and of no wrong result."""
    if not data["card"].get("peaks") or "throttle" not in results.conditions(
        data
    ):
        raise UserError("expects a run that says the card's limits and clocks")
    for problem in all_problems():
        entry = data["problems"].get(problem.name, {"contenders": {}})
        for name in (pages.OURS, pages.OPEN, *pages.PEERS):
            contender = entry["contenders"].get(name)
            if not contender or not results.passes(contender["error"]):
                raise UserError(
                    f"expects right results of all problems, but got none of "
                    f"{name} for {problem.name}: run all, with --dynamic"
                )
