#!/usr/bin/env python3
"""What a decoding step takes with and without CUDA graphs.

    python serving_times.py [--json FILE]

First the attention of 80 layers alone: a batch of 16 with 32 query and 8 key heads of head_dim
128, bfloat16, each layer with pages of its own, of 1,000 keys a sequence; beside it PyTorch's SDPA
over caches in one piece. Then ``generate_batch`` of Transformers, of a model of 80 small layers
with random weights: 16 prompts of 200 tokens, 64 new ones each. Medians of seven steps, and of
three runs.
"""

import argparse
import datetime
import json
import statistics
import sys
import time

LAYERS, BATCH, HEADS, HEADS_KV, DIM, KEYS, PAGE = 80, 16, 32, 8, 128, 1000, 64
PROMPT, NEW = 200, 64


def timed(step, repeats=7):
    """(milliseconds of the host, of all) of a step: median of repeats."""
    import torch

    rows = []
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        called = time.perf_counter()
        torch.cuda.synchronize()
        rows.append((1e3 * (called - start), 1e3 * (time.perf_counter() - start)))
    return [statistics.median(column) for column in zip(*rows)]


def graph_of(step):
    import torch

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def attention_steps():
    import torch

    import flashcore

    def draw(*shape):
        return torch.randn(shape, dtype=torch.bfloat16, device="cuda")

    each = -(-(KEYS + 1) // PAGE)
    pages = [[draw(BATCH * each, PAGE, HEADS_KV, DIM) for _ in "kv"] for _ in range(LAYERS)]
    table = torch.randperm(BATCH * each, device="cuda").int().view(BATCH, each)
    used = torch.full((BATCH,), KEYS, dtype=torch.int32, device="cuda")
    q = draw(BATCH, 1, HEADS, DIM)
    new = [draw(BATCH, 1, HEADS_KV, DIM) for _ in "kv"]
    caches = [[draw(BATCH, HEADS_KV, KEYS + 1, DIM) for _ in "kv"] for _ in range(LAYERS)]
    rows = q.transpose(1, 2)

    def append():
        for k, v in pages:
            flashcore.attention(
                q, k, v, page_table=table, seqused_k=used, k_new=new[0], v_new=new[1], layout="bshd"
            )

    def read():
        for k, v in pages:
            flashcore.attention(q, k, v, page_table=table, seqused_k=used, layout="bshd")

    def sdpa():
        for k, v in caches:
            torch.nn.functional.scaled_dot_product_attention(rows, k, v, enable_gqa=True)

    found = {}
    for name, step in (("append and read", append), ("read", read), ("SDPA", sdpa)):
        found[name] = {"calls": timed(step), "graph": timed(graph_of(step))}
    return found


def texts(implementation, graphs):
    """Tokens a second of generate_batch."""
    import torch
    import transformers

    import flashcore.transformers

    flashcore.transformers.register_flash()
    sizes = {
        "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": LAYERS,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000,
    }  # fmt: skip
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    model = model.to("cuda", torch.bfloat16).eval()
    model.set_attn_implementation(implementation)
    prompts = torch.randint(1, 999, (BATCH, PROMPT)).tolist()
    greedy = transformers.GenerationConfig(
        max_new_tokens=NEW, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    config = transformers.ContinuousBatchingConfig(
        num_blocks=512, max_batch_tokens=4096, use_cuda_graph=graphs
    )
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        made = model.generate_batch(
            prompts, greedy, continuous_batching_config=config, progress_bar=False
        )
        seconds.append(time.perf_counter() - start)
        assert len(made) == BATCH
    return BATCH * NEW / statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    args = parser.parse_args()
    import torch
    import transformers

    found = {
        "run": {
            "date": datetime.date.today().isoformat(), "card": torch.cuda.get_device_name(),
            "torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__,
        },
        "milliseconds of a step, of the host and in all": attention_steps(),
        "tokens a second": {},
    }  # fmt: skip
    for name in ("fc_flash_attention_2", "sdpa"):
        for graphs in (False, None):
            key = f"{name}, {'graphs' if graphs is None else 'calls'}"
            try:
                found["tokens a second"][key] = texts(name, graphs)
            except Exception as error:  # of another Transformers: the rest is of use
                print(f"{key}: {type(error).__name__}: {error}", file=sys.stderr)
    print(json.dumps(found, indent=1))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
