"""The words of a problem say all of an attention, and Python loses none of them."""

import json

import numpy
import pytest

import flashcore
from flashcore import _core, kernels
from flashcore.compiler import _module_of
from flashcore.problem import abridge
from flashcore.regions import trace_mods

REGION = """{
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %entry = memref.load %Table[%key] : memref<?xi32, strided<[1]>>
    %0 = arith.constant 0 : i32
    %seen = arith.cmpi sgt, %entry, %0 : i32
    flashcore.yield %seen : i1
  }"""
WORDS = [
    "b2 h4/2 s7x40 d64/32 bf16 causal=top_left window=5,inf softcap=30 scale=0.1 dropout=0.25 "
    "head_scale bias=1h1k:f32 alibi sink lse scores=masked:f16 strided",
    "b1 h4 s? d64 sequences=3 seqused_k bshd",
    "b1 h4 s? d64 sequences=? page_size=16 pages=40 seqused_k",
    "b2 s8x64 append=8 rotary=32:interleaved positions=99 page_size=16",
    "b2 s200x300 blocks=128x64:b1",
    "b2 s200x300 block_size=128x64 block_counts=1h block_indices=1h",
    f"%Table=memref<?xi32, strided<[1]>> mask={REGION}",
    "score={^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index): flashcore.yield %s : f32}",
]


@pytest.mark.parametrize("words", WORDS)
def test_words_and_problems_have_one_module(words):
    problem = flashcore.Problem.parse(words)
    assert _core.write_shape(problem.words()) == _core.write_shape(words)
    assert flashcore.Problem.parse(problem.words()) == problem
    assert _module_of(problem) == _module_of(problem.words())


def test_words_say_every_operand():
    modules = " ".join(_core.write_shape(words) for words in WORDS)
    assert {clause for _, _, clause, *_ in _core.operands() if f" {clause}(" not in modules} == set()


def test_what_no_field_has_is_an_error(monkeypatch):
    said = {**json.loads(_core.describe_shape("")), "temperature": 2}
    monkeypatch.setattr(_core, "describe_shape", lambda words: json.dumps(said))
    with pytest.raises(TypeError, match="temperature"):
        flashcore.Problem.parse("")


def test_classes_keep_operands_and_open_their_sizes():
    problem = flashcore.Problem.parse("b1 h4/2 s64x640 sink sequences=4 page_size=64 pages=9")
    served, schedule = problem.kernel_class(132)
    assert served.operands == ("sink",)
    assert served.sizes == (("page_size", 64), ("sequences", "?"))
    assert schedule == (("expected-queries", "16"),)  # 16 each
    assert problem.kernel_class(132, sequences=1)[1] == ()


def test_calls_have_the_words_that_are_compiled_ahead():
    draw = numpy.random.default_rng(0).standard_normal
    q, k, v = (draw((2, h, 8, 64)).astype("float16") for h in (4, 2, 2))
    sinks = numpy.zeros(4, "float32")
    lengths = numpy.array([0, 0], "int32")
    table = flashcore.capture(numpy.ones((8,), "int32"))

    def visible(batch, head, query, key):
        return table[key] > 0

    before = set(kernels.loaded())
    flashcore.attention(
        *(q[:, :, :1], k.copy(), v.copy()),
        sinks=sinks,
        seqused_k=lengths,
        k_new=k[:, :, :1],
        v_new=v[:, :, :1],
        mask_mod=visible,
    )
    (key,) = set(kernels.loaded()) - before
    regions = " ".join(trace_mods(None, visible).regions.words())
    words = f"b2 h4/2 s1x8 d64 sink append=1 {regions}"
    served, schedule = flashcore.Problem.parse(words).kernel_class(
        kernels.device("emulator").multiprocessors
    )
    assert (key.words, key.schedule) == (served.words(), schedule)


def test_regions_are_abridged_in_a_line_of_output():
    words = flashcore.Problem.parse(WORDS[-2]).words()
    assert abridge(words).endswith("strided<[1]>> mask={...}")
    assert abridge("b1 h8") == "b1 h8"
