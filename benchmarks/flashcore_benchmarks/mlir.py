"""The words of one attention, for benchmarks, tests and fuzzers."""


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
    """The words of --shape of one attention. `shape` is (batch, heads_q, heads_kv,
    seqlen_q, seqlen_k) or None for sizes and strides known at run time only.
    `layouts` has strides and offsets by tensor name; `bias` is (type, axes).
    `scores` is (stage, type) of scores that are an output; `dropout` a share. With
    `append`, that many new rows ("?" for any number) go behind `seqused_k` keys, and
    `rotary` (columns, style) turns them and the queries; `page_size` has keys in pages.
    `blocks` is (queries, keys, axes) of lists of blocks. Further words may follow."""
    b, hq, hkv, sq, sk = shape or "?????"
    dv = head_dim_v or head_dim
    words = [f"b{b} h{hq}/{hkv} s{sq}x{sk} d{head_dim}/{dv} {dtype}"]
    words += [f"causal={causal}"] if causal != "none" else []
    if window != (None, None):
        words.append(f"window={','.join('inf' if keys is None else str(keys) for keys in window)}")
    for name, number in (("scale", scale), ("softcap", softcap), ("dropout", dropout)):
        words += [f"{name}={number:e}"] if number is not None else []
    words += [f"bias={bias[1]}:{bias[0]}"] if bias else []
    words += ["blocks={}x{}:{}".format(*blocks)] if blocks else []
    words += ["lse"] if lse else []
    words += ["scores={}:{}".format(*scores)] if scores else []
    words += [f"append={append}"] if append is not None else []
    words += ["rotary={}:{}".format(*rotary)] if rotary else []
    words += [f"page_size={page_size}"] if page_size else []
    words += ["strided"] if shape is None or strided else []
    sizes = {"q": (b, hq, sq, head_dim), "k": (b, hkv, sk, head_dim), "v": (b, hkv, sk, dv), "o": (b, hq, sq, dv)}
    for name, fixed in (layouts or {}).items():
        words.append(f"%{name}={memref(sizes[name], dtype, 'strided<{strides}, offset: {offset}>'.format(**fixed))}")
    return " ".join(words)


def is_module(source):
    """Whether it is MLIR, and not words of --shape."""
    return "func.func" in source


def source_arguments(source):
    """How flashcore-compile takes words of --shape, or a module on the standard input:
    arguments, and the input."""
    return (["-"], source) if is_module(source) else ([f"--shape={source}"], "")


def packed_layouts(batch, heads, seqlen, head_dim):
    """q, k and v as parts of one (batch, seqlen, 3, heads, head_dim) tensor."""
    row = heads * head_dim
    return {name: {"strides": [seqlen * 3 * row, head_dim, 3 * row, 1], "offset": i * row} for i, name in enumerate("qkv")}
