"""The kernels that the mutants are made of: small, and of every kind."""

import emulation


def kernels():
    """Name -> keywords of emulation.compile_launch."""
    attention = emulation.attention
    dynamic = {"batch": 1, "heads_q": 2, "heads_kv": 1}
    return {
        # The default schedule of warps that share K and V: whatever it is, with
        # several key tiles.
        "default-f16-d64": dict(
            mlir=attention("f16", 64, "none", (1, 2, 1, 32, 384)),
            options=["--key-warps=1"]),
        # Ragged, with a loop of masked tiles and one of full tiles.
        "ragged-bf16-d64-causal": dict(
            mlir=attention("bf16", 64, "bottom_right"), padding=8,
            options=["--block-m=32", "--num-warps=2", "--block-n=32"],
            dims={**dynamic, "seqlen_q": 41, "seqlen_k": 165}),
        "stages2-f16-d32": dict(
            mlir=attention("f16", 32, "none", (1, 2, 1, 50, 90)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "stages3-f16-d32-causal": dict(
            mlir=attention("f16", 32, "top_left", (1, 2, 1, 90, 90)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=3"]),
        "stages4-bf16-d32": dict(
            mlir=attention("bf16", 32), padding=16,
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=4"],
            dims={**dynamic, "seqlen_q": 33, "seqlen_k": 125}),
        "shared-query-f16-d32": dict(
            mlir=attention("f16", 32, "none", (1, 1, 1, 64, 96)),
            options=["--block-m=64", "--num-warps=2", "--block-n=16",
                     "--num-stages=2", "--query=shared"]),
        "f16-d16": dict(
            mlir=attention("f16", 16, "none", (1, 2, 2, 32, 96)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "bf16-d128-causal": dict(
            mlir=attention("bf16", 128, "bottom_right", (1, 1, 1, 40, 70)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "f16-d80": dict(
            mlir=attention("f16", 80), padding=8,
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"],
            dims={**dynamic, "seqlen_q": 20, "seqlen_k": 77}),
        # Two blocks that walk three block tiles each.
        "persistent-f16-d32": dict(
            mlir=attention("f16", 32, "none", (1, 6, 2, 32, 80)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2", "--grid=persistent"]),
        # No loop is left.
        "one-tile-f16-d16": dict(
            mlir=attention("f16", 16, "none", (1, 2, 1, 40, 13)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16"]),
    }
