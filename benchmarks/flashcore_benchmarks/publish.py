"""Writes what the documentation says of a run.

`results` is the results.json of `flashcore-bench run --dynamic`, or of a run
with `--chip sm_90a`. It becomes docs/figures/bench.json, or hopper.json, and,
with matplotlib, the plots beside it. The blocks `speed...` and `hopper` of
docs/performance.md and README.md are written from these files; without
`results` only they are.
"""

import pathlib
import sys

from . import hopper, pages, plots, results
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
        help="write nothing, fail where a page does not say what the figures do",
    )


def command(arguments):
    if arguments.results:
        publish(arguments.results, ROOT)
    hold(ROOT, is_update=not arguments.check)
    return 0


def publish(path, root):
    """Takes the place of the figures of the last run of its kind."""
    plots.pyplot("flashcore-bench publish results.json")
    data = results.read(path)
    figures = root / FIGURES
    if data["settings"].get("chip") == hopper.CHIP:
        results.write_compact(figures / "hopper.json", hopper.compact(data))
        shown = hopper.plotted(results.read(figures / "hopper.json"))
        plots.draw(shown, figures, plots.HOPPER_FIGURES)
        return
    _expect_all(data)
    results.write_compact(
        figures / "bench.json", results.compact(data, CONTENDERS)
    )
    plots.draw(results.read(figures / "bench.json"), figures)


def blocks(root):
    """{page: {block: text}} of all figures."""
    texts = pages.blocks(results.read(root / FIGURES / "bench.json"))
    path = root / FIGURES / "hopper.json"
    found = hopper.blocks(results.read(path) if path.exists() else None)
    return {page: texts[page] | found[page] for page in texts}


def hold(root, is_update=False):
    """Writes the blocks of all pages, or fails where one differs."""
    # Of the tree alone; the Python package does not have it.
    sys.path.insert(0, str(ROOT / "scripts"))
    import marked_blocks

    for page, texts in blocks(root).items():
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
