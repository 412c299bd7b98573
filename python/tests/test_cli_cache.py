"""flashcore cache."""

import json
import os

import pytest

import flashcore
from formula import draw_qkv
from flashcore import _core, cache, codegen
from flashcore.cli import main

PROBLEM = "b1 h1 s16 d16 f16"


@pytest.fixture
def run(cache_dir, capsys):
    def run(*arguments):
        code = main(["cache", *map(str, arguments)])
        return (code, *capsys.readouterr())

    return run


def fill(*problems, chip="sm_80"):
    for words in problems:
        kernel = codegen.Kernel(words, chip)

        def write(path, words=words):
            text = _core.write_shape(words).encode()
            _core.compile(text, words, chip, [], None, False).write_bundle(0, path)

        cache.fetch(kernel, write)


def test_list(run):
    assert run() == run("list")
    fill("b1 h1 s16 d16 f16", "b1 h1 s32 d16 f16")
    code, out, _ = run("list")
    *entries, total = out.splitlines()
    assert code == 0 and [line.split("sm_80  ")[1] for line in entries] == [
        "b1 h1 s16 d16 f16",
        "b1 h1 s32 d16 f16",
    ]
    size = sum(entry.bytes for entry in cache.entries())
    assert total == f"2 kernels, {size / 1024:.1f} KiB of 512.0 MiB: {cache.path()}"
    said = json.loads(run("list", "--json")[1])
    assert json.loads(run("--json")[1]) == said
    assert [kernel["words"] for kernel in said["kernels"]] == [
        "b1 h1 s16 d16 f16",
        "b1 h1 s32 d16 f16",
    ]
    assert sum(kernel["bytes"] for kernel in said["kernels"]) == size


def test_path(run, cache_dir):
    assert run("path") == (0, f"{cache_dir}/bundles\n", "")
    said = {"path": f"{cache_dir}/bundles", "problem": None}
    assert json.loads(run("path", "--json")[1]) == said


def test_clear(run, cache_dir):
    fill(PROBLEM)
    (cache_dir / "0123456789abcdef.cubin").write_bytes(b"of the driver")
    assert "1 assembled by the driver, 13 bytes" in run("list")[1]
    assert run("clear") == (0, "deleted 2 entries\n", "")
    assert cache.entries() == [] and not list(cache_dir.glob("*.cubin"))
    assert json.loads(run("clear", "--json")[1]) == {"deleted": 0}


def test_prune(run):
    fill("b1 h1 s16 d16 f16", "b1 h1 s32 d16 f16")
    old, new = cache.entries()
    os.utime(old.path / "entry.json", (1, 1))
    for file in (old.path / "kernel.fcb").iterdir():
        os.utime(file, (1, 1))
    assert run("prune") == (0, "deleted 0 entries\n", "")
    assert run("prune", "--limit", new.bytes) == (0, "deleted 1 entry\n", "")
    assert cache.entries() == [new]


def test_prune_limits(run):
    code, _, err = run("prune", "--limit=10X")
    assert code == 2 and err == (
        "flashcore: error: expects --limit to be a number of bytes, or one with K, M or G, "
        "but got '10X'; see flashcore cache prune --help\n"
    )


def test_precompile(run, tmp_path, monkeypatch):
    problems = tmp_path / "problems.txt"
    problems.write_text("# of a model\nb1 h1 s? d16 f16 causal\n\nb1 h1 s? d32 f16 causal\n")
    out = tmp_path / "kernels"
    code, said, _ = run("precompile", "--out", out, "--chips=sm_80,sm_90", "--json", f"@{problems}")
    kernels = json.loads(said)["kernels"]
    grids = len(_core.call_classes("sm_80"))
    assert code == 0 and sorted((kernel["words"][13:19], kernel["chip"]) for kernel in kernels) == [
        made
        for made in (
            ("d16/16", "sm_80"), ("d16/16", "sm_90"), ("d32/32", "sm_80"), ("d32/32", "sm_90")
        )
        for _ in range(grids)
    ]  # fmt: skip
    code, said, _ = run("precompile", "--out", out, "--chips=sm_80", "b1 h1 s? d16 f16 causal")
    assert code == 0 and said.endswith(f"; set FLASHCORE_KERNELS={out} to use them\n")

    monkeypatch.setenv("FLASHCORE_KERNELS", str(out))
    monkeypatch.setattr(_core, "compile", None)
    code = main(["attention", "b1 h1 s20 d16 f16 causal", "--device=emulator", "--seed=1"])
    assert code == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([PROBLEM], "expects --out, but got none; see flashcore cache precompile --help"),
        (["--out=o", "--chips=sm_61", PROBLEM], "expects chips of sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_120, sm_121, but got 'sm_61'"),
        (["--out=o", "d16 huh"], "'d16 huh': expects sizes (b1, h32/8,"),
        (["--out=o", "@nothing.txt"], "expects a file of problems, but got 'nothing.txt': No such file"),
        (["--out=/proc/no", PROBLEM], "expects a folder that can be written, but got '/proc/no'"),
    ],
)
def test_precompile_refused(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("precompile", *arguments)
    assert (code, out) == (2, "") and err.startswith(f"flashcore: error: {message}")


def test_turned_off(run, monkeypatch):
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    for action in ("list", "path", "clear", "prune"):
        code, _, err = run(action)
        assert (code, err) == (
            2,
            "flashcore: error: expects a cache, but got FLASHCORE_CACHE_DIR=, which turns it off\n",
        )


def test_list_with_regions(run):
    q, k, v = draw_qkv(queries=20)
    flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: i - j < 5)
    assert "arith" not in run("list")[1]
    code, out, _ = run("list", "--regions")
    assert code == 0 and "mask={\n" in out and "arith.subi %query, %key : index" in out


def test_precompile_with_functions(run, tmp_path):
    file = tmp_path / "masks.py"
    file.write_text("def causal(b, h, i, j):\n    return i >= j\n")
    code, out, _ = run(
        "precompile", "--out", tmp_path / "kernels", "--chips=sm_90", f"--mask-mod={file}:causal",
        "b? h2 s? d64", "merge d64 f16",
    )  # fmt: skip
    assert code == 0 and "mask={...}" in out and "merge d64 f16" in out and "8 kernels" in out
