"""flashcore attention: its line, its verdicts, and which kernel it names."""

import functools
import json
import types

import numpy
import pytest

from fresh import forget
from flashcore import kernels
from flashcore.cli import attention, inputs, main
from flashcore.problem import Problem

SHAPE = "b1 h2/1 s24x40 d16 f16 causal lse"


@pytest.fixture
def run(cache_dir, capsys, monkeypatch):
    """Exit code and output of what acts as a process of its own: nothing is in
    memory, but what earlier runs left is on disk."""

    def run(*arguments):
        forget(monkeypatch)
        code = main(["attention", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_line(run):
    code, out, err = run(SHAPE, "--device=emulator", "--seed=1")
    first, kernel, function, call = out.splitlines()
    assert code == 0 and not err
    head, errors = first.split(", max error O ")
    assert head == (
        "PASS b1 h2/1 s24x40 d16/16 f16 causal=bottom_right lse bhsd, PTX sm_90 on the emulator, seed 1"
    )
    assert errors.count(" allowed") == 2 and ", lse " in errors
    words = "b? h?/? s?x? d16/16 f16 causal=bottom_right lse strided"
    assert kernel == f"  kernel: {words} --expected-grid=quarter, compiled now"
    assert function.startswith("  attention_f16_d16_causal: ")
    assert call.startswith("  first call: ") and "later" not in call


def test_scores_are_checked(run):
    words = SHAPE + " scores=probabilities"
    code, out, err = run(words, "--device=emulator", "--seed=1")
    assert code == 0 and ", scores " in out and ", lse " in out
    assert "attention_f16_d16_causal_scores: " in out
    code, out, _ = run(words, "--device=emulator", "--json")
    assert json.loads(out)["scores"]["elements"] == 2 * 24 * 40


def test_seed_makes_the_inputs(run):
    first = [run(SHAPE, "--device=emulator", "--json", f"--seed={seed}")[1] for seed in (1, 1, 2)]
    errors = [json.loads(out)["o"]["norm"] for out in first]
    assert errors[0] == errors[1] != errors[2]


def test_json(run):
    code, out, err = run(SHAPE, "--device=emulator", "--seed=3", "--json", "--time")
    said = json.loads(out)
    assert (code, err, said["result"], said["seed"]) == (0, "", "PASS", 3)
    assert said["kernel"]["was_compiled"] and said["kernel"]["schedule"] == {"expected-grid": "quarter"}
    assert said["kernel"]["functions"][0]["shared_bytes"] > 0
    assert said["o"]["error"] <= said["o"]["allowed"] and said["o"]["elements"] == 2 * 24 * 16
    assert said["lse"]["elements"] == 2 * 24
    assert said["first_call_seconds"] > 0 and set(said["time"]) == {"host_us"}


def test_compiled_once(run):
    words = (SHAPE, "--device=emulator", "--json")
    assert json.loads(run(*words)[1])["kernel"]["was_compiled"]
    assert not json.loads(run(*words)[1])["kernel"]["was_compiled"]


@pytest.mark.parametrize(
    "words",
    [
        "b2 h4/2 s20 d16 bf16 bshd",
        "b1 h2 s20 d24 packed causal=top_left",
        "b1 h2/1 s20x60 d16 window=8,0 softcap=5 scale=0.5 bias=1h1k:f32 lse",
        "b1 h2 s1x64 d16 causal",
        "b1 h1 s20 d20 lse",
    ],
)
@pytest.mark.parametrize("device", ["emulator", "reference"])
def test_problems(run, words, device):
    code, out, _ = run(words, "--seed=1", f"--device={device}")
    assert code == 0 and out.startswith(f"PASS {Problem.parse(words).words()}, ")
    assert ("the reference" in out) == (device == "reference")


def test_static_and_schedule(run):
    words = ("b1 h1 s20 d16", "--static", "--schedule=block-n=32,num_stages=3")
    said = json.loads(run(*words, "--device=emulator", "--json")[1])
    assert said["kernel"]["words"] == "b1 h1/1 s20x20 d16/16 f16 bhsd"
    assert said["kernel"]["schedule"] == {"block-n": "32", "num-stages": "3"}


MASK = """{
  ^bb0(%score: f32, %batch: index, %head: index, %query: index, %key: index):
    %0 = arith.cmpi sge, %query, %key : index
    flashcore.yield %0 : i1
  }"""


@pytest.mark.parametrize(
    "words",
    [
        "b1 h2 s20 d16 sink", "b2 h2 s20 d16 alibi lse", "b1 h2 s20 d16 head_scale",
        "b2 h2 s20x40 d16 seqused_k causal", "b1 h2 s20x40 d16 sequences=3 causal",
        "b2 h2 s1x48 d16 page_size=16 seqused_k", "b1 h2 s20x48 d16 cu_seqlens_q page_size=16 seqused_k",
        "b2 h2 s3x40 d16 append=3 rotary=8:half seqused_k causal",
        "b2 h2 s1x48 d16 append=1 page_size=16 seqused_k", "b2 h2 s20x40 d16 blocks=16x16:11",
        "b2 h2 s20x40 d16 blocks=16x16:bh causal", "b1 h2 s20 d16 dropout=0.25",
        f"b1 h2 s20 d16 bshd mask={MASK}",
    ],
)  # fmt: skip
def test_every_clause(run, words):
    code, out, err = run(words, "--device=emulator", "--seed=1")
    assert code == 0 and out.startswith("PASS ") and "^bb0" not in out, out + err


def test_functions(run, tmp_path):
    file = tmp_path / "mods.py"
    file.write_text(
        "import flashcore, numpy\n"
        "table = flashcore.capture(numpy.arange(64, dtype='int32') % 3)\n"
        "def mask(b, h, i, j):\n    return table[j] > 0\n"
        "def score(s, b, h, i, j):\n    return s * 0.5\n"
    )
    code, out, _ = run(
        "b1 h2 s20 d16 sink", "--device=emulator", f"--mask-mod={file}:mask",
        f"--score-mod={file}:score", "--json",
    )  # fmt: skip
    words = json.loads(out)["kernel"]["words"]
    assert code == 0 and "%capture0=memref" in words and "score={" in words and "mask={" in words
    code, _, err = run(f"b1 h2 s20 d16 mask={MASK}", f"--mask-mod={file}:mask")
    assert code == 2 and "expects one mask, of the words or of --mask-mod, but got both" in err


def replace_call(monkeypatch, run):
    """``run`` gets the options and the arguments of a call."""

    def call_for(options):
        return types.SimpleNamespace(run=functools.partial(run, options))

    monkeypatch.setattr(attention, "call_for", call_for)


def test_a_wrong_result_fails(run, monkeypatch):
    real = attention.call_for

    def wrong(options, *arrays):
        o = real(options).run(*arrays)
        o[0, 1, 5, 3] += 1
        return o

    replace_call(monkeypatch, wrong)
    code, out, _ = run("b1 h2 s20 d16", "--seed=1", "--device=emulator")
    assert code == 1 and out.startswith("FAIL b1 h2/2 s20x20")
    assert "\n  O at batch 0, head 1, query 5, column 3: expects " in out
    assert ", an error of 1.00e+00 where " in out


def test_a_nan_fails(run, monkeypatch):
    real = attention.call_for

    def wrong(options, *arrays):
        o = real(options).run(*arrays)
        o[0, 0, 0, :2] = numpy.nan
        return o

    replace_call(monkeypatch, wrong)
    code, out, _ = run("b1 h2 s20 d16", "--seed=1", "--device=emulator", "--json")
    said = json.loads(out)
    assert code == 1 and (said["result"], said["o"]["nans"], said["o"]["error"]) == ("FAIL", 2, None)


def test_a_fault_fails(run, monkeypatch):
    from flashcore import KernelFault

    def faulty(options, *arrays):
        raise KernelFault("out-of-bounds read\n  note: of k")

    replace_call(monkeypatch, faulty)
    code, out, _ = run("b1 h2 s20 d16", "--seed=1", "--device=emulator")
    assert code == 1
    assert out == "FAIL b1 h2/2 s20x20 d16/16 f16 bhsd, emulator, seed 1\nout-of-bounds read\n  note: of k\n"
    said = json.loads(run("b1 h2 s20 d16", "--device=emulator", "--json")[1])
    assert (said["result"], said["error"]) == ("FAIL", "out-of-bounds read\n  note: of k")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["b1 s? d64"], "expects seqlen_q to be known, but got ? in 'b1 s? d64'"),
        (["b0 d64"], "expects b and a batch of at least 1 or ?, but got 'b0'"),
        (["b1 d64 causl"], "packed or strided, but got 'causl'"),
        (["s20x40 packed"], "expects seqlen_q and seqlen_k to be equal with 'packed', but got 20 and 40"),
        (["d64 scores=masked:f16"], "expects scores of f32, but got f16 in 'd64 scores=masked:f16'"),
        (["d64 sequences=?"], "expects sequences to be known, but got ? in 'd64 sequences=?'"),
        (["d64 %capture0=memref<?xi32> mask={}"], "expects regions that read no tensors, whose contents"),
        (["d64", "--mask-mod=causal"], "expects --mask-mod to be FILE:NAME, but got 'causal'"),
        (["d64", "--mask-mod=none.py:causal"], "expects --mask-mod of a file that can be run, but 'none.py' raised"),
        (["d64", "--score-mod=math:none"], "expects --score-mod of a function in 'math', but got 'none'"),
        (["d64/32 packed"], "expects packed with one head_dim, but got d64/32"),
        (["d64", "--schedule=64"], "expects --schedule to be NAME=VALUE, but got '64'; see "),
        (["s20 d264"], "head_dim 264, but this version lowers 1 to 256"),
    ],
)
def test_refused(run, arguments, message):
    code, out, err = run(*arguments, "--device=emulator")
    assert (code, out) == (2, "") and err.startswith("flashcore: error: ") and message in err


def test_without_gpu_runs_on_the_emulator(run, monkeypatch):
    from flashcore import NoDeviceError

    real = kernels.device

    def device(kind, index=0):
        if kind == "cuda":
            raise NoDeviceError("none")
        return real(kind, index)

    monkeypatch.setattr(kernels, "device", device)
    assert json.loads(run("b1 h1 s16 d16", "--json")[1])["device"] == "emulator"


def test_needs_a_library_of_arrays(run, monkeypatch):
    monkeypatch.setattr(inputs, "_can_import", lambda name: False)
    code, _, err = run("b1 h1 s16 d16 bf16", "--device=emulator")
    assert code == 2
    assert err == (
        "flashcore: error: expects NumPy and ml_dtypes or PyTorch, but got none: "
        "pip install numpy ml_dtypes\n"
    )
