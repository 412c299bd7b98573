"""The wheel as the `kernels` library loads it: scripts/kernels-repository.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("kernels")
ROOT = Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "build" / "wheel").glob("*.whl"))
pytestmark = pytest.mark.skipif(len(WHEELS) != 1, reason="needs the wheel of scripts/wheel.sh")

LOADS = """
import sys
from pathlib import Path

import kernels
import torch

kernel = kernels.get_local_kernel(Path(sys.argv[1]))
assert kernel is kernels.get_kernel("someone/flashcore", version=1, trust_remote_code=True)
assert Path(kernel.flashcore.__file__).is_relative_to(sys.argv[1])
q = torch.randn(2, 20, 2, 64, dtype=torch.float16)
o = kernel.flash_attn_func(q, q, q, causal=True)
wanted = torch.nn.functional.scaled_dot_product_attention(*(q.float().transpose(1, 2),) * 3, is_causal=True)
torch.testing.assert_close(o.float().transpose(1, 2), wanted, atol=2e-3, rtol=2e-3)
"""

MODEL = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=50, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1,
)
torch.manual_seed(0)
model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
tokens = torch.randint(50, (2, 9))
logits = []
for name in ("sdpa", "someone/flashcore"):
    model.set_attn_implementation(name, **({} if name == "sdpa" else {"allow_all_kernels": True}))
    with torch.no_grad():
        logits.append(model(tokens).logits.float())
torch.testing.assert_close(*logits, atol=3e-2, rtol=3e-2)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    out = tmp_path_factory.mktemp("kernels") / "repository"
    script = ROOT / "scripts" / "kernels-repository.py"
    subprocess.run([sys.executable, script, "--out", out], check=True)
    return out


def run(code, repository):
    """In a process whose flashcore is that of the repository."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LOCAL_KERNELS"] = f"someone/flashcore={repository}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(repository)], env=environment, capture_output=True, text=True,
        cwd=repository,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_loaded_by_name(repository):
    run(LOADS, repository)


def test_a_model_takes_it_for_its_attention(repository):
    utilities = pytest.importorskip("transformers.utils.import_utils")
    if not utilities.is_kernels_available():
        pytest.skip("this version of Transformers takes another of kernels")
    run(MODEL, repository)


def test_variants(repository):
    names = sorted(path.name for path in (repository / "build").iterdir())
    assert [name.split("-")[3] for name in names] == ["cpu", "cu120", "cu130"]


def test_another_file_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "kernels-repository.py", "--out", tmp_path, "some.whl"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "expects a wheel of scripts/wheel.sh, but got some.whl" in done.stderr
