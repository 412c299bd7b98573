"""The MLIR of one attention, for benchmarks, tests and fuzzers."""

DYNAMIC = "strided<[?, ?, ?, 1], offset: ?>"


def memref(sizes, dtype, layout=""):
    shape = "x".join(str(size) for size in (*sizes, dtype))
    return f"memref<{shape}, {layout}>" if layout else f"memref<{shape}>"


def may_have_lse(options):
    """Whether an attention with these options of the compiler may have an LSE, whose
    sums are never those of a product."""
    return "--row-sum=mma" not in options


def attention(dtype, head_dim, causal="none", shape=None, head_dim_v=None, strided=False, window=(None, None), softcap=None,
              bias=None, layouts=None, lse=True, scale=None, scores=None, dropout=None, append=None, rotary=None, page_size=None,
              blocks=None):
    """MLIR of one attention. `shape` is (batch, heads_q, heads_kv, seqlen_q,
    seqlen_k) or None for sizes and strides known at run time only. `layouts`
    has strides and offsets by tensor name; `bias` is the second part (type, axes).
    `scores` is (stage, type) of scores that are an output; with `dropout` there are
    words of `rng`. With `append`, that many new rows ("?" for any number) go behind
    `seqused_k` keys, and `rotary` (columns, style) turns them and the queries;
    `page_size` then has keys in pages. `blocks` is (queries, keys, axes) of lists of
    blocks."""
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
    clauses = []
    if append is not None:
        clauses = add_rows(types, sizes, layout, append, rotary, page_size)
    lists = block_lists(blocks, b, hq, sq, sk)
    for name, shape_of_list in lists.items():
        types[name], sizes[name], layout[name] = "i32", shape_of_list, ""
    alias = "".join(f"!{name} = {memref(sizes[name], types[name], layout[name])}\n" for name in sizes)
    beside = "".join(f" {clause}" for clause in clauses)
    clauses = [f"causal({causal})"] if causal != "none" else []
    clauses += [f"window_{side}({size})" for side, size in zip(("left", "right"), window) if size is not None]
    clauses += [f"scale({scale:e})"] if scale is not None else []
    clauses += [f"softcap({softcap:e})"] if softcap is not None else []
    clauses += [f"stage({scores[0]})"] if scores else []
    clauses += [f"dropout({dropout:e})"] if dropout is not None else []
    clauses += [f"style({rotary[1]})"] if rotary else []
    clauses += [f"block_size({blocks[0]}, {blocks[1]})"] if blocks else []
    if lse:
        alias += f"!lse = {memref((b, hq, sq), 'f32')}\n"
    arguments = [*sizes, "lse"] if lse else sizes
    return f"""{alias}func.func @attention({", ".join(f"%{name}: !{name}" for name in arguments)}) {{
  flashcore.attention ins(%q, %k, %v : !q, !k, !v){" bias(%bias : !bias)" if bias else ""}{" rng(%rng : !rng)" if dropout is not None else ""}{"".join(f" {name}(%{name} : !{name})" for name in lists)}{beside}
      outs(%o : !o){" lse(%lse : !lse)" if lse else ""}{" scores(%scores : !scores)" if scores else ""} {" ".join(clauses)}
  return
}}
"""


def add_rows(types, sizes, layout, append, rotary, page_size):
    """Adds the operands of an append; returns their clauses."""
    (b, hkv, _, d), (*_, dv) = sizes["k"], sizes["v"]
    dtype = types["q"]
    added = {"seqused_k": ("i32", (b,)), "k_new": (dtype, (b, hkv, append, d)), "v_new": (dtype, (b, hkv, append, dv))}
    clauses = ["seqused_k(%seqused_k : !seqused_k)", "append(%k_new, %v_new : !k_new, !v_new)"]
    if page_size:
        sizes["k"], sizes["v"] = ("?", hkv, page_size, d), ("?", hkv, page_size, dv)
        added["page_table"] = ("i32", (b, "?"))
        clauses.append("page_table(%page_table : !page_table)")
    if rotary:
        added |= {name: (dtype, ("?", rotary[0] // 2)) for name in ("rotary_cos", "rotary_sin")}
        clauses.append("rotary(%rotary_cos, %rotary_sin : !rotary_cos, !rotary_sin)")
    for name, (kind, shape) in added.items():
        types[name], sizes[name] = kind, shape
        layout[name] = layout["q"] if name in ("k_new", "v_new") and layout["q"] == DYNAMIC else ""
    return clauses


def block_lists(blocks, batch, heads, seqlen_q, seqlen_k):
    """The sizes of lists of (queries, keys, axes) by name, where the axes are "bh", each 1 where it is broadcast."""
    if not blocks:
        return {}
    queries, keys, axes = max(blocks[0], 1), max(blocks[1], 1), blocks[2]  # fuzzers draw others
    counts = (batch if axes[0] == "b" else 1, heads if axes[1] == "h" else 1, "?" if seqlen_q == "?" else -(-seqlen_q // queries))
    indices = (*counts, "?" if seqlen_k == "?" else -(-seqlen_k // keys))
    return {"block_counts": counts, "block_indices": indices, "full_block_counts": counts, "full_block_indices": indices}


def packed_layouts(batch, heads, seqlen, head_dim):
    """q, k and v as parts of one (batch, seqlen, 3, heads, head_dim) tensor."""
    row = heads * head_dim
    return {name: {"strides": [seqlen * 3 * row, head_dim, 3 * row, 1], "offset": i * row} for i, name in enumerate("qkv")}
