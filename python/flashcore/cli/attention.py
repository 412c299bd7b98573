"""Runs flashcore.attention on random inputs and compares it with the reference.

The line begins as that of flashcore run, whose criterion it has; then follow
the kernel that served the call, and what the call took. The exit code is 0
where all is right, 1 where a result is wrong, 2 for bad input.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from flashcore import _core, kernels
from flashcore.blocks import size_of_word
from flashcore.clauses import read_clause
from flashcore.cli import inputs
from flashcore.cli.command import UsageError, number, print_json
from flashcore.cli.functions import add_function_arguments, read_functions
from flashcore.cli.progress import Progress
from flashcore.errors import KernelFault, NoDeviceError
from flashcore.mods import read_mods
from flashcore.operands import CLAUSES, NEW_ROWS
from flashcore.options import Mods, make_options
from flashcore.problem import Problem, abridge
from flashcore.resolve import call_for
from flashcore.tensors import Sizes

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "problem",
        metavar="PROBLEM",
        help="words of --shape such as 'b1 h32/8 s4096 d128 bf16 causal'; flashcore compile "
        "--help lists them",
    )
    add_function_arguments(parser)
    parser.add_argument(
        "--device",
        choices=("cuda", "emulator", "reference"),
        help="where to run (default: cuda if there is a GPU, else emulator)",
    )
    parser.add_argument(
        "--static", action="store_true", help="a kernel for exactly these sizes"
    )
    parser.add_argument(
        "--schedule",
        type=_read_schedule,
        metavar="NAME=VALUE,...",
        help="choices for the kernel such as block-n=64,num-stages=2; flashcore compile --help "
        "lists them",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="time later calls too: the host's time of one, and on a GPU its own, which needs "
        "PyTorch",
    )
    parser.add_argument("--seed", type=number, help="of the inputs (default: random)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _read_schedule(text: str) -> Dict[str, str]:
    schedule = {}
    for option in text.split(","):
        name, separator, value = option.partition("=")
        if not name or not separator:
            raise argparse.ArgumentTypeError(f"expects NAME=VALUE, but got '{option}'")
        schedule[name.lstrip("-")] = value
    return schedule


@dataclass
class Outcome:
    """What came of a call."""

    o: Any
    lse: Any
    scores: Any
    seconds: float
    was_compiled: bool
    kernel: Optional[kernels.KernelKey]
    loaded: Optional[kernels.Loaded]


def run(options: argparse.Namespace) -> int:
    problem = _read_problem(options.problem)
    mods, captures = _read_mods(problem, options)
    kind = options.device or _default_device()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    said: Dict[str, Any] = {"problem": problem.words(), "device": kind, "seed": seed}
    with Progress("drawing inputs", silent=options.json) as progress:
        arrays = inputs.draw(problem, seed, kind)
        arrays.beside.update((f"capture{i}", array) for i, array in enumerate(captures))
        call = _make_call(problem, arrays, kind, options, mods)
        progress.say("compiling and running")
        try:
            outcome = _call_first(call, problem)
        except KernelFault as fault:
            return _report_fault(said, str(fault), options)
        progress.say("comparing with the reference")
        said.update(_describe(outcome))
        said.update(_check(problem, arrays, outcome))
        if options.time:
            progress.say("timing")
            said["time"] = _time(problem, arrays, call, kind)
    if options.json:
        print_json(said)
    else:
        print(_render(said))
    return 0 if said["result"] == "PASS" else 1


def _read_problem(words: str) -> Problem:
    problem = Problem.parse(words)
    sizes = ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k")
    for name in sizes:
        if getattr(problem, name) is None:
            raise UsageError(f"expects {name} to be known, but got ? in '{words}'")
    if problem.append == "?":
        raise UsageError(f"expects a number of rows to append, but got ? in '{words}'")
    for axis, size in problem.sizes:
        if size == "?":
            raise UsageError(f"expects {axis} to be known, but got ? in '{words}'")
    captures = [word for word in problem.regions if word.startswith("%")]
    if captures:
        raise UsageError(
            "expects regions that read no tensors, whose contents nobody knows here, but got "
            f"{abridge(captures[0])} in '{abridge(words)}'"
        )
    if problem.scores_dtype not in (None, "f32"):
        raise UsageError(f"expects scores of f32, but got {problem.scores_dtype} in '{words}'")
    return problem


def _default_device() -> str:
    try:
        kernels.device("cuda")
        return "cuda"
    except NoDeviceError:
        return "emulator"


def _read_mods(problem: Problem, options: argparse.Namespace) -> Tuple[Mods, Tuple[Any, ...]]:
    """The regions of the words and of functions, and what functions read."""
    functions = read_functions(options)
    if functions == (None, None):
        return (problem.regions, ()), ()
    (regions, kinds), captures = read_mods(*functions)
    named = [word.partition("=")[0] for word in (*problem.regions, *regions)]
    for name in ("score", "mask"):
        if named.count(name) > 1:
            raise UsageError(f"expects one {name}, of the words or of --{name}-mod, but got both")
    return ((*problem.regions, *regions), kinds), captures


def _make_call(
    problem: Problem,
    arrays: inputs.Inputs,
    kind: str,
    options: argparse.Namespace,
    mods: Mods,
) -> Callable[[], Any]:
    """``flashcore.attention`` with what the problem says, whose regions are text."""
    made = make_options(
        causal=problem.causal or False,
        window=(problem.window_left, problem.window_right),
        softcap=problem.softcap,
        scale=problem.scale,
        lse=problem.lse,
        layout=arrays.layout,
        schedule=options.schedule,
        device=None if arrays.is_on_gpu else kind,
        static=options.static,
        scores=problem.scores,
        dropout_p=problem.dropout or 0.0,
        rotary_interleaved=(problem.rotary or "").endswith(":interleaved"),
        block_size=problem.blocks and size_of_word(problem.blocks),
        mods=mods,
    )
    beside = tuple(arrays.beside.get(name) for name in CLAUSES)
    beside += tuple(arrays.beside[f"capture{i}"] for i in range(len(mods[1])))
    call = call_for(made)
    return lambda: call.run(arrays.q, arrays.k, arrays.v, arrays.bias, None, None, beside)


def _call_first(call: Callable[[], Any], problem: Problem) -> Outcome:
    before, compiled = set(kernels.loaded()), kernels.statistics.compiled
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = call()
        inputs.wait(result)
    seconds = time.perf_counter() - start
    for each in warned:
        text = str(each.message).removeprefix("flashcore: ")
        print(f"flashcore: note: {text}", file=sys.stderr)
    o, *others = result if isinstance(result, tuple) else (result,)
    lse = others.pop(0) if problem.lse else None
    scores = others.pop() if problem.scores else None
    made = {key: value for key, value in kernels.loaded().items() if key not in before}
    kernel, loaded = next(iter(made.items()), (None, None))
    was_compiled = kernels.statistics.compiled > compiled
    return Outcome(o, lse, scores, seconds, was_compiled, kernel, loaded)


# Checking -------------------------------------------------------------------


def _check(problem: Problem, arrays: inputs.Inputs, outcome: Outcome) -> Dict[str, Any]:
    assert outcome.loaded
    tensors = {
        name: array
        for name, array in {
            "q": arrays.q,
            "k": arrays.k,
            "v": arrays.v,
            "bias": arrays.bias,
            **arrays.beside,
            "o": outcome.o,
            "lse": outcome.lse,
            "scores": outcome.scores,
        }.items()
        if array is not None
    }
    specs, pointers, kept = [], [], []
    for name, array in tensors.items():
        host = inputs.on_host(array)
        specs.append(_spec(name, host, arrays.layout))
        view = _core.view(host, None)
        pointers.append(view.pointer)
        kept.append(host)
    threads = os.cpu_count() or 1
    o, lse, scores, of_k, of_v = outcome.loaded.bundle.check_outputs(specs, pointers, threads)
    reports = {"o": o}
    if problem.lse:
        reports["lse"] = lse
    if problem.scores:
        reports["scores"] = scores
    if problem.append is not None:
        reports.update(k=of_k, v=of_v)
    passed = all(report["pass"] for report in reports.values())
    return {"result": "PASS" if passed else "FAIL", **reports}


#: Those whose axes are in the order of the layout.
_ROWS = ("q", "k", "v", "o", *NEW_ROWS)


def _spec(name: str, array: Any, layout: str) -> Tuple[str, int, bool, Sizes, Sizes]:
    """What the check is told of a tensor."""
    if name in CLAUSES:
        tensor = read_clause(name, array, layout)
        element = 4 if tensor.dtype in ("float32", "int32") else 2
        return tensor.name, element, False, tensor.sizes, tensor.strides
    view = _core.view(array, None)
    axes = (0, 2, 1, 3) if name in _ROWS and layout == "bshd" else range(view.rank)
    sizes, strides = (tuple(values[axis] for axis in axes) for values in (view.shape, view.strides))
    element = 4 if view.dtype in ("float32", "int32") else 2
    return name, element, name in ("o", "lse", "scores"), sizes, strides


def _describe(outcome: Outcome) -> Dict[str, Any]:
    assert outcome.kernel and outcome.loaded
    module = outcome.loaded.module
    fields = ("name", "registers", "local_bytes", "shared_bytes")
    return {
        "device_name": module.device.name,
        "code": module.code,
        "kernel": {
            "words": outcome.kernel.words,
            "schedule": dict(outcome.kernel.schedule),
            "was_compiled": outcome.was_compiled,
            "functions": [dict(zip(fields, kernel)) for kernel in module.kernels],
        },
        "first_call_seconds": outcome.seconds,
    }


def _report_fault(said: Dict[str, Any], fault: str, options: argparse.Namespace) -> int:
    if options.json:
        print_json({**said, "result": "FAIL", "error": fault})
    else:
        print(f"FAIL {said['problem']}, {said['device']}, seed {said['seed']}\n{fault}")
    return 1


# Timing ---------------------------------------------------------------------


def _time(
    problem: Problem, arrays: inputs.Inputs, call: Callable[[], Any], kind: str
) -> Dict[str, Any]:
    timing: Dict[str, Any] = {"host_us": _time_host(call)}
    if arrays.is_on_gpu:
        replays = inputs.time_on_gpu(call)
        median = sorted(replays)[len(replays) // 2]
        timing.update(
            median_us=median,
            min_us=min(replays),
            max_us=max(replays),
            tflops=problem.count_flops() / median * 1e-6,
        )
    return timing


def _time_host(call: Callable[[], Any]) -> float:
    """Microseconds of the host for one call: the median of rounds that are too
    short to fill the queue of a GPU."""
    rounds: List[float] = []
    deadline = time.perf_counter() + 1
    while len(rounds) < 3 or (len(rounds) < 50 and time.perf_counter() < deadline):
        count = 20 if rounds and rounds[-1] < 1e3 else 1
        start = time.perf_counter()
        for _ in range(count):
            result = call()
        rounds.append((time.perf_counter() - start) / count * 1e6)
        inputs.wait(result)
    return sorted(rounds)[len(rounds) // 2]


# Text -----------------------------------------------------------------------


def _render(said: Dict[str, Any]) -> str:
    kernel = said["kernel"]
    code = "the reference" if said["device"] == "reference" else said["code"]
    line = f"{said['result']} {abridge(said['problem'])}, {code}, seed {said['seed']}"
    line += f", max error O {_errors(said['o'])}"
    if "lse" in said:
        line += f", lse {_errors(said['lse'])}"
    if "scores" in said:
        line += f", scores {_errors(said['scores'])}"
    lines = [line]
    for name, axes in (("o", 4), ("lse", 3), ("scores", 4), ("k", 4), ("v", 4)):
        if name in said and not said[name]["pass"]:
            lines.append(_failure(name, said[name], axes))
    options = "".join(f" --{name}={value}" for name, value in kernel["schedule"].items())
    source = "compiled now" if kernel["was_compiled"] else "compiled before"
    lines.append(f"  kernel: {abridge(kernel['words'])}{options}, {source}")
    for function in kernel["functions"]:
        lines.append(f"  {_resources(function)}")
    lines.append(f"  first call: {said['first_call_seconds']:.3f} s{_times(said.get('time'))}")
    return "\n".join(lines)


def _errors(report: Dict[str, Any]) -> str:
    return f"{report['error']:.2e} of {report['allowed']:.2e} allowed"


def _failure(name: str, report: Dict[str, Any], axes: int) -> str:
    row = "row" if name in ("k", "v") else "query"
    names = ("batch", "head", row, "key" if name == "scores" else "column")[:axes]
    place = ", ".join(f"{axis} {at}" for axis, at in zip(names, report["at"]))
    text = (
        f"  {'O' if name == 'o' else name} at {place}: expects {report['expected']:.6g}, but got "
        f"{report['actual']:.6g}, an error of {report['error']:.2e} where "
        f"{report['allowed']:.2e} is allowed"
    )
    if report["nans"] or report["infinities"]:
        text += (
            f"; {report['nans']} NaN and {report['infinities']} infinities in "
            f"{report['elements']} elements"
        )
    return text


def _resources(function: Dict[str, Any]) -> str:
    text = f"{function['name']}: {function['shared_bytes']} bytes of shared memory a block"
    if function["registers"]:
        text += (
            f", {function['registers']} registers and {function['local_bytes']} bytes of local "
            "memory a thread"
        )
    return text


def _times(timing: Optional[Dict[str, Any]]) -> str:
    if not timing:
        return ""
    text = f"; later ones: {timing['host_us']:.1f} us of the host"
    if "median_us" in timing:
        text += (
            f", {timing['median_us']:.2f} us [{timing['min_us']:.2f}..{timing['max_us']:.2f}] of "
            f"the GPU, {timing['tflops']:.1f} TFLOP/s"
        )
    return text
