"""A table to paste: FlashCore beside what else computes attention on this card.

Times flashcore.attention as a program calls it (and with static=True) beside
the backends of PyTorch's scaled_dot_product_attention, flash-attn where it is
installed, and FlexAttention, on shapes of yours:

  flashcore bench --shape 'b1 h32/8 s4096 d128 bf16 causal' --shape 's1x8192 h32/8 d128'

Each result is compared with a float32 reference first. Then every round replays
a CUDA graph of each contender, in an order of its own; inputs rotate over more
memory than the L2 cache holds. Times are medians over the rounds, and
differences under 3 % are ties.
"""

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import statistics

from . import results, rotation
from .cli import add_seed, positive_integer
from .errors import UserError
from .monitor import Monitor
from .package import parse_shape
from .peers import CALLS, PEERS
from .problems import Problem
from .progress import Progress
from .report import table, throttled
from .timing import Request, summary, time_entry
from .toolchain import version
from .worker import WorkerDevice

# Prefill with 16k tokens, decoding, and small problems.
SHAPES = (
    "b4 h32 s4096 d64",
    "b4 h32 s4096 d64 causal",
    "b4 h16 s4096 d128",
    "b4 h16 s4096 d128 causal",
    "b1 h32/8 s1x8192 d128",
    "b16 h32/8 s1x8192 d128",
    "b1 h12 s128 d64",
    "b8 h16 s256 d64",
)
# Medians of two runs of one contender differ by less.
TIE = 0.03
_LAYOUTS = ("bhsd", "bshd")
_SIZES = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
# What a shape may say: all contenders are told of it.
_TOLD = {
    *_SIZES,
    "head_dim",
    "head_dim_v",
    "dtype",
    "causal",
    "window_left",
    "window_right",
    "softcap",
    "scale",
    "bias",
    "bias_dtype",
    "layout",
}
# What changes timings, or explains them.
_PREFIXES = ("CUDA_", "FLASHCORE_", "NVIDIA_TF32", "PYTORCH_", "TORCH", "TRITON_")
_PACKAGES = {"flash-attn": "flash_attn", "flash-attn-3": "flash_attn_3"}


def add_arguments(parser):
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="WORDS",
        help="an attention in the words of flashcore-compile --shape, with every "
        "size known; may be given several times (default: "
        f"{', '.join(map(repr, SHAPES))})",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        metavar="PEER",
        help=f"of {', '.join(PEERS)} (default: all)",
    )
    parser.add_argument(
        "--rounds",
        type=positive_integer,
        help="rounds of a shape (default: 5, and up to 15 while they take less "
        "than 2 s)",
    )
    add_seed(parser)
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        metavar="FILE",
        help="also write what was measured, as the results.json of 'run'",
    )


def read_shape(words):
    """The problem that words stand for, which is its name."""
    words = " ".join(words.split())
    given = parse_shape(words)
    for field in dataclasses.fields(given):
        value = getattr(given, field.name)
        if field.name in _SIZES and value is None:
            raise UserError(
                f"expects {field.name} to be known, but got ? in '{words}'"
            )
        if field.name not in _TOLD and value != field.default:
            raise UserError(
                "expects what all contenders compute (sizes, type, causal, "
                f"window, softcap, scale, bias), but got {field.name} in "
                f"'{words}'"
            )
    if given.layout not in _LAYOUTS:
        raise UserError(
            f"expects the layout {' or '.join(_LAYOUTS)}, but got "
            f"{given.layout} in '{words}'"
        )
    return Problem(
        words,
        "given",
        *(getattr(given, size) for size in _SIZES),
        head_dim=given.head_dim,
        causal=bool(given.causal),
        dtype=given.dtype,
        head_dim_v=given.head_dim_v,
        is_top_left=given.causal == "top_left",
        window=(given.window_left, given.window_right),
        softcap=given.softcap,
        scale=given.scale,
        bias=given.bias and (given.bias_dtype, given.bias),
        layout=given.layout,
    )


def open_cold_device():
    """Called in the worker process: only that one needs torch."""
    from .torch_device import TorchDevice

    return TorchDevice(is_cold=True)


def command(arguments):
    shapes = dict.fromkeys(arguments.shape or SHAPES)
    selected = [read_shape(words) for words in shapes]
    peers = PEERS if arguments.peers is None else arguments.peers
    rounds = rotation.Rounds()
    if arguments.rounds:
        rounds = rotation.Rounds.exactly(arguments.rounds)
    data = results.empty()
    progress = Progress(len(selected))
    with WorkerDevice(open_cold_device, on_loss=progress.note) as device:
        facts = device.describe()
        data["card"] |= facts["card"] | software()
        dtypes = sorted({problem.dtype for problem in selected})
        data["settings"] = {"seed": arguments.seed, "dtype": ", ".join(dtypes)}
        with Monitor(facts["gpu_id"]) as monitor:
            data["card"] |= monitor.card()
            data["notes"] += [monitor.note] if monitor.note else []
            # What was timed before an interruption is shown, too.
            try:
                run(
                    device, selected, peers, rounds, data, progress, monitor
                )
            finally:
                progress.close()
                if data["problems"]:
                    print(write(data))
    if arguments.out:
        results.write_json(arguments.out, data)
    return results.report_failures(data)


def run(timer, selected, peers, rounds, data, progress, monitor=None):
    """Adds the times of the problems to `data`; `timer` is a WorkerDevice or a
    test's stand-in."""
    contenders, seed = (*CALLS, *dict.fromkeys(peers)), data["settings"]["seed"]
    for problem in selected:
        request = Request(problem, {}, contenders, seed, rounds)
        entry = time_entry(timer, request, monitor=monitor)
        data["problems"][problem.name] = entry
        progress.step(f"{problem.name}: {summary(entry)}")


def software():
    """Versions of what may be there beside PyTorch, and what surrounds it."""
    found = {
        "flashcore": version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} "
        f"{platform.machine()}",
        "environment": environment(os.environ),
    }
    for name in ("triton", *_PACKAGES.values()):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def environment(variables):
    """Those that matter, as NAME=VALUE; a table to paste has no paths."""
    return [
        f"{name}={'...' if '/' in value else value}"
        for name, value in sorted(variables.items())
        if name.startswith(_PREFIXES)
    ]


# The table ------------------------------------------------------------------


def write(data):
    """Markdown: the table, and what it was measured with."""
    names = [n for n in (*CALLS, *PEERS) if _answers(data, n)]
    titles = {**CALLS, **PEERS}
    head = ["us of a call", *(_title(n, titles, data) for n in names)]
    head += ["TFLOP/s", "against the best other"]
    rows = [_row(entry, names) for entry in data["problems"].values()]
    card = data["card"]
    days = sorted({e["date"][:10] for e in data["problems"].values()})
    heading = (
        f"### FlashCore {card['flashcore']} on {card['name']}, {days[-1]}"
        if days
        else "### Nothing timed"
    )
    notes = [
        "Medians of CUDA graph replays in random rotation, inputs not in L2; "
        f"bold: the fastest, and what is within {TIE:.0%} of it, which is a tie. "
        "The last two columns are of FlashCore's default call. Shapes are in the "
        "words of --shape: f16 where they name no type.",
        *(f"* {line}" for line in _facts(data)),
        *(f"* {line}" for line in _reasons(data, names, titles)),
    ]
    return "\n\n".join([heading, table(head, rows), "\n".join(notes)])


def _answers(data, name):
    return any(
        name in entry["contenders"] for entry in data["problems"].values()
    )


def _title(name, titles, data):
    known = data["card"].get(_PACKAGES.get(name))
    return f"{titles[name]} {known}" if known else titles[name]


def _times(entry):
    """Samples by name, of those whose result was right."""
    return {
        name: contender["us"]["rounds"]
        for name, contender in entry["contenders"].items()
        if results.passes(contender["error"])
    }


def _row(entry, names):
    times = _times(entry)
    medians = {name: statistics.median(us) for name, us in times.items()}
    best = min(medians.values(), default=None)
    cells = [f"`{entry['problem']['name']}`"]
    for name in names:
        us = medians.get(name)
        text = "-" if us is None else _digits(us)
        is_best = us is not None and us / best - 1 < TIE
        cells.append(f"**{text}**" if is_best else text)
    ours = entry["contenders"].get("flashcore")
    has_ours = "flashcore" in times
    cells.append(f"{_digits(ours['tflops'])}" if has_ours else "-")
    return [*cells, _standing(times)]


def _standing(times):
    """How many times as fast as the fastest of the others, round by round."""
    others = {n: us for n, us in times.items() if n not in CALLS}
    if "flashcore" not in times or not others:
        return "-"
    best = min(others.values(), key=statistics.median)
    gain = rotation.gain(best, times["flashcore"])
    return "tie" if abs(gain) < TIE else f"{1 + gain:.2f}"


def _digits(value):
    """Three of them."""
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f}"


def _facts(data):
    card = data["card"]
    sizes = [card.get("chip"), f"{card['sms']} SMs"]
    sizes += [f"{card['memory_gib']} GiB"] if "memory_gib" in card else []
    hardware = [f"{card['name']} ({', '.join(filter(None, sizes))})"]
    hardware += _known(card, {"driver": "driver", "power_limit_w": "power limit W"})
    yield f"card: {', '.join([*hardware, *_conditions(data)])}"
    yield "software: " + ", ".join(
        [
            f"FlashCore {card['flashcore']}{_chips(data)}",
            *_known(
                card,
                {
                    "torch": "PyTorch",
                    "cuda": "CUDA",
                    "cudnn": "cuDNN",
                    "triton": "Triton",
                    "python": "Python",
                },
            ),
            card["system"],
        ]
    )
    yield f"environment: {', '.join(card['environment']) or 'nothing set'}"
    yield from data["notes"]


def _chips(data):
    """What the kernels of our calls were compiled for."""
    chips = {
        contender["chip"]
        for entry in data["problems"].values()
        for contender in entry["contenders"].values()
        if "chip" in contender
    }
    return f" (kernels for {', '.join(sorted(chips))})" if chips else ""


def _known(card, names):
    return [f"{title} {card[key]}" for key, title in names.items() if card.get(key)]


def _conditions(data):
    """Clock, power and throttling while it was timed."""
    seen = results.conditions(data)
    for key, (name, unit) in results.QUANTITIES.items():
        if key in seen:
            of = seen[key]
            yield (
                f"{name} {of['median']:.0f} {unit} ({of['min']:.0f} to "
                f"{of['max']:.0f})"
            )
    if "throttle" in seen:
        yield f"throttled: {throttled(seen)}"


def _reasons(data, names, titles):
    """Why there are dashes, and columns less: each reason once, with how many
    shapes it holds for."""
    where = {}
    for entry in data["problems"].values():
        refused = {n: " ".join(r.split()) for n, r in entry["refused"].items()}
        for name, contender in entry["contenders"].items():
            if not results.passes(contender["error"]):
                refused[name] = results.describe_wrong(contender["error"])
        for name, reason in refused.items():
            where.setdefault((name, reason), []).append(entry["problem"]["name"])
    total = len(data["problems"])
    for (name, reason), shapes in where.items():
        place = "" if len(shapes) == total else f" ({_places(shapes)})"
        yield f"no {titles[name]}: {reason}{place}"


def _places(shapes):
    first = f"`{shapes[0]}`"
    return first if len(shapes) == 1 else f"{first} and {len(shapes) - 1} more"
