"""Errors of the default schedule and of each fast form of the softmax.

flashcore-run compares O with a double precision reference. What is reported
are its largest error and the norm of all errors, as multiples of those of the
same formula done in the input precision: the largest over some draws of random
inputs: normal ones, such whose scores rise or fall along the sequence, so that
the running maximum of a walk one way or the other keeps rising, large ones, and
finite masks in a bias.
FlashAttention allows 2. The exit code is 1 where a kernel has more or fails.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import math
import os
import pathlib
import tempfile

from . import results
from .cli import (
    add_tools,
    add_variants,
    default_text,
    parse_variants,
    positive_integer,
)
from .errors import UserError
from .kernels import compile_all
from .progress import Progress
from .report import table
from .mlir import attention, may_have_lse
from .toolchain import OUT, Toolchain

FORMAT, VERSION = "flashcore-accuracy", 1
HEAD_DIMS, DTYPES = (64, 128, 256), ("f16", "bf16")
MASKS = {"dense": "none", "causal": "bottom_right", "biased": "none"}
# Of biased problems, whose bias is one of f32 for all heads, those that it has.
KINDS = ("normal", "rising", "falling", "large")
BIASED, BIASED_KINDS = ("f32", "11qk"), ("masked", "large")
# Lengths of queries and keys that are no multiples of a tile. The emulator has
# them shorter.
SEQLENS = {"cuda": (300, 1000), "emulator": (70, 150)}
# Runs share the cores with their references.
_PROCESSES = 4
_TIMEOUT_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Form:
    """Options of flashcore-compile, and the problem they are tried on. Sizes
    that are open get the schedule of grids that fill the chip."""

    name: str
    options: tuple = ()
    has_open_sizes: bool = False
    heads: tuple = (4, 2)
    most_queries: int = 1 << 30
    most_keys: int = 1 << 30

    def shape(self, seqlens):
        sq = min(seqlens[0], self.most_queries)
        sk = min(seqlens[1], self.most_keys)
        return (1, *self.heads, sq, sk)


_STALE = ("--row-max=stale", "--row-sum=mma")
FORMS = (
    Form("default", has_open_sizes=True),
    Form("small-grid"),
    Form("stale-mma", _STALE),
    Form("exact-mma", ("--row-max=exact", "--row-sum=mma"), True),
    Form("overlap", ("--overlap=qk", *_STALE), True),
    Form(
        "key-warps",
        (
            *("--key-warps=2", "--num-warps=2", "--block-m=16"),
            *("--block-n=16", "--num-stages=2", *_STALE),
        ),
    ),
    # The scores of all keys stay in registers.
    Form(
        "one-pass",
        (
            *("--softmax=one_pass", "--key-warps=2", "--num-warps=2"),
            *("--block-m=16", "--block-n=16", "--num-stages=2"),
        ),
        most_keys=250,
    ),
    Form("key-splits", ("--key-splits=3", *_STALE)),
    # The largest error of a few rows is a matter of luck, so many heads.
    Form(
        "decode",
        ("--head-group=4", "--key-splits=3"),
        heads=(32, 8),
        most_queries=5,
    ),
)


def add_arguments(parser):
    add_tools(parser)
    add_variants(parser)
    parser.add_argument(
        "--device",
        choices=tuple(SEQLENS),
        default="cuda",
        help="of flashcore-run (default: cuda)",
    )
    parser.add_argument(
        "--forms",
        nargs="*",
        choices=[form.name for form in FORMS],
        default=[form.name for form in FORMS],
        metavar="FORM",
        help=f"of {', '.join(form.name for form in FORMS)} (default: all)",
    )
    parser.add_argument(
        "--head-dims",
        nargs="+",
        type=positive_integer,
        default=HEAD_DIMS,
        metavar="D",
        help=f"default: {' '.join(map(str, HEAD_DIMS))}",
    )
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=DTYPES,
        default=DTYPES,
        help=f"default: {' '.join(DTYPES)}",
    )
    parser.add_argument(
        "--seqlens",
        nargs=2,
        type=positive_integer,
        metavar=("SQ", "SK"),
        help="lengths of queries and keys (default: "
        + ", ".join(f"{q} {k} on {name}" for name, (q, k) in SEQLENS.items())
        + ")",
    )
    parser.add_argument(
        "--draws",
        type=positive_integer,
        default=8,
        help="random inputs of each kind (default: 8)",
    )
    parser.add_argument(
        "--seed", type=positive_integer, default=1, help="of the first draw"
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=OUT / "bench",
        help="folder for accuracy.json and accuracy.md (default: "
        f"{default_text(OUT / 'bench')})",
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel, and the problem it runs on."""

    form: Form
    head_dim: int
    dtype: str
    mask: str
    shape: tuple

    @property
    def name(self):
        return f"{self.form.name}-d{self.head_dim}-{self.dtype}-{self.mask}"

    def text(self):
        sizes = None if self.form.has_open_sizes else self.shape
        causal, bias = MASKS[self.mask], BIASED if self.is_biased else None
        lse = may_have_lse(self.form.options)
        return attention(
            self.dtype, self.head_dim, causal, sizes, bias=bias, lse=lse
        )

    @property
    def is_biased(self):
        return self.mask == "biased"

    @property
    def kinds(self):
        return BIASED_KINDS if self.is_biased else KINDS

    def entries(self, seeds):
        """Of a list for `flashcore-run --grid`."""
        entry = {"bundle": f"{self.name}.fcb"}
        if self.form.has_open_sizes:
            names = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
            entry["dims"] = dict(zip(names, self.shape))
        return [
            entry | {"kind": kind, "seed": seed}
            for kind in self.kinds
            for seed in seeds
        ]


def judge(runs):
    """The worst of one kernel's runs on inputs of one kind: largest ratios,
    and the texts of those that did not pass."""
    worst = {"max": 0.0, "norm": 0.0}
    failures = []
    for run in runs:
        if "o" in run:
            o = run["o"]
            for key, error, yardstick in (
                ("max", o["error"], o["yardstick"]),
                ("norm", o["norm"], o["yardstick_norm"]),
            ):
                worst[key] = max(worst[key], _ratio(error, yardstick))
        if run["result"] != "PASS":
            reason = run.get("error", "not within the criterion")
            failures.append(f"seed {run['seed']}: {reason}")
    return worst | {"failures": failures}


def _ratio(error, yardstick):
    """JSON has null for what is not finite."""
    if error is None or yardstick is None:
        return math.inf
    if error == 0:
        return 0.0
    return error / yardstick if yardstick else math.inf


def passes(row):
    return (
        not row["failures"]
        and max(row["max"], row["norm"]) <= results.ERROR_LIMIT
    )


class Runner:
    """Runs cases through flashcore-run, the bundles in `folder`."""

    def __init__(self, toolchain, folder, device, seeds):
        self._toolchain, self._folder = toolchain, pathlib.Path(folder)
        self._device, self._seeds = device, seeds

    def rows(self, case):
        """A row for each kind of inputs."""
        grid = self._folder / f"{case.name}.json"
        answer = self._folder / f"{case.name}-results.json"
        grid.write_text(json.dumps(case.entries(self._seeds)))
        options = ["--grid", grid, "--device", self._device, "--json", answer]
        result = self._toolchain.run("run", options, timeout=_TIMEOUT_SECONDS)
        if not answer.exists():
            text = (result.stderr or result.stdout).strip()
            raise UserError(f"{case.name}, --device={self._device}: {text}")
        runs = json.loads(answer.read_text())
        if any("o" in run and "norm" not in run["o"] for run in runs):
            raise UserError("flashcore-run is older than this tool: build it")
        return [
            {
                "form": case.form.name,
                "options": list(case.form.options),
                "head_dim": case.head_dim,
                "dtype": case.dtype,
                "mask": case.mask,
                "shape": list(case.shape),
                "kind": kind,
                "draws": len(self._seeds),
                "device": runs[0]["device"],
            }
            | judge([run for run in runs if run["kind"] == kind])
            for kind in case.kinds
        ]


def choose_forms(arguments):
    """Those of --forms and --variant."""
    forms = [form for form in FORMS if form.name in arguments.forms]
    for contender, options in parse_variants(arguments.variant).items():
        name = contender.split(":")[1]
        if any(form.name == name for form in FORMS):
            raise UserError(
                f"--variant {name}: a form has this name; use another"
            )
        forms.append(Form(name, tuple(options)))
    if not forms:
        raise UserError("nothing to check: name --forms or a --variant")
    return forms


def make_cases(forms, arguments):
    seqlens = arguments.seqlens or SEQLENS[arguments.device]
    return [
        Case(form, head_dim, dtype, mask, form.shape(seqlens))
        for form, head_dim, dtype, mask in itertools.product(
            forms, arguments.head_dims, arguments.dtypes, MASKS
        )
    ]


def measure(cases, toolchain, chip, device, seeds):
    """The results, as accuracy.json has them."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            pathlib.Path(folder) / f"{case.name}.fcb": case for case in cases
        }
        progress = Progress(2 * len(cases))
        jobs = {
            path: (case.text(), case.form.options)
            for path, case in paths.items()
        }
        refused = compile_all(toolchain, jobs, chip, progress)
        runner = Runner(toolchain, folder, device, seeds)
        accepted = [case for path, case in paths.items() if path not in refused]
        rows = []
        count = min(_PROCESSES, os.cpu_count())
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            for case, found in zip(accepted, pool.map(runner.rows, accepted)):
                rows += found
                progress.step(f"{case.name}: {_format_worst(found)}")
        progress.close()
    return {
        "format": FORMAT,
        "version": VERSION,
        "chip": chip,
        "limit": results.ERROR_LIMIT,
        "rows": rows,
        "refused": {paths[p].name: text for p, text in refused.items()},
    }


def command(arguments):
    cases = make_cases(choose_forms(arguments), arguments)
    seeds = range(arguments.seed, arguments.seed + arguments.draws)
    with tempfile.TemporaryDirectory() as unpacked:
        toolchain = Toolchain(arguments.tools, unpacked)
        chip = arguments.chip or "sm_89"
        data = measure(cases, toolchain, chip, arguments.device, seeds)
    if not data["rows"]:
        reasons = dict.fromkeys(data["refused"].values())
        raise UserError("nothing could be compiled: " + "; ".join(reasons))
    arguments.out.mkdir(parents=True, exist_ok=True)
    results.write_json(arguments.out / "accuracy.json", data)
    text = write(data)
    (arguments.out / "accuracy.md").write_text(text)
    print(text, end="")
    return int(not all(map(passes, data["rows"])))


def write(data):
    """Markdown: forms by head_dim and kind of inputs, all masks together."""
    rows = data["rows"]
    columns = list(
        dict.fromkeys((row["head_dim"], row["kind"]) for row in rows)
    )
    columns.sort()
    lines = []
    for form, dtype in dict.fromkeys((r["form"], r["dtype"]) for r in rows):
        mine = [r for r in rows if (r["form"], r["dtype"]) == (form, dtype)]
        cells = [
            _cell([r for r in mine if (r["head_dim"], r["kind"]) == column])
            for column in columns
        ]
        lines.append([form, dtype, *cells])
    head = ["form", "type", *(f"D {dim} {kind}" for dim, kind in columns)]
    devices = ", ".join(dict.fromkeys(row["device"] for row in rows))
    draws = max(row["draws"] for row in rows)
    sections = [
        f"### Errors as multiples of those in the input precision, {devices}",
        f"Largest error / norm of all errors of O, the largest of {draws} "
        f"draws, dense, causal and biased; {data['limit']:g} is allowed. On "
        "rising inputs Q is doubled and K grows along the sequence from 0.1 to 3 "
        "times normal values; on falling ones it shrinks as much, which keeps "
        "raising the maximum of kernels that walk from the last key down. "
        "Large scores have maxima of 1e3 to 1e7, and masks are those of a bias "
        "of f32.",
        table(head, lines),
        _format_failures(rows),
        _format_refused(data["refused"]),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _cell(rows):
    if not rows:
        return "-"
    text = _format_worst(rows)
    return text if all(map(passes, rows)) else f"**{text}**"


def _format_worst(rows):
    worst = [max(row[key] for row in rows) for key in ("max", "norm")]
    return " / ".join(f"{value:.2f}" for value in worst)


def _format_failures(rows):
    lines = []
    for row in rows:
        if not passes(row):
            where = " ".join(str(row[k]) for k in ("dtype", "mask", "kind"))
            reasons = "; ".join(row["failures"]) or _format_worst([row])
            lines.append(
                f"* **{row['form']}, D {row['head_dim']} {where}**: {reasons}"
            )
    return "\n".join(lines)


def _format_refused(refused):
    """Each reason once, with the kernels it holds for."""
    where = {}
    for name, text in refused.items():
        error = next((li for li in text.splitlines() if "error: " in li), text)
        where.setdefault(error.split("error: ")[-1], []).append(name)
    return "\n".join(
        f"* not compiled: {', '.join(names)}: {reason}"
        for reason, names in where.items()
    )
