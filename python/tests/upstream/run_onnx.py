#!/usr/bin/env python3
"""Runs ONNX's own cases of Attention and FlexAttention through flashcore.attention.

    python run_onnx.py [--device DEVICE] [--case NAME] [--own] [--verbose] [--json FILE]

The cases are those of onnx.backend.test, a node with its inputs and outputs each;
their forms "_expanded" have neither operator. Needs NumPy with ml_dtypes, and onnx.

A case is right if its output is within 2 roundings of the kernel's type (half a unit
of the last place) of the largest value: one of inputs and weights, one of the output.
What is done to inputs on the host is named: "rounded" (float32 to float16) and "joined"
(past_key and K, past_value and V), and so is "narrowed": a softmax of float32 where one of
float64 is asked for, whose outputs are of float32 or less. A case that isn't run has a reason. It fails if a case is wrong.
"""

import argparse
import collections
import datetime
import functools
import itertools
import json
import operator
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import flashcore

OPERATORS = ("Attention", "FlexAttention")
TOLERANCE = 2
#: Half a unit of the last place of 1.
ROUNDING = {numpy.dtype("float16"): 2**-11, numpy.dtype(ml_dtypes.bfloat16): 2**-8}
#: Of qk_matmul_output_mode: ONNX's order of operations is ours, and what it calls the
#: bias is all that hides keys, too.
STAGES = ("scaled", "capped", "masked", "probabilities")


class NotRun(Exception):
    """Says why a case is not run."""


class Case(NamedTuple):
    """A node, with its inputs, outputs and attributes by their names."""

    name: str
    operator: str
    inputs: dict
    outputs: dict
    attributes: dict


def load_cases():
    """All cases of a single node that is one of OPERATORS."""
    with warnings.catch_warnings():  # other operators' cases overflow on purpose
        warnings.simplefilter("ignore")
        with numpy.errstate(all="ignore"):
            tests = load_model_tests(kind="node")
    for test in tests:
        nodes = test.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in OPERATORS:
            node, ((inputs, outputs),) = nodes[0], test.data_sets
            yield Case(
                test.name.removeprefix("test_"),
                node.op_type,
                # A node leaves a name empty where it has no such input.
                dict(zip(filter(None, node.input), inputs)),
                dict(zip(filter(None, node.output), outputs)),
                {each.name: helper.get_attribute_value(each) for each in node.attribute},
            )


def masked_cases():
    """Cases of our own, of the masks that exporters write in the place of bools: finite, of rows
    and planes, with what else Attention has. ONNX's masks hide with -inf or add ordinary numbers.
    """
    lowest = {kind: float(numpy.finfo(kind).min) for kind in (numpy.float16, numpy.float32)}
    forms: dict[str, dict[str, Any]] = {
        "4d": {},
        "4d_causal": {"is_causal": 1},
        "4d_softcap": {"softcap": 2.0},
        "4d_scaled": {"scale": 0.3},
        "3d_gqa": {"q_num_heads": 4, "kv_num_heads": 2},
        "4d_with_qk_matmul_softmax": {"qk_matmul_output_mode": 3},
    }
    for kind, (form, attributes) in itertools.product(lowest, forms.items()):
        masks = {"1e4": -1e4, "1e9": -1e9, "lowest": lowest[kind]}
        for name, mask in masks.items():
            if mask >= lowest[kind]:
                full = f"own_attention_{form}_mask_{name}_{numpy.dtype(kind).name}"
                yield masked_case(full, kind, mask, attributes)


def masked_case(name, kind, mask, attributes):
    """Keys behind a length of each entry, and all keys of a row, carry the mask.

    Its sums with scores are of float32.
    """
    draw = numpy.random.default_rng(0).standard_normal
    heads_kv = attributes.get("kv_num_heads", 3)
    heads, (queries, keys, dim) = attributes.get("q_num_heads", 3), (5, 24, 32)
    q, k, v = (
        draw((2, n, rows, dim)).astype(numpy.float16).astype(kind)
        for n, rows in ((heads, queries), (heads_kv, keys), (heads_kv, keys))
    )
    added = numpy.zeros((2, 1, queries, keys), kind)
    added[0, ..., 15:] = added[1, ..., 8:] = added[:, :, 3] = mask
    group = heads // heads_kv
    wide = [x.astype(numpy.float64) for x in (q, k.repeat(group, 1), v.repeat(group, 1))]
    scores = wide[0] @ wide[1].swapaxes(2, 3) * attributes.get("scale", dim**-0.5)
    if cap := attributes.get("softcap"):
        scores = cap * numpy.tanh(scores / cap)
    with numpy.errstate(over="ignore"):
        scores = (scores + added.astype(numpy.float64)).astype(numpy.float32)
    if attributes.get("is_causal"):
        scores = numpy.where(numpy.tri(queries, keys, dtype=bool), scores, -numpy.inf)
    weights = numpy.exp(scores.astype(numpy.float64) - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    outputs = {"Y": (weights @ wide[2]).astype(kind)}
    if "qk_matmul_output_mode" in attributes:
        outputs["qk_matmul_output"] = weights.astype(kind)
    if "q_num_heads" in attributes:
        q, k, v = (x.swapaxes(1, 2).reshape(2, x.shape[2], -1) for x in (q, k, v))
        outputs["Y"] = outputs["Y"].swapaxes(1, 2).reshape(2, queries, -1)
    inputs = {"Q": q, "K": k, "V": v, "attn_mask": added}
    return Case(name, "Attention", inputs, outputs, attributes)


# What a case asks for ---------------------------------------------------------


def read_tensors(case, needs):
    """q, k and v of (batch, heads, seqlen, head_dim), and k and v before rounding."""
    heads_q, heads_kv = (case.attributes.get(f"{each}_num_heads") for each in ("q", "kv"))
    q, k, v = (case.inputs[name] for name in "QKV")
    if q.dtype == numpy.float64:
        raise NotRun("inputs are of float64")
    if q.ndim == 3:  # (batch, seqlen, heads * head_dim); these are views
        split = ((q, heads_q), (k, heads_kv), (v, heads_kv))
        q, k, v = (x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x, heads in split)
    if "past_key" in case.inputs:
        needs.append("joined")
        k = numpy.concatenate([case.inputs["past_key"], k], 2)
        v = numpy.concatenate([case.inputs["past_value"], v], 2)
    present = {"present_key": k, "present_value": v}
    mask = case.inputs.get("attn_mask")
    if mask is not None and 1 < mask.shape[-1] < k.shape[2]:  # keys behind it are not seen
        if "nonpad_kv_seqlen" not in case.inputs:
            raise NotRun("mask is shorter than the keys, which have no lengths")
        k, v = k[:, :, : mask.shape[-1]], v[:, :, : mask.shape[-1]]
    if case.attributes.get("softmax_precision") == onnx.TensorProto.DOUBLE:
        needs.append("narrowed")
    if q.dtype == numpy.float32:
        needs.append("rounded")
        q, k, v = (x.astype(numpy.float16) for x in (q, k, v))
    return q, k, v, present


def mask_options(case, q, k):
    """causal, window and mask_mod of a case, whose query 0 has the key `offset`."""
    attributes = case.attributes
    causal = bool(attributes.get("is_causal"))
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    past = case.inputs["past_key"].shape[2] if "past_key" in case.inputs else 0
    seen = []
    mask = case.inputs.get("attn_mask")
    if mask is not None and mask.dtype == bool:
        seen.append(read_mask(mask))
    if "nonpad_kv_seqlen" in case.inputs or past == k.shape[2] - q.shape[2]:
        window = (left, -1 if causal else right)
        return {"causal": causal, "window": window, "mask_mod": all_of(seen)}
    if left >= 0:
        seen.append(lambda b, h, i, j: j >= i + (past - left))
    if right >= 0:
        seen.append(lambda b, h, i, j: j <= i + (past + right))
    if causal and past:
        seen.append(lambda b, h, i, j: j <= i + past)
    return {"causal": "top_left" if causal and not past else False, "mask_mod": all_of(seen)}


def read_mask(mask):
    """The mask_mod of a mask of bools, with up to four axes."""
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    captured = flashcore.capture(mask)
    return lambda *place: captured[tuple(0 if n == 1 else x for n, x in zip(mask.shape, place))]


def all_of(mods):
    if not mods:
        return None
    return lambda *place: functools.reduce(operator.and_, (mod(*place) for mod in mods))


def options_of(case, q, k):
    """All options of flashcore.attention for a case."""
    attributes, inputs = case.attributes, case.inputs
    if "prob_mod" in attributes:
        raise NotRun("weights are changed after the softmax (`prob_mod`)")
    options = {
        "scale": attributes.get("scale"),
        "softcap": attributes.get("softcap") or None,
        **mask_options(case, q, k),
    }
    if "qk_matmul_output" in case.outputs:
        options["scores"] = STAGES[attributes.get("qk_matmul_output_mode", 0)]
    if "nonpad_kv_seqlen" in inputs:
        options["seqused_k"] = inputs["nonpad_kv_seqlen"].astype(numpy.int32)
    if "attn_mask" in inputs and inputs["attn_mask"].dtype != bool:
        options["bias"] = inputs["attn_mask"]
    if "score_mod" in attributes:
        sizes = (*q.shape[:3], k.shape[2])
        options["score_mod"] = functools.partial(run_graph, attributes["score_mod"], sizes)
    return options


# score_mod --------------------------------------------------------------------


class Elements(NamedTuple):
    """A tensor of a graph that is not known: its sizes, and its element at indices."""

    sizes: tuple[int, ...]
    at: Callable[..., Any]


def elements_of(value):
    if isinstance(value, Elements):
        return value
    if value.size != 1:
        raise NotRun("score_mod reads a table")
    return Elements((1,) * value.ndim, lambda *index: value.item())


def broadcast(function):
    """The operator of a graph that is a function of each element."""

    def apply(node, *values):
        operands = [elements_of(value) for value in values]
        sizes = numpy.broadcast_shapes(*(operand.sizes for operand in operands))

        def at(*index):
            parts = []
            for operand in operands:
                last = index[len(index) - len(operand.sizes) :]
                parts.append(operand.at(*(0 if n == 1 else x for n, x in zip(operand.sizes, last))))
            return function(*parts)

        return Elements(sizes, at)

    return apply


def gather(node, values, index):
    return numpy.take(values, index, attribute(node, "axis", 0))


def iota(node, start, limit, step):
    count = max(0, -(-(limit.item() - start.item()) // step.item()))
    return Elements((count,), lambda x: start.item() + x * step.item())


def reshape(node, value, sizes):
    """Axes of one element come and go; others keep their order."""
    value = elements_of(value)
    shape = numpy.empty(value.sizes, bool).reshape(sizes).shape
    if [n for n in shape if n != 1] != [n for n in value.sizes if n != 1]:
        raise NotRun("score_mod reshapes what is not a row")

    def at(*index):
        long = iter(x for n, x in zip(shape, index) if n != 1)
        return value.at(*(0 if n == 1 else next(long) for n in value.sizes))

    return Elements(shape, at)


def cast(node, value):
    kind = helper.tensor_dtype_to_np_dtype(attribute(node, "to"))
    if kind not in (numpy.float16, numpy.float32):
        raise NotRun(f"score_mod casts to {kind}")
    return broadcast(lambda x: x * 1.0)(node, value)  # all is computed in float32


def attribute(node, name, default=None):
    found = [helper.get_attribute_value(each) for each in node.attribute if each.name == name]
    return found[0] if found else default


GRAPH_OPERATORS = {
    "Add": broadcast(operator.add),
    "Cast": cast,
    "Div": broadcast(operator.truediv),
    "Gather": gather,
    "GreaterOrEqual": broadcast(operator.ge),
    "Mul": broadcast(operator.mul),
    "Range": iota,
    "Reshape": reshape,
    "Shape": lambda node, value: numpy.array(value.sizes),
    "Sub": broadcast(operator.sub),
    "Tanh": broadcast(flashcore.tanh),
    "Where": broadcast(flashcore.where),
}


def run_graph(graph, sizes, score, *place):
    """The element of a graph of `scores`, at the place of one of them."""

    def read_score(*index):
        if not all(n == 1 or x is y for n, x, y in zip(sizes, index, place)):
            raise NotRun("score_mod reads other scores")
        return score

    values = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    values[graph.input[0].name] = Elements(sizes, read_score)
    for node in graph.node:
        if node.op_type not in GRAPH_OPERATORS:
            raise NotRun(f"score_mod has the operator {node.op_type}")
        inputs = [values[name] for name in node.input]
        values[node.output[0]] = GRAPH_OPERATORS[node.op_type](node, *inputs)
    return values[graph.output[0].name].at(*place)


# Running ----------------------------------------------------------------------


def run_case(case, device="emulator"):
    """What became of a case: outcome, and needs and errors, or a reason."""
    result = {"name": case.name, "operator": case.operator}
    needs = []
    try:
        q, k, v, present = read_tensors(case, needs)
        outputs = flashcore.attention(q, k, v, **options_of(case, q, k), device=device)
    except NotRun as reason:
        return {**result, "outcome": "not run", "reason": str(reason)}
    except flashcore.UnsupportedError as error:
        return {**result, "outcome": "not run", "reason": str(error)}
    o, *scores = outputs if isinstance(outputs, tuple) else (outputs,)
    if case.outputs["Y"].ndim == 3:
        o = o.swapaxes(1, 2).reshape(case.outputs["Y"].shape)
    error = roundings(o, case.outputs["Y"], ROUNDING[q.dtype])
    if scores:
        expected = case.outputs["qk_matmul_output"]
        error = max(error, roundings(scores[0], expected, ROUNDING[q.dtype]))
    is_right = error <= TOLERANCE and all(
        numpy.array_equal(case.outputs[name], value)
        for name, value in present.items()
        if name in case.outputs
    )
    outcome = "right" if is_right else "wrong"
    return {**result, "outcome": outcome, "needs": needs, "roundings": round(error, 2)}


def roundings(actual, expected, unit):
    """The largest error, in roundings of the largest value. Hidden scores are -inf in both."""
    if actual.shape != expected.shape:
        return float("inf")
    actual, expected = (x.astype(numpy.float64) for x in (actual, expected))
    hidden = numpy.isneginf(expected)
    if (numpy.isneginf(actual) != hidden).any():
        return float("inf")
    actual, expected = actual[~hidden], expected[~hidden]
    largest = numpy.abs(expected).max(initial=1)
    error = numpy.abs(actual - expected).max(initial=0) / (unit * largest)
    return float(numpy.nan_to_num(error, nan=numpy.inf))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("emulator", "cuda"), default="emulator")
    parser.add_argument("--case", help="run only cases whose names contain this")
    parser.add_argument("--own", action="store_true", help="run our own cases in place of ONNX's")
    parser.add_argument("--verbose", action="store_true", help="print each case")
    parser.add_argument("--json", type=Path, help="write what became of each to a file")
    options = parser.parse_args()
    results = []
    for case in masked_cases() if options.own else load_cases():
        if (options.case or "") in case.name:
            results.append(run_case(case, options.device))
            if options.verbose or results[-1]["outcome"] == "wrong":
                print(json.dumps(results[-1]), flush=True)
    counts = collections.Counter(result["outcome"] for result in results)
    print(f"onnx {onnx.__version__}: {dict(counts)}")
    if options.json:
        run = {
            "date": datetime.date.today().isoformat(),
            "onnx": onnx.__version__,
            "device": options.device,
        }
        lines = ",\n".join(map(json.dumps, results))
        options.json.write_text(f'{{"run": {json.dumps(run)}, "cases": [\n{lines}\n]}}\n')
    return 1 if counts["wrong"] or not results else 0


if __name__ == "__main__":
    sys.exit(main())
