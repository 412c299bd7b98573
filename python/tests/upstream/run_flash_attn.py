#!/usr/bin/env python3
"""Runs flash-attn's own tests with FlashCore in its place, to their forward asserts.

    python run_flash_attn.py CHECKOUT [--sample N] [--each COUNT] [--processes P]
                             [--json FILE] [pytest arguments]

CHECKOUT is an unpacked flash-attn 2.8.3, such as its source archive of PyPI, which
has flash_attn/ and tests/test_flash_attn.py. Needs a GPU, PyTorch, pytest and
einops; with --collect-only after -- no GPU.

`flash_attn` and `flash_attn.flash_attn_interface` become flashcore.flash_attn; other
modules that the tests import (bert_padding, layers.rotary) come from the checkout, with
the checkout's formula in PyTorch for its Triton kernel of rotary embeddings. The tests
run unchanged, but without recording gradients: torch.autograd.grad gives placeholders,
and asserts about these do not count. What is not run is named with its reason. It fails
if a test fails, or ends without an assert about an output.

--sample N runs one of N tests, --each COUNT so many of each function, drawn at random,
but always the same ones.
"""

import argparse
import ast
import collections
import datetime
import json
import random
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest
import torch

TESTS = (
    "test_flash_attn_qkvpacked",
    "test_flash_attn_varlen_qkvpacked",
    "test_flash_attn_output",
    "test_flash_attn_varlen_output",
    "test_flash_attn_causal",
    "test_flash_attn_varlen_causal",
    "test_flash_attn_splitkv",
    "test_flash_attn_kvcache",
    "test_flash_attn_race_condition",
)
#: Tests that are not run, and why. Those of determinism compare gradients alone.
DESELECTED = {
    "test_flash_attn_bwd_overflow": "is about the backward pass",
    "test_flash_attn_bwd_transpose": "is about the backward pass",
    "test_flash_attn_bwd_varlen_overflow": "is about the backward pass",
    "test_flash_attn_deterministic": "is about the backward pass",
    "test_flash_attn_varlen_deterministic": "is about the backward pass",
}
#: Of those that are run.
DROPOUT = "has dropout"
SKIPPED = "is skipped by flash-attn itself"  # parameters that do not go together
SAMPLED = "left out of the sample"


# What stands for gradients ---------------------------------------------------


class Gradient(torch.Tensor):
    """A placeholder; whatever is computed from it is one, too."""

    compared = False

    @classmethod
    def __torch_function__(cls, function, of_types, args=(), kwargs=None):
        if function in (torch.equal, torch.allclose):
            return Verdict()
        if function is torch.Tensor.item:
            return Number("nan")
        return super().__torch_function__(function, of_types, args, kwargs)


class Number(float):
    """A number made of placeholders: it may be printed, and compares to a Verdict."""

    def _same(self, *others):
        return Number("nan")

    __add__ = __radd__ = __mul__ = __rmul__ = _same

    def _compare(self, other):
        return Verdict()

    __le__ = __lt__ = __ge__ = __gt__ = _compare


class Verdict:
    """True, but remembers that someone asked."""

    def __bool__(self):
        Gradient.compared = True
        return True


def placeholder_gradients(outputs, inputs, *others, **options):
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    return tuple(torch.zeros_like(x).as_subclass(Gradient) for x in inputs)


# The package that the tests import -------------------------------------------


def install(checkout):
    """Puts flashcore.flash_attn in the place of flash_attn."""
    import flashcore.flash_attn as ours

    package = types.ModuleType("flash_attn")
    package.__path__ = [str(checkout / "flash_attn")]
    interface = types.ModuleType("flash_attn.flash_attn_interface")
    for module in (package, interface):
        for name in ours.__all__:
            setattr(module, name, getattr(ours, name))
    interface._get_block_size_n = None  # of dropout's tests
    sys.modules.update({package.__name__: package, interface.__name__: interface})
    kernel = types.ModuleType("flash_attn.ops.triton.rotary")
    kernel.apply_rotary = apply_rotary
    sys.modules[kernel.__name__] = kernel


def apply_rotary(x, cos, sin, seqlen_offsets=0, interleaved=False, **others):
    """What flash-attn's Triton kernel computes, by its formula in PyTorch, rounded once.

    x: (batch, seqlen, heads, head_dim). seqlen_offsets: int32 (batch).
    """
    formula = sys.modules["flash_attn.layers.rotary"].apply_rotary_emb_torch
    places = seqlen_offsets.long()[:, None] + torch.arange(x.shape[1], device=x.device)
    return formula(x.float(), cos[places].float(), sin[places].float(), interleaved).to(x.dtype)


# pytest ------------------------------------------------------------------------


def reason_not_to_run(parameters):
    """Of a test that has its function run, or None."""
    if parameters.get("dropout_p", 0.0) > 0:
        return DROPOUT
    if parameters.get("rotary_fraction", 0.0) > 0 and not parameters["new_kv"]:
        return SKIPPED
    if parameters.get("has_leftpad") and parameters["paged_kv_block_size"]:
        return SKIPPED
    return None


def draw(items, each):
    """The tests in an order that is random, but always the same: up to `each` of a function.

    Parameters have periods, which every Nth test would fall in with.
    """
    order = list(items)
    random.Random(0).shuffle(order)
    if each is None:
        return order
    drawn, counts = [], collections.Counter()
    for item in order:
        counts[item.originalname] += 1
        if counts[item.originalname] <= each:
            drawn.append(item)
    return drawn


class Plugin:
    """Deselects, intercepts gradients, and counts asserts."""

    def __init__(self, sample, first, each=None):
        self.sample, self.first, self.each = sample, first, each
        self.deselected = collections.Counter()
        self.asserts = collections.Counter()
        self.of_outputs = collections.Counter()
        self.outcomes = collections.defaultdict(collections.Counter)
        self.empty = []

    def pytest_collection_modifyitems(self, config, items):
        reasons = {id(item): reason_not_to_run(item.callspec.params) for item in items}
        self.deselected.update(filter(None, reasons.values()))
        able = [item for item in items if not reasons[id(item)]]
        drawn = draw(able, self.each)[self.first :: self.sample]
        ours = set(map(id, drawn))
        kept = [item for item in able if id(item) in ours]
        if len(kept) < len(able):
            self.deselected[SAMPLED] += len(able) - len(kept)
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in ours])
        items[:] = kept

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        Gradient.compared = False
        before = self.of_outputs[item.originalname]
        intercepted = torch.autograd.grad
        torch.autograd.grad = placeholder_gradients
        try:
            with torch.no_grad():
                result = yield
        finally:
            torch.autograd.grad = intercepted
            if torch.cuda.is_available():  # other processes need the memory, too
                torch.cuda.empty_cache()
        if result.excinfo is None and self.of_outputs[item.originalname] == before:
            self.empty.append(item.nodeid)

    def pytest_assertion_pass(self, item, lineno, orig, expl):
        is_gradient, Gradient.compared = Gradient.compared, False
        if is_gradient:
            self.asserts["of gradients, not counted"] += 1
            return
        self.asserts["executed"] += 1
        if re.search(r"\b(out|lse|[kv]_cache_select)\b", orig):
            self.of_outputs[item.originalname] += 1

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome == "skipped":
            self.outcomes[report.nodeid.split("::")[1].split("[")[0]][report.outcome] += 1

    def summary(self):
        return {
            "outcomes": {name: dict(counts) for name, counts in self.outcomes.items()},
            "asserts_executed": self.asserts["executed"],
            "asserts_of_outputs": dict(self.of_outputs),
            "asserts_of_gradients_not_counted": self.asserts["of gradients, not counted"],
            "deselected": dict(self.deselected),
            "without_an_assert_of_outputs": self.empty,
        }


def tests_left_out(tests):
    """The names of test functions that are not run, and why."""
    return {
        node.name: DESELECTED.get(node.name, "is not known to this script")
        for node in ast.parse(tests.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and node.name not in TESTS
    }


def merge(summaries):
    """The summary of all, from those of processes that ran different tests."""
    counters = collections.defaultdict(collections.Counter)
    outcomes = collections.defaultdict(collections.Counter)
    for summary in summaries:
        for name, counts in summary["outcomes"].items():
            outcomes[name].update(counts)
        for name in ("asserts_of_outputs", "deselected"):
            counters[name].update(summary[name])
    total = {
        name: sum(summary[name] for summary in summaries)
        for name in ("asserts_executed", "asserts_of_gradients_not_counted")
    }
    # A test that another process ran is not left out.
    ran = sum(sum(counts.values()) for counts in outcomes.values())
    dropped = {reason: count // len(summaries) for reason, count in counters["deselected"].items()}
    kept = sum(sum(counts.values()) for counts in summaries[0]["outcomes"].values())
    if SAMPLED in dropped:
        dropped[SAMPLED] = summaries[0]["deselected"][SAMPLED] + kept - ran
        if not dropped[SAMPLED]:
            del dropped[SAMPLED]
    return {
        "outcomes": {name: dict(counts) for name, counts in outcomes.items()},
        **total,
        "asserts_of_outputs": dict(counters["asserts_of_outputs"]),
        "deselected": dropped,
        "without_an_assert_of_outputs": [
            name for summary in summaries for name in summary["without_an_assert_of_outputs"]
        ],
        "tests_left_out": summaries[0]["tests_left_out"],
    }


def run_processes(options, others):
    """Shares the tests out to processes of this script."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.json" for part in range(options.processes)]
        children = [
            subprocess.Popen(
                [sys.executable, __file__, str(options.checkout), "--json", str(file)]
                + ["--sample", str(options.sample * options.processes)]
                + ["--first", str(options.first + options.sample * part)]
                + (["--each", str(options.each)] if options.each else [])
                + others
            )
            for part, file in enumerate(files)
        ]
        codes = [child.wait() for child in children]
        if not all(file.exists() for file in files):
            sys.exit(f"run_flash_attn: expects processes to end, but got exit codes {codes}")
        report(merge([json.loads(file.read_text()) for file in files]), options.json)
    return max(codes)


def report(summary, file):
    """Prints the summary, and writes it to a file for scripts/flash-attn-tests.py."""
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    run = {
        "date": datetime.date.today().isoformat(),
        "card": card,
        "torch": torch.__version__,
    }
    text = json.dumps({"run": run, **summary}, indent=2)
    print(text)
    if file:
        file.write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--sample", type=int, default=1, help="run one of N tests")
    parser.add_argument("--first", type=int, default=0, help="which of them, from 0")
    parser.add_argument("--each", type=int, help="run up to so many tests of each function")
    parser.add_argument("--processes", type=int, default=1, help="share the tests out")
    parser.add_argument("--json", type=Path, help="write the counts to a file")
    options, others = parser.parse_known_args()
    tests = options.checkout.resolve() / "tests" / "test_flash_attn.py"
    if not tests.exists():
        parser.error(f"expects {tests}, but there is none")
    if options.processes > 1:
        return run_processes(options, others)
    install(options.checkout.resolve())
    if not torch.cuda.is_available():  # the tests ask for it when they are imported
        torch.cuda.get_device_capability = lambda *device: (0, 0)
    plugin = Plugin(options.sample, options.first, options.each)
    arguments = [
        *(f"{tests}::{name}" for name in TESTS), "-q",
        "-o", "enable_assertion_pass_hook=true", "-p", "no:cacheprovider",
        f"--rootdir={tests.parent}", *(other for other in others if other != "--"),
    ]  # fmt: skip
    code = pytest.main(arguments, plugins=[plugin])
    summary = {**plugin.summary(), "tests_left_out": tests_left_out(tests)}
    report(summary, options.json)
    return int(code) or (1 if plugin.empty else 0)


if __name__ == "__main__":
    sys.exit(main())
