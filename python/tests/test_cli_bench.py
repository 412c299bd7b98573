"""flashcore bench and flashcore tune; test/Benchmarks has their own tests."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import flashcore
import formula
from flashcore import cli
from flashcore.cli import tools


def run(*arguments, **options):
    command = [sys.executable, "-m", "flashcore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_list():
    result = run("bench", "list")
    assert result.returncode == 0 and "reference-causal" in result.stdout


def test_compile_uses_the_tools_of_the_package(tmp_path):
    result = run("bench", "compile", "--problems", "reference-dense", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    out = tmp_path / "flashcore-results/bench"
    assert list(out.glob("**/*.fcb")) and tools.executable().exists()


def test_names():
    for name in ("bench", "tune"):
        assert f"usage: flashcore {name} " in run(name, "--help").stdout
    assert f"flashcore-{name}" not in run(name, "--help").stdout


WITHOUT_TORCH = {
    "bench": ["bench", "--shape=d64"],
    "bench run": ["bench", "run", "--problems=reference-dense"],
    "tune run": ["tune", "run", "--problems=reference-dense"],
}


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_without_torch(tmp_path, name):
    """Says how to get it."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    path = f"{tmp_path}:{flashcore.__path__[0]}/.."
    result = run(*WITHOUT_TORCH[name], cwd=tmp_path, env={"PYTHONPATH": path})
    assert result.returncode == 2
    assert result.stderr == (
        "flashcore: error: No module named 'torch'; run needs PyTorch: "
        "https://pytorch.org/get-started/locally\n"
    )


def test_without_a_gpu(tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run("bench", "--shape=d64", cwd=tmp_path)
    assert result.returncode == 2 and not list(tmp_path.iterdir())
    assert result.stderr == (
        "flashcore: error: PyTorch finds no NVIDIA GPU here; flashcore bench compile, report and "
        "plot need none\n"
    )


TOLD = "expects what all contenders compute (sizes, type, causal, window, softcap, scale, bias)"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("s?x512 d64", "expects seqlen_q to be known, but got ? in 's?x512 d64'"),
        ("d64  lse", f"{TOLD}, but got lse in 'd64 lse'"),
        ("d64 dropout=0.1", f"{TOLD}, but got dropout in 'd64 dropout=0.1'"),
        ("d64 scores=masked", f"{TOLD}, but got scores in 'd64 scores=masked'"),
        ("d64 blocks=64x64", f"{TOLD}, but got blocks in 'd64 blocks=64x64'"),
        ("d64 packed", "expects the layout bhsd or bshd, but got packed in 'd64 packed'"),
    ],
)
def test_shapes_that_not_all_can_compute(words, error, capsys):
    """Are an error before a GPU is looked for."""
    assert cli.main(["bench", "--shape", words]) == 2
    assert capsys.readouterr() == ("", f"flashcore: error: {error}\n")


def test_words_are_read_whole():
    from flashcore._benchmarks import compare

    words = "b2 h8/4 s300x400 d96/64 bf16 causal=top_left softcap=30 scale=0.5 bias=1h1k:f32 bshd"
    problem = compare.read_shape(words)
    assert problem.shape == (2, 8, 4, 300, 400) and problem.dtype == "bf16"
    assert (problem.head_dim, problem.value_dim, problem.layout) == (96, 64, "bshd")
    assert problem.causal and problem.is_top_left and problem.bias == ("f32", "1h1k")
    assert (problem.softcap, problem.scale) == (30, 0.5)
    assert compare.read_shape("d64 window=100,7").window == (100, 7)
    for shape in compare.SHAPES:
        assert compare.read_shape(shape).name == shape


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("b1 h4/2 s20x40 d32/16 causal", {"causal": "bottom_right"}),
        ("b1 h2 s20x40 d32 causal=top_left softcap=2", {"causal": "top_left", "softcap": 2.0}),
        ("b1 h2 s40 d32 window=9,3 scale=0.3 bshd", {"left": 9, "right": 3, "scale": 0.3}),
        ("b1 h2 s20x40 d32 bias=1h1k", {"bias": formula.draw(1, 2, 1, 40, seed=4)}),
    ],
)
def test_our_call_is_what_the_shape_says(words, expected, is_static):
    """What is timed as FlashCore computes the shape, here on the emulator."""
    from flashcore._benchmarks import compare, torch_package

    problem = compare.read_shape(words)
    queries, keys = problem.seqlen_q, problem.seqlen_k
    heads = {"heads": problem.heads_q, "heads_kv": problem.heads_kv}
    dims = {"dim": problem.head_dim, "dim_v": problem.value_dim}
    q, k, v = formula.draw_qkv(queries=queries, keys=keys, **heads, **dims)
    if problem.layout == "bshd":  # the same values, with rows of all heads together
        q, k, v = (x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in (q, k, v))
    bias = expected.get("bias")
    assert (bias is None) == (problem.bias is None)
    inputs = SimpleNamespace(problem=problem, bias=bias, set=lambda i: (q, k, v))
    o = torch_package.PackageCall(inputs, is_static)(0)
    formula.assert_close(o, formula.attention(q, k, v, **expected)[0])
