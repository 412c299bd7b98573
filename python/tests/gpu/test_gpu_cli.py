"""The command flashcore on a GPU."""

import json
import subprocess
import sys


def flashcore(*arguments):
    command = [sys.executable, "-m", "flashcore", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_attention():
    words = "b1 h8/2 s500x600 d64 bf16 causal lse"
    result = flashcore("attention", words, "--seed=1", "--time", "--json")
    said = json.loads(result.stdout)
    assert result.returncode == 0 and said["device"] == "cuda" and said["result"] == "PASS"
    assert said["kernel"]["functions"][0]["registers"] > 0
    time = said["time"]
    assert 0 < time["min_us"] <= time["median_us"] <= time["max_us"]
    assert time["host_us"] > 0 and time["tflops"] > 0
    line = flashcore("attention", words, "--seed=1", "--time").stdout
    assert " registers and " in line and " of the GPU, " in line


def test_a_layout_and_any_head_dim():
    for words in ("b2 h4/2 s130 d64 packed", "b1 h2 s70 d20 bf16 bshd", "b1 h2 s70 d33", "b1 h4/1 s1x900 d128 bias=1h1k:f32"):
        result = flashcore("attention", words, "--seed=1")
        assert result.returncode == 0 and result.stdout.startswith("PASS "), result


def test_doctor():
    result = flashcore("doctor", "--json")
    assert result.returncode == 0 and json.loads(result.stdout)["runs_on"] == ["gpu", "emulator"]


def test_bench(tmp_path):
    """Every contender answers or has a reason, and ours answer in every layout and mask."""
    shapes = ["b1 h4/2 s300 d64 causal", "b2 h4 s1x700 d128 bf16 bshd", "b1 h4 s200 d64 window=64,0 bias=1hqk"]
    out = tmp_path / "out.json"
    arguments = [f"--shape={words}" for words in shapes]
    result = flashcore("bench", *arguments, "--rounds=2", f"--out={out}")
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("| `")]
    assert len(rows) == 3 and "| FlashCore | FlashCore static | SDPA" in result.stdout
    said = json.loads(out.read_text())
    for words in shapes:
        entry = said["problems"][words]
        answered = entry["contenders"]
        assert {"flashcore", "flashcore:static", "math"} <= set(answered) and not entry["lost"]
        assert len(answered) + len(entry["refused"]) == 9
        assert all(each["error"]["ratio"] <= 2 for each in answered.values())
        assert all(len(each["us"]["rounds"]) == 2 for each in answered.values())
    assert flashcore("bench", "report", str(out)).returncode == 0
