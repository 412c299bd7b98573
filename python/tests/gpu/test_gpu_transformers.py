"""Models of Transformers on a GPU: logits, and texts that they generate."""

import pytest
import torch

pytest.importorskip("transformers", "5.0", reason="needs Transformers 5")

import flashcore.transformers
from torch_models import build, logits_agree

flashcore.transformers.register()
SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 1024}


def model_and_tokens(kind, dtype):
    sizes = {**SIZES, "max_position_embeddings": 1024} if kind == "bert" else GROUPED
    window = {} if kind in ("llama", "bert") else {"sliding_window": 100}
    model = build(kind, dtype, "cuda", **sizes, **window)
    return model, torch.randint(1, 96, (2, 333), device="cuda")


@pytest.mark.parametrize("kind", ["llama", "gemma2", "mistral", "gpt_oss", "bert"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("padded", [False, True])
def test_logits_agree(kind, dtype, padded):
    model, ids = model_and_tokens(kind, dtype)
    inputs = {}
    if padded:
        inputs["attention_mask"] = torch.ones_like(ids)
        inputs["attention_mask"][1, :50] = 0
    logits_agree(model, ids, **inputs)


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_agrees(kind, cache):
    model, ids = model_and_tokens(kind, torch.float16)
    options = {
        "max_new_tokens": 24, "do_sample": False, "output_logits": True,
        "return_dict_in_generate": True, "cache_implementation": cache, "pad_token_id": 0,
        "eos_token_id": None,
    }  # fmt: skip
    ours = model.generate(ids, **options)
    model.set_attn_implementation("eager")
    theirs = model.generate(ids, **options)
    for mine, wanted in zip(ours.logits, theirs.logits):
        torch.testing.assert_close(mine, wanted, atol=3e-2, rtol=3e-2)
        if not torch.equal(mine.argmax(-1), wanted.argmax(-1)):
            break  # from a tie on the texts differ
