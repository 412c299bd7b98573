"""Triton kernels for the emulator's tests.

triton_{softmax,attention,matmul}.ptx are these kernels for sm_89, as
`python triton_kernels.py DIRECTORY` writes them with Triton 3.9.0; that needs no
GPU.
"""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(out, x, stride, columns, BLOCK: tl.constexpr):
    """One row a program."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * stride + column, mask=inside, other=-float("inf"))
    shifted = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + column, shifted / tl.sum(shifted, axis=0), mask=inside)


@triton.jit
def attention(q, k, v, o, lse, seqlen, scale_log2, CAUSAL: tl.constexpr,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr):
    """softmax(Q K^T) V of one head and BLOCK_M query rows a program."""
    head = tl.program_id(1).to(tl.int64) * seqlen * HEAD_DIM
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    queries = tl.load(q + head + rows[:, None] * HEAD_DIM + dims[None, :],
                      mask=rows[:, None] < seqlen, other=0.0)
    row_max = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    end = seqlen
    if CAUSAL:
        end = tl.minimum(seqlen, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys < seqlen
        k_tile = tl.load(k + head + keys[None, :] * HEAD_DIM + dims[:, None],
                         mask=inside[None, :], other=0.0)
        scores = tl.dot(queries, k_tile) * scale_log2
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        factor = tl.exp2(row_max - new_max)
        weights = tl.exp2(scores - new_max[:, None])
        row_sum = row_sum * factor + tl.sum(weights, axis=1)
        v_tile = tl.load(v + head + keys[:, None] * HEAD_DIM + dims[None, :],
                         mask=inside[:, None], other=0.0)
        acc = acc * factor[:, None]
        acc = tl.dot(weights.to(tl.float16), v_tile, acc)
        row_max = new_max
    acc = acc / row_sum[:, None]
    tl.store(o + head + rows[:, None] * HEAD_DIM + dims[None, :], acc.to(tl.float16),
             mask=rows[:, None] < seqlen)
    tl.store(lse + tl.program_id(1) * seqlen + rows,
             (row_max + tl.log2(row_sum)) * 0.6931471805599453, mask=rows < seqlen)


@triton.jit
def matmul(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           BLOCK_K: tl.constexpr):
    """C = A B of bf16 matrices, f32 result."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        depth = start + tl.arange(0, BLOCK_K)
        a_tile = tl.load(a + rows[:, None] * k + depth[None, :],
                         mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        b_tile = tl.load(b + depth[:, None] * n + columns[None, :],
                         mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
    tl.store(c + rows[:, None] * n + columns[None, :], acc,
             mask=(rows[:, None] < m) & (columns[None, :] < n))


def build(directory, name, kernel, signature, constants, line_info=False, **options):
    signature = signature | {key: "constexpr" for key in constants}
    # Buffers are aligned to 16 bytes, and so are rows.
    aligned = {(i,): [["tt.divisibility", 16]]
               for i, type in enumerate(signature.values())
               if type.startswith("*") or type == "i32"}
    triton.knobs.compilation.disable_line_info = not line_info
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 89, 32), options=options)
    (directory / f"{name}.ptx").write_text(compiled.asm["ptx"])
    print(name, compiled.metadata.shared, "bytes of shared memory")


def main():
    directory = pathlib.Path(sys.argv[1])
    build(directory, "triton_softmax", softmax,
          {"out": "*fp32", "x": "*fp32", "stride": "i32", "columns": "i32"},
          {"BLOCK": 256}, num_warps=4)
    pointers = {name: "*fp16" for name in "qkvo"} | {"lse": "*fp32"}
    build(directory, "triton_attention", attention,
          pointers | {"seqlen": "i32", "scale_log2": "fp32"},
          {"CAUSAL": True, "BLOCK_M": 64, "BLOCK_N": 32, "HEAD_DIM": 64},
          num_warps=4, num_stages=3)
    build(directory, "triton_matmul", matmul,
          {"a": "*bf16", "b": "*bf16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"},
          {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, line_info=True,
          num_warps=4, num_stages=3)


if __name__ == "__main__":
    main()
