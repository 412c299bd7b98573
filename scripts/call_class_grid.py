"""Runs of the kernels that each class of calls has: a list of scripts/kernel_grids.py.

Every one runs calls of its class and of others, sizes of no queries and no keys among them: a class says what is fast, not what is right.
"""
import compiler_lists
from flashcore_benchmarks.mlir import attention

FEATURES = [dict(), dict(causal="bottom_right"), dict(window=(40, 9)), dict(softcap=30), dict(bias=("f16", "1hqk")), dict(causal="top_left", dropout=0.25),
            dict(causal="bottom_right", window=(64, None), softcap=50)]
# bf16 and f16 in turn.
HEAD_DIMS = [64, 128, 256, 80]


def call_class_runs(bundles, chip, sizes):
    """One kernel of each class, head dim and a feature in turn, so that each class meets all of them on the two chips. `sizes` are
    (batch, heads_q, heads_kv, seqlen_q, seqlen_k)."""
    grids = compiler_lists.list_schedule_fields(bundles.compiler)["expected_grid"]
    runs = []
    for i, grid in enumerate(grids):
        for j, head_dim in enumerate(HEAD_DIMS):
            features = FEATURES[(i + 2 * j + (chip != "sm_89")) % len(FEATURES)]
            words = attention(("f16", "bf16")[(i + j) % 2] if "bias" not in features else "f16", head_dim, lse=j % 2 == 0, **features)
            bundle = bundles.make(f"calls-{chip}-{grid}-d{head_dim}", words, [f"--chip={chip}", f"--expected-grid={grid}"])
            runs += [{"bundle": bundle, "kind": ("normal", "rising", "shifted")[(i + k) % 3], "layout": ("bhsd", "bshd")[k % 2],
                      "dims": dict(zip(("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k"), size))} for k, size in enumerate(sizes)]
    return runs
