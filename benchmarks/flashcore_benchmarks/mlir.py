"""The MLIR of one attention, for benchmarks, tests and fuzzers."""

DYNAMIC = "strided<[?, ?, ?, 1], offset: ?>"


def memref(sizes, dtype, layout=""):
    shape = "x".join(str(size) for size in (*sizes, dtype))
    return f"memref<{shape}, {layout}>" if layout else f"memref<{shape}>"


def attention(dtype, head_dim, causal="none", shape=None, head_dim_v=None, strided=False, window=(None, None), softcap=None,
              bias=None, layouts=None, lse=True, scale=None, scores=None, dropout=None):
    """MLIR of one attention. `shape` is (batch, heads_q, heads_kv, seqlen_q,
    seqlen_k) or None for sizes and strides known at run time only. `layouts`
    has strides and offsets by tensor name; `bias` is the second part (type, axes).
    `scores` is (stage, type) of scores that are an output; with `dropout` there are
    words of `rng`."""
    b, hq, hkv, sq, sk = shape or "?????"
    dv = head_dim_v or head_dim
    sizes = {"q": (b, hq, sq, head_dim), "k": (b, hkv, sk, head_dim), "v": (b, hkv, sk, dv), "o": (b, hq, sq, dv)}
    types = {name: dtype for name in sizes}
    if bias:
        types["bias"], axes = bias
        sizes["bias"] = [{"b": b, "h": hq, "q": sq, "k": sk, "1": 1}[str(axis)] for axis in axes]
    if scores:
        types["scores"], sizes["scores"] = scores[1], (b, hq, sq, sk)
    layout = {name: DYNAMIC if shape is None or strided else "" for name in sizes}
    for name, fixed in (layouts or {}).items():
        layout[name] = f"strided<{fixed['strides']}, offset: {fixed['offset']}>"
    if dropout is not None:
        types["rng"], sizes["rng"] = "i32", (4,)
    layout["rng"] = ""
    alias = "".join(f"!{name} = {memref(sizes[name], types[name], layout[name])}\n" for name in sizes)
    clauses = [f"causal({causal})"] if causal != "none" else []
    clauses += [f"window_{side}({size})" for side, size in zip(("left", "right"), window) if size is not None]
    clauses += [f"scale({scale:e})"] if scale is not None else []
    clauses += [f"softcap({softcap:e})"] if softcap is not None else []
    clauses += [f"stage({scores[0]})"] if scores else []
    clauses += [f"dropout({dropout:e})"] if dropout is not None else []
    if lse:
        alias += f"!lse = {memref((b, hq, sq), 'f32')}\n"
    arguments = [*sizes, "lse"] if lse else sizes
    return f"""{alias}func.func @attention({", ".join(f"%{name}: !{name}" for name in arguments)}) {{
  flashcore.attention ins(%q, %k, %v : !q, !k, !v){" bias(%bias : !bias)" if bias else ""}{" rng(%rng : !rng)" if dropout is not None else ""}
      outs(%o : !o){" lse(%lse : !lse)" if lse else ""}{" scores(%scores : !scores)" if scores else ""} {" ".join(clauses)}
  return
}}
"""


def packed_layouts(batch, heads, seqlen, head_dim):
    """q, k and v as parts of one (batch, seqlen, 3, heads, head_dim) tensor."""
    row = heads * head_dim
    return {name: {"strides": [seqlen * 3 * row, head_dim, 3 * row, 1], "offset": i * row} for i, name in enumerate("qkv")}
