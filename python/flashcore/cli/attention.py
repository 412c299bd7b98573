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
from typing import Any, Callable, Dict, List, Optional

from flashcore import _core, attention, kernels
from flashcore.clauses import prepare
from flashcore.cli import inputs
from flashcore.cli.command import UsageError, number, print_json
from flashcore.cli.progress import Progress
from flashcore.errors import KernelFault, NoDeviceError
from flashcore.problem import Problem, abridge

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "problem",
        metavar="PROBLEM",
        help="words of --shape such as 'b1 h32/8 s4096 d128 bf16 causal'; flashcore compile "
        "--help lists them",
    )
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
    kind = options.device or _default_device()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    said: Dict[str, Any] = {"problem": problem.words(), "device": kind, "seed": seed}
    with Progress("drawing inputs", silent=options.json) as progress:
        arrays = inputs.draw(problem, seed, kind)
        call = _make_call(problem, arrays, kind, options)
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
    if problem.blocks:
        raise UsageError(
            f"expects no block lists, but got blocks={problem.blocks} in '{words}'; flashcore-run "
            "makes some"
        )
    others = [*problem.operands, *(f"{axis}={size}" for axis, size in problem.sizes), *problem.regions]
    if others:
        raise UsageError(
            f"expects words of tensors that are drawn here, but got {abridge(others[0])} in "
            f"'{words}'; flashcore-run draws those of every word"
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


def _make_call(
    problem: Problem, arrays: inputs.Inputs, kind: str, options: argparse.Namespace
) -> Callable[[], Any]:
    window = (problem.window_left, problem.window_right)
    keywords: Dict[str, Any] = {
        "causal": problem.causal or False,
        "window": None if window == (None, None) else window,
        "softcap": problem.softcap,
        "scale": problem.scale,
        "bias": arrays.bias,
        "dropout_p": problem.dropout or 0.0,
        "rng": arrays.rng,
        **arrays.appended,
        "rotary_interleaved": (problem.rotary or "").endswith(":interleaved"),
        "lse": problem.lse,
        "scores": problem.scores,
        "layout": arrays.layout,
        "schedule": options.schedule,
        "device": None if arrays.is_on_gpu else kind,
        "static": options.static,
    }
    return lambda: attention(arrays.q, arrays.k, arrays.v, **keywords)


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
            "rng": None if arrays.rng is None else prepare("rng", arrays.rng),
            **arrays.appended,
            "o": outcome.o,
            "lse": outcome.lse,
            "scores": outcome.scores,
        }.items()
        if array is not None
    }
    specs, pointers, kept = [], [], []
    for name, array in tensors.items():
        host = inputs.on_host(array)
        view = _core.view(host, None)
        order = (0, 1, 2, 3)
        if name in ("q", "k", "v", "o", "k_new", "v_new") and arrays.layout == "bshd":
            order = (0, 2, 1, 3)
        axes = order if view.rank == 4 else range(view.rank)
        element = 4 if view.dtype in ("float32", "int32") else 2
        sizes = tuple(view.shape[axis] for axis in axes)
        strides = tuple(view.strides[axis] for axis in axes)
        specs.append((name, element, name in ("o", "lse", "scores"), sizes, strides))
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
    line = f"{said['result']} {said['problem']}, {code}, seed {said['seed']}"
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
    lines.append(f"  kernel: {kernel['words']}{options}, {source}")
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
