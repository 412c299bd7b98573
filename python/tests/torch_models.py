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
        # By default grouped_mm, which PyTorch has on the CPU from 2.9 on.
        experts["experts_implementation"] = "batched_mm"
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
    implementation = model.config._attn_implementation
    with torch.no_grad():
        ours = model(ids, **inputs).logits.float()
        model.set_attn_implementation("eager")
        eager = model(ids, **inputs).logits.float()
        exact = model.float()(ids, **inputs).logits
        model.to(dtype).set_attn_implementation(implementation)
    seen = inputs.get("attention_mask", torch.ones_like(ids)).bool()
    error = (ours - exact)[seen].abs().max().item()
    yardstick = (eager - exact)[seen].abs().max().item()
    allowed = 2 * yardstick + {torch.float16: 1e-2, torch.bfloat16: 4e-2}.get(dtype, 1e-4)
    assert error <= allowed, f"expects logits within {allowed:.2e}, but got {error:.2e} off"


def prompts(lengths, seed=1):
    """Tokens of each, for generate_batch."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 96, (n,), generator=generator).tolist() for n in lengths]


def generate(model, texts, count=6, **config):
    """Continuous batching: (tokens, the logarithm of each one's probability) of each text."""
    implementation = model.config._attn_implementation
    greedy = transformers.GenerationConfig(
        max_new_tokens=count, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    sizes = {"num_blocks": 64, "max_batch_tokens": 64, "return_logprobs": True, **config}
    batching = transformers.ContinuousBatchingConfig(auto_switch_to_flash=False, **sizes)
    outputs = model.generate_batch(
        texts, generation_config=greedy, continuous_batching_config=batching, progress_bar=False
    )
    assert model.config._attn_implementation == implementation
    assert len(outputs) == len(texts)
    for output in outputs.values():
        assert output.error is None, output.error
    return [(output.generated_tokens, output.logprobs) for output in outputs.values()]


def generate_alone(model, texts, count=6):
    """The same, of one text at a time by ``generate``."""
    outputs = []
    for text in texts:
        ids = torch.tensor([text], device=model.device)
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False,
            eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
        new = output.sequences[0, len(text) :].tolist()
        logs = [logits[0].float().log_softmax(-1) for logits in output.logits]
        outputs.append((new, [log[token].item() for token, log in zip(new, logs)]))
    return outputs


def texts_agree(ours, theirs, tolerance=2e-2):
    """The same tokens, as likely as each other, up to where two are as likely."""
    for (mine, likely), (wanted, wanted_likely) in zip(ours, theirs):
        assert len(mine) == len(wanted) > 0
        for token, log, other, other_log in zip(mine, likely, wanted, wanted_likely):
            assert abs(log - other_log) <= tolerance, f"{log} and {other_log}"
            if token != other:
                break
