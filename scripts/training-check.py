#!/usr/bin/env python3
"""Trains with flashcore.attention on a GPU, beside PyTorch's attention.

Three parts, each a table: gradients of random problems against the formula in double
precision (FlashAttention's criterion, twice the error of the formula in the input's
precision), times of forward and backward together, and a GPT on the text of docs/,
whose loss is that of PyTorch's attention. Ends with 1 where a gradient is wrong or a
loss is another. Needs PyTorch and the package; inputs are the same at each run.
"""
import argparse
import itertools
import math
import pathlib
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import flashcore
import flashcore.torch
from flashcore.flash_attn import flash_attn_varlen_func

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICE = "cuda"
MASKS = [{}, {"causal": "bottom_right"}, {"causal": "top_left"}, {"window": (50, None)}, {"window": (20, 30)},
         {"causal": "bottom_right", "window": (64, None)}]
LENGTHS = [(256, 256), (200, 300), (300, 200), (300, 100), (1, 130)]
#: batch, heads, sequence, head_dim, causal
TIMES = [(1, 8, 512, 64, True), (4, 16, 2048, 64, True), (2, 16, 4096, 128, False), (2, 16, 4096, 128, True),
         (1, 16, 8192, 128, True), (2, 8, 4096, 256, True)]
#: How far apart losses may be: runs of PyTorch's attention alone differ by as much.
SAME_LOSS = 2e-3


def formula(q, k, v, causal=None, window=(None, None)):
    """In the precision of its arguments."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    row = torch.arange(scores.shape[-2], device=DEVICE)[:, None]
    column = torch.arange(scores.shape[-1], device=DEVICE)[None]
    own = row + scores.shape[-1] - scores.shape[-2]
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE)
    if causal:
        seen &= column <= (row if causal == "top_left" else own)
    left, right = window
    if left is not None:
        seen &= column >= own - left
    if right is not None:
        seen &= column <= own + right
    scores = scores.masked_fill(~seen, -math.inf)
    is_empty = ~seen.any(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(is_empty, 0), -1).masked_fill(is_empty, 0) @ v


def gradients(function, tensors, weight):
    tensors = [x.detach().clone().requires_grad_() for x in tensors]
    return torch.autograd.grad((function(*tensors) * weight).sum(), tensors)


def check_gradients():
    """The number of problems, and those whose gradients are wrong."""
    wrong, count = [], 0
    for dtype, d, (heads, heads_kv), (sq, sk), mask in itertools.product(
            (torch.float16, torch.bfloat16), (8, 64, 96, 128, 256), ((4, 4), (8, 2)), LENGTHS, MASKS):
        torch.manual_seed(count)
        count += 1
        tensors = [torch.randn(2, h, s, d, device=DEVICE, dtype=dtype) for h, s in ((heads, sq), (heads_kv, sk), (heads_kv, sk))]
        weight = torch.randn(2, heads, sq, d, device=DEVICE, dtype=torch.float64)
        exact = gradients(lambda *x: formula(*x, **mask), [x.double() for x in tensors], weight)
        usual = gradients(lambda *x: formula(*x, **mask).double(), tensors, weight)
        ours = gradients(lambda *x: flashcore.attention(*x, **mask).double(), tensors, weight)
        for name, mine, theirs, wanted in zip("qkv", ours, usual, exact):
            error, allowed = ((x.double() - wanted).abs().max().item() for x in (mine, theirs))
            if not error <= 2 * allowed + 1e-3:
                wrong.append(f"{dtype} d{d} h{heads}/{heads_kv} {sq}x{sk} {mask}: d{name} is off by {error:.3g}, of {2 * allowed + 1e-3:.3g} allowed")
    return count, wrong


def check_sequences():
    """The same of sequences back to back, some of them empty, by both interfaces."""
    wrong, count = [], 0
    masks = [{}, {"causal": "bottom_right"}, {"causal": "bottom_right", "window": (40, None)}, {"window": (30, 20)}]
    of_q = [37, 0, 130, 1, 200, 64]
    for dtype, d, (heads, heads_kv), mask, of_k in itertools.product(
            (torch.float16, torch.bfloat16), (64, 128, 256), ((4, 4), (8, 2)), masks, (of_q, [50, 3, 100, 77, 200, 0])):
        torch.manual_seed(count)
        count += 1
        ends = [torch.tensor([0, *itertools.accumulate(lengths)], device=DEVICE, dtype=torch.int32) for lengths in (of_q, of_k)]
        tensors = [torch.randn(1, h, sum(lengths), d, device=DEVICE, dtype=dtype)
                   for h, lengths in ((heads, of_q), (heads_kv, of_k), (heads_kv, of_k))]
        weight = torch.randn(1, heads, sum(of_q), d, device=DEVICE, dtype=torch.float64)

        def each(q, k, v):
            parts = [(q.narrow(2, a, n), k.narrow(2, b, m), v.narrow(2, b, m))
                     for a, n, b, m in zip(ends[0].tolist(), of_q, ends[1].tolist(), of_k)]
            return torch.cat([formula(*part, **mask) if part[1].shape[2] else torch.zeros_like(part[0]) for part in parts], 2)

        def plain(*tensors):
            return flashcore.attention(*tensors, cu_seqlens_q=ends[0], cu_seqlens_k=ends[1], **mask)

        def as_flash_attn(*tensors):
            sides = [-1 if side is None else side for side in mask.get("window", (None, None))]
            rows = [x[0].transpose(0, 1) for x in tensors]
            return flash_attn_varlen_func(*rows, *ends, max(of_q), max(of_k), causal="causal" in mask, window_size=sides).transpose(0, 1)[None]

        exact = gradients(each, [x.double() for x in tensors], weight)
        usual = gradients(lambda *x: each(*x).double(), tensors, weight)
        for call in (plain, as_flash_attn):
            ours = gradients(lambda *x: call(*x).double(), tensors, weight)
            for name, mine, theirs, wanted in zip("qkv", ours, usual, exact):
                error, allowed = ((x.double() - wanted).abs().max().item() for x in (mine, theirs))
                if not error <= 2 * allowed + 1e-3:
                    wrong.append(f"{dtype} d{d} h{heads}/{heads_kv} {of_q} x {of_k} {mask}, {call.__name__}: d{name} is off by {error:.3g}")
    return count, wrong


def microseconds(function, runs=30):
    for _ in range(5):
        function()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(runs):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / runs * 1e3


def print_times():
    print("| batch, heads, seqlen, head_dim, causal | flashcore us | PyTorch flash | PyTorch cuDNN |\n|---|---:|---:|---:|")
    for *sizes, causal in TIMES:
        tensors = [torch.randn(sizes, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        gradient = torch.randn(sizes, device=DEVICE, dtype=torch.bfloat16)
        row = [microseconds(lambda: torch.autograd.grad(flashcore.attention(*tensors, causal=causal), tensors, gradient))]
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            with sdpa_kernel(backend):
                row.append(microseconds(lambda: torch.autograd.grad(
                    F.scaled_dot_product_attention(*tensors, is_causal=causal), tensors, gradient)))
        print(f"| {', '.join(map(str, (*sizes, causal)))} | {' | '.join(f'{x:.0f}' for x in row)} |", flush=True)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, attend):
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(torch.nn.Module):
    """Of bytes; 85 million parameters."""

    def __init__(self, width=768, heads=12, layers=12, length=1024):
        super().__init__()
        self.bytes, self.places = torch.nn.Embedding(256, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.out = torch.nn.LayerNorm(width), torch.nn.Linear(width, 256)

    def forward(self, text, attend):
        x = self.bytes(text) + self.places.weight[:text.shape[1]]
        for block in self.blocks:
            x = block(x, attend)
        return self.out(self.norm(x))


def train(attend, seed, text, steps, is_compiled):
    """The mean loss of the last ten steps, and tokens a second."""
    torch.manual_seed(seed)
    model = GPT().to(DEVICE)
    run = torch.compile(model, fullgraph=True) if is_compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    generator, losses = torch.Generator(DEVICE).manual_seed(seed), []
    for step in range(steps):
        if step == 10:
            torch.cuda.synchronize()
            begin = time.monotonic()
        at = torch.randint(0, len(text) - 1025, (8,), device=DEVICE, generator=generator)
        tokens = text[at[:, None] + torch.arange(1025, device=DEVICE)]
        with torch.autocast(DEVICE, torch.bfloat16):
            scores = run(tokens[:, :-1], attend)
        loss = F.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    rate = 8 * 1024 * (steps - 10) / (time.monotonic() - begin)
    return torch.stack(losses[-10:]).mean().item(), rate


def train_beside(steps):
    """Whether losses are those of PyTorch's attention."""
    text = torch.tensor(list(b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))), device=DEVICE)
    attends = {"flashcore": lambda q, k, v: flashcore.attention(q, k, v, causal=True),
               "PyTorch": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)}
    print("| model | seed | loss | tokens a second |\n|---|---:|---:|---:|")
    is_same = True
    for is_compiled, seed in ((False, 0), (False, 1), (True, 0)):
        found = {}
        for name, attend in attends.items():
            found[name], rate = train(attend, seed, text, steps, is_compiled)
            print(f"| {name}{', compiled' if is_compiled else ''} | {seed} | {found[name]:.4f} | {rate:,.0f} |", flush=True)
        is_same &= abs(found["flashcore"] - found["PyTorch"]) < SAME_LOSS
    return is_same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150, help="of each training")
    args = parser.parse_args()
    # What falls back would be compared with itself.
    warnings.filterwarnings("error", "(?!.*with a mask that hides)", flashcore.torch.FallbackWarning)
    warnings.filterwarnings("ignore", ".*with a mask that hides", flashcore.torch.FallbackWarning)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    count, wrong = check_gradients()
    packed, wrong_packed = check_sequences()
    wrong += wrong_packed
    print("\n".join([*wrong, f"gradients: {count} problems, {packed} of sequences back to back, {len(wrong)} gradients beyond twice the formula's error"]), flush=True)
    print_times()
    is_same = train_beside(args.steps)
    return 0 if is_same and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
