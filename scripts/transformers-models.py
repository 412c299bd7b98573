#!/usr/bin/env python3
"""Runs tiny models of Transformers with and without FlashCore under their SDPA.

Each model has random weights, made from its configuration: nothing is downloaded.
It runs in bfloat16 on batches with padding, with PyTorch's own
scaled_dot_product_attention and with flashcore.torch.enable(emulate=True) in its
place, and both are compared with the same model in float32 where the padding does
not count. FlashCore's error is to be at most twice PyTorch's, plus 4e-2 for what
the rest of a layer rounds otherwise.

Prints a table, and a last line for scripts/torch-versions.py. The exit code is 1 if a
model does not agree, or was not run. Models that this Transformers runs without SDPA, as
5.4 does those of T5's family, are listed and are no failure: nothing is to be compared.
Needs the package, PyTorch and Transformers.
"""
import argparse
import dataclasses
import inspect
import sys
import warnings

import torch
import transformers

import flashcore.torch

#: Tokens of each entry of the batch; the rest is padding.
LENGTHS = [19, 7, 13]
#: What the rest of a layer may round otherwise.
SLACK = 4e-2
VOCABULARY = 96

#: Names that configurations have for the sizes of a small model. They get those that
#: their signature or their attribute map knows.
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "embedding_size": 64,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "d_kv": 16, "rotary_dim": 8,
    "intermediate_size": 64, "d_ff": 64, "n_inner": 64, "hidden_dim": 64, "ffn_dim": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "shared_expert_intermediate_size": 64,
    "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "max_seq_len": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0,
    "num_local_experts": 2, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "type_vocab_size": 2,
}  # fmt: skip

DECODER, MASKED, SEQ2SEQ = "CausalLM", "MaskedLM", "ConditionalGeneration"
#: By their prefix in Transformers: the kind of model, and what its configuration has beside.
MODELS = {
    "Llama": (DECODER, {}), "Mistral": (DECODER, {"sliding_window": 8}), "Mixtral": (DECODER, {}),
    "Qwen2": (DECODER, {}), "Qwen3": (DECODER, {}), "Qwen2Moe": (DECODER, {}), "Qwen3Moe": (DECODER, {}),
    "Gemma": (DECODER, {}), "Glm4": (DECODER, {}),
    "Phi": (DECODER, {}), "Phi3": (DECODER, {}), "StableLm": (DECODER, {}), "Starcoder2": (DECODER, {}),
    "Cohere": (DECODER, {}), "Cohere2": (DECODER, {"sliding_window": 8}), "Olmo": (DECODER, {}),
    "Olmo2": (DECODER, {}), "Granite": (DECODER, {}), "Glm": (DECODER, {}), "Helium": (DECODER, {}),
    "SmolLM3": (DECODER, {}), "Nemotron": (DECODER, {}), "GPTNeoX": (DECODER, {}),
    "GPTBigCode": (DECODER, {}), "OPT": (DECODER, {"word_embed_proj_dim": 64}),
    "Falcon": (DECODER, {"alibi": True, "new_decoder_architecture": False, "multi_query": False}),
    "Bert": (MASKED, {}), "Roberta": (MASKED, {"pad_token_id": 0}), "DistilBert": (MASKED, {}),
    "Electra": (MASKED, {}), "Albert": (MASKED, {}), "Camembert": (MASKED, {}), "XLMRoberta": (MASKED, {}),
    "Bart": (SEQ2SEQ, {}), "MBart": (SEQ2SEQ, {}),
    "T5": (SEQ2SEQ, {}), "MT5": (SEQ2SEQ, {}), "UMT5": (SEQ2SEQ, {}),
}  # fmt: skip


def configure(prefix, more):
    kind = getattr(transformers, f"{prefix}Config")
    known = set(inspect.signature(kind).parameters) | set(getattr(kind, "attribute_map", {}))
    # Names of the map that stand for others would be given twice.
    stands_for = getattr(kind, "attribute_map", {})
    sizes = {name: size for name, size in SIZES.items() if name in known and name not in stands_for}
    if {"num_experts", "num_local_experts"} & known:  # by default grouped_mm, which PyTorch 2.8 has on a GPU alone
        sizes["experts_implementation"] = "batched_mm"
    return kind(**{**whole_defaults(kind), **sizes, **more})


def whole_defaults(kind):
    """Defaults that are bools where the configuration says int, which Transformers 5.4 does of
    some and then refuses them."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {
        field.name: int(field.default)
        for field in fields
        if field.type in (int, "int") and isinstance(field.default, bool)
    }


def build(prefix):
    kind, more = MODELS[prefix]
    torch.manual_seed(0)
    name = f"{prefix}For{kind}"
    model = getattr(transformers, name)(configure(prefix, more))
    for parameter in model.parameters():  # larger weights than usual make attention matter
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    return model.to(torch.bfloat16).eval()


def draw(kind, side):
    """Tokens, and where they are none: padding stands on the right, or on the left."""
    generator = torch.Generator().manual_seed(1)
    longest = max(LENGTHS)
    ids = torch.randint(3, VOCABULARY, (len(LENGTHS), longest), generator=generator)
    mask = torch.zeros_like(ids)
    for row, count in zip(mask, LENGTHS):
        row[slice(count) if side == "right" else slice(longest - count, None)] = 1
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    if kind != SEQ2SEQ:
        return inputs, mask.bool()
    inputs |= {"decoder_input_ids": ids[:, :9], "use_cache": False}
    return inputs, torch.ones(len(LENGTHS), 9, dtype=torch.bool)


def run(model, inputs, seen):
    with torch.no_grad():
        return model(**inputs).logits.float()[seen]


def compare(prefix):
    """Calls that FlashCore took, its error and PyTorch's; a NaN stays one. None for a model
    that is not run by SDPA."""
    model = build(prefix)
    if not model._supports_sdpa:
        return None
    model.set_attn_implementation("sdpa")
    taken, worst = 0, (0.0, 0.0)
    attention = flashcore.torch.dropin.attention

    def count(*args, **options):
        nonlocal taken
        taken += 1
        return attention(*args, **options)

    for side in ("right", "left") if MODELS[prefix][0] == DECODER else ("right",):
        inputs, seen = draw(MODELS[prefix][0], side)
        theirs = run(model, inputs, seen)
        flashcore.torch.dropin.attention = count
        try:
            with flashcore.torch.sdpa(emulate=True):
                ours = run(model, inputs, seen)
        finally:
            flashcore.torch.dropin.attention = attention
        exact = run(model.float(), inputs, seen)
        model.to(torch.bfloat16)
        errors = tuple((x - exact).abs().max().item() for x in (ours, theirs))
        worst = max(worst, errors, key=lambda e: float("inf") if e[0] != e[0] else e[0])
    return taken, *worst


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="such as T5; all by default")
    args = parser.parse_args()
    for name in args.models:
        if name not in MODELS:
            parser.error(f"expects MODEL to be one of {', '.join(MODELS)}, but got '{name}'")
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore", flashcore.torch.FallbackWarning)
    print(f"Transformers {transformers.__version__}, PyTorch {torch.__version__}, bfloat16\n")
    print("| model | calls | error | PyTorch's | |\n|---|---:|---:|---:|---|")
    good, names, without = 0, args.models or MODELS, []
    for name in names:
        try:
            compared = compare(name)
            if compared is None:
                without.append(name)
                print(f"| {name} | | | | is run without SDPA |", flush=True)
                continue
            taken, ours, theirs = compared
        except Exception as error:  # the others are run, too
            print(f"| {name} | | | | {type(error).__name__}: {str(error).splitlines()[0]} |", flush=True)
            continue
        if not taken:
            said = "FlashCore took no call"
        elif not ours <= 2 * theirs + SLACK:  # nor for NaN
            said = "WRONG"
        else:
            said, good = "right", good + 1
        print(f"| {name} | {taken} | {ours:.1e} | {theirs:.1e} | {said} |", flush=True)
    others = f"; run without SDPA: {', '.join(without)}" if without else ""
    count = len(names) - len(without)
    print(f"\n{good} of {count} models agree with PyTorch{others}")
    return good != count


if __name__ == "__main__":
    sys.exit(main())
