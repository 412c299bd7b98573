"""Small models of Transformers with random weights, and the criterion for logits."""

import torch
import transformers

_SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 1, "head_dim": 32}
_GEMMA = {"sliding_window": 8, "attn_logit_softcapping": 20.0, "query_pre_attn_scalar": 32}


def build(kind, dtype=torch.float16, device="cpu", implementation="fc_attention", **sizes):
    """A model in evaluation mode: "llama", "mistral" (window), "gemma2" (softcap, window),
    "gpt_oss" (sinks, window) or "bert"."""
    torch.manual_seed(0)
    if kind == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**_GROUPED, **sizes}))
    elif kind == "mistral":
        config = transformers.MistralConfig(**{**_GROUPED, "sliding_window": 8, **sizes})
        model = transformers.MistralForCausalLM(config)
    elif kind == "gemma2":
        config = transformers.Gemma2Config(**{**_GROUPED, **_GEMMA, **sizes})
        model = transformers.Gemma2ForCausalLM(config)
    elif kind == "gpt_oss":
        experts = {"num_local_experts": 2, "num_experts_per_tok": 2, "sliding_window": 8}
        config = transformers.GptOssConfig(**{**_GROUPED, **experts, "pad_token_id": 0, **sizes})
        model = transformers.GptOssForCausalLM(config)
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.sinks)
    else:
        model = transformers.BertForMaskedLM(transformers.BertConfig(**{**_SIZES, **sizes}))
    for parameter in model.parameters():  # larger weights than usual make attention matter
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    model = model.to(device, dtype).eval()
    model.set_attn_implementation(implementation)
    return model


def logits_agree(model, ids, **inputs):
    """Their error is at most twice that of eager attention in the same type, plus 1e-2
    (f16) or 4e-2 (bf16) for what the rest of a layer rounds otherwise.

    The reference is the same model in float32. Tokens that are padding do not count.
    """
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        ours = model(ids, **inputs).logits.float()
        model.set_attn_implementation("eager")
        eager = model(ids, **inputs).logits.float()
        exact = model.float()(ids, **inputs).logits
        model.to(dtype).set_attn_implementation("fc_attention")
    seen = inputs.get("attention_mask", torch.ones_like(ids)).bool()
    error = (ours - exact)[seen].abs().max().item()
    yardstick = (eager - exact)[seen].abs().max().item()
    allowed = 2 * yardstick + {torch.float16: 1e-2, torch.bfloat16: 4e-2}.get(dtype, 1e-4)
    assert error <= allowed, f"expects logits within {allowed:.2e}, but got {error:.2e} off"
