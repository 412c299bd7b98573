"""ONNX's cases of attention (upstream/run_onnx.py), on the emulator."""

import json
from pathlib import Path

import numpy
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx")

from onnx import TensorProto, helper

from upstream import run_onnx

FIGURES = Path(__file__).resolve().parents[2] / "docs/figures/onnx.json"


@pytest.fixture(scope="module")
def cases():
    return {case.name: case for case in run_onnx.load_cases()}


def test_no_case_is_wrong(cases):
    results = [run_onnx.run_case(case) for case in cases.values()]
    assert [result for result in results if result["outcome"] == "wrong"] == []
    assert {result["operator"] for result in results} == set(run_onnx.OPERATORS)
    published = json.loads(FIGURES.read_text()) if FIGURES.exists() else None
    if published and published["run"]["onnx"] == onnx.__version__:

        def without_errors(results):
            return [{**result, "roundings": None} for result in results]

        remedy = "upstream/run_onnx.py --json docs/figures/onnx.json writes it"
        assert without_errors(published["cases"]) == without_errors(results), remedy


def test_no_mask_of_exporters_is_wrong():
    results = [run_onnx.run_case(case) for case in run_onnx.masked_cases()]
    assert [result for result in results if result["outcome"] != "right"] == []
    assert len(results) == 30  # there is no -1e9 in float16


@pytest.mark.parametrize("kind", [numpy.float16, numpy.float32])
def test_a_mask_of_exporters_that_is_lost_is_seen(kind):
    case = run_onnx.masked_case("own", kind, -1e4, {})
    case.inputs["attn_mask"][0, ..., 15:] = 0
    assert run_onnx.run_case(case)["outcome"] == "wrong"


@pytest.mark.parametrize(
    "name, change",
    [
        ("attention_4d_causal", {"is_causal": 0}),
        ("attention_4d_scaled", {"scale": 1.0}),
        ("attention_3d_softcap", {"softcap": 0.2}),
        ("attention_local_window", {"left_window_size": 1}),
        ("attention_local_window_with_past", {"left_window_size": 3}),
        ("attention_4d_with_qk_matmul_softcap", {"qk_matmul_output_mode": 0}),
        ("attention_4d_with_qk_matmul_bias", {"qk_matmul_output_mode": 1}),
        ("attention_3d_with_past_and_present_qk_matmul_softmax", {"qk_matmul_output_mode": 2}),
    ],
)
def test_a_wrong_output_is_seen(cases, name, change):
    case = cases[name]
    case = case._replace(attributes={**case.attributes, **change})
    assert run_onnx.run_case(case)["outcome"] == "wrong"


@pytest.mark.parametrize("past, keys", [(12, 6), (2, 4), (0, 6)])
@pytest.mark.parametrize("causal, left, right", [(1, -1, -1), (1, 3, -1), (0, 2, 1), (0, -1, 2)])
def test_masks_that_begin_at_the_first_new_key(past, keys, causal, left, right):
    """A mask_mod says what causal and window do not."""
    draw = numpy.random.default_rng(0).random
    q, k, v = (draw((2, 3, rows, 16), numpy.float32) for rows in (4, keys, keys))
    inputs = {"Q": q, "K": k, "V": v}
    if past:
        inputs["past_key"], inputs["past_value"] = draw((2, 2, 3, past, 16), numpy.float32)
        k, v = (
            numpy.concatenate([inputs[f"past_{x}"], y], 2) for x, y in (("key", k), ("value", v))
        )
    i, j = numpy.arange(4)[:, None] + past, numpy.arange(past + keys)
    seen = (j <= i) | (not causal)
    seen &= ((j >= i - left) | (left < 0)) & ((j <= i + right) | (right < 0))
    weights = numpy.exp(q @ k.swapaxes(2, 3) / 4) * seen
    outputs = {"Y": weights / weights.sum(-1, keepdims=True) @ v}
    attributes = {"is_causal": causal, "left_window_size": left, "right_window_size": right}
    case = run_onnx.Case("drawn", "Attention", inputs, outputs, attributes)
    assert run_onnx.run_case(case)["outcome"] == "right"


@pytest.mark.parametrize(
    "node, reason",
    [
        (helper.make_node("Erf", ["scores"], ["out"]), "score_mod has the operator Erf"),
        (helper.make_node("Add", ["scores", "table"], ["out"]), "score_mod reads a table"),
        (
            helper.make_node("Cast", ["scores"], ["out"], to=TensorProto.INT32),
            "score_mod casts to int32",
        ),
        (
            helper.make_node("Reshape", ["scores", "turned"], ["out"]),
            "score_mod reshapes what is not a row",
        ),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_graphs_that_are_not_read(cases, node, reason):
    case = cases["flexattention"]
    tables = [
        helper.make_tensor("table", TensorProto.FLOAT, [6], range(6)),
        helper.make_tensor("turned", TensorProto.INT64, [4], [2, 4, 6, 8]),
    ]
    scores, out = (
        helper.make_tensor_value_info(x, TensorProto.FLOAT, None) for x in ("scores", "out")
    )
    graph = helper.make_graph([node], "mod", [scores], [out], tables)
    case = case._replace(attributes={"score_mod": graph})
    result = run_onnx.run_case(case)
    assert (result["outcome"], result["reason"]) == ("not run", reason)
