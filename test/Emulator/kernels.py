"""The kernels that the mutants are made of: small, and of every kind."""

import pathlib

import emulation

_INPUTS = (pathlib.Path(__file__).resolve().parent.parent.parent /
           "runtime/emulator/unittests/Inputs")


def kernels():
    """Name -> keywords of emulation.compile_launch. Those without an LSE have their
    row sums from products."""
    attention = emulation.attention
    dynamic = {"batch": 1, "heads_q": 2, "heads_kv": 1}
    return {
        # The default schedule of warps that share K and V: whatever it is, with
        # several key tiles.
        "default-f16-d64": dict(
            source=attention("f16", 64, "none", (1, 2, 1, 32, 384)),
            options=["--key-warps=1"]),
        # Ragged, with a loop of masked tiles and one of full tiles.
        "ragged-bf16-d64-causal": dict(
            source=attention("bf16", 64, "bottom_right", lse=False), padding=8,
            options=["--block-m=32", "--num-warps=2", "--block-n=32"],
            dims={**dynamic, "seqlen_q": 41, "seqlen_k": 165}),
        "stages2-f16-d32": dict(
            source=attention("f16", 32, "none", (1, 2, 1, 50, 90)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "stages3-f16-d32-causal": dict(
            source=attention("f16", 32, "top_left", (1, 2, 1, 90, 90)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=3"]),
        "stages4-bf16-d32": dict(
            source=attention("bf16", 32, lse=False), padding=16,
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=4"],
            dims={**dynamic, "seqlen_q": 33, "seqlen_k": 125}),
        "shared-query-f16-d32": dict(
            source=attention("f16", 32, "none", (1, 1, 1, 64, 96)),
            options=["--block-m=64", "--num-warps=2", "--block-n=16",
                     "--num-stages=2", "--query=shared"]),
        "f16-d16": dict(
            source=attention("f16", 16, "none", (1, 2, 2, 32, 96)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "bf16-d128-causal": dict(
            source=attention("bf16", 128, "bottom_right", (1, 1, 1, 40, 70)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"]),
        "f16-d80": dict(
            source=attention("f16", 80, lse=False), padding=8,
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2"],
            dims={**dynamic, "seqlen_q": 20, "seqlen_k": 77}),
        # Two blocks that walk three block tiles each.
        "persistent-f16-d32": dict(
            source=attention("f16", 32, "none", (1, 6, 2, 32, 80)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16",
                     "--num-stages=2", "--grid=persistent"]),
        # No loop is left.
        "one-tile-f16-d16": dict(
            source=attention("f16", 16, "none", (1, 2, 1, 40, 13)),
            options=["--block-m=32", "--num-warps=2", "--block-n=16"]),
    }


def _warpgroups(dtype, head_dim, shape, *options, causal="none", **features):
    return dict(source=emulation.attention(dtype, head_dim, causal, shape,
                                         **features),
                options=["--chip=sm_90a", "--product=warpgroup", *options])


def _plain_warpgroups(*arguments, **features):
    """Of one tile of queries, each row summed by its lanes and at its maximum,
    whatever the defaults are: the forms that the list speaks of by numbers."""
    return _warpgroups(*arguments, "--row-sum=add", "--row-max=exact",
                       "--grid=full", **features)


def warpgroups():
    """The same of those whose warpgroups multiply. Sizes are small, but rings go
    round more than once."""
    return {
        # Three warpgroups, P V beside the softmax.
        "wgmma-f16-d64": _plain_warpgroups(
            "f16", 64, (1, 1, 1, 192, 320), "--num-warps=12", "--block-m=192",
            "--block-n=64"),
        # Products that wait for each other; row sums that leave; rows that no
        # block tile fills.
        "wgmma-bf16-d64-lse": _plain_warpgroups(
            "bf16", 64, (1, 1, 1, 150, 192), "--num-warps=8", "--block-m=128",
            "--block-n=32", "--overlap=none"),
        "wgmma-bf16-d128": _plain_warpgroups("bf16", 128, (1, 1, 1, 128, 320),
                                       "--block-n=64", lse=False),
        "wgmma-f16-d256": _plain_warpgroups("f16", 256, (1, 1, 1, 128, 256),
                                      "--block-n=64", lse=False),
        # K and V of different widths, in rings of three slots.
        "wgmma-f16-d128-64": _plain_warpgroups(
            "f16", 128, (1, 1, 1, 128, 320), "--block-n=64", "--num-stages=3",
            head_dim_v=64),
        # Query heads that share K and V, in blocks of one warpgroup.
        "wgmma-f16-d64-grouped": _plain_warpgroups(
            "f16", 64, (1, 2, 1, 64, 192), "--num-warps=4", "--block-m=64",
            "--block-n=32", lse=False),
        "wgmma-f16-d64-softcap": _plain_warpgroups(
            "f16", 64, (1, 1, 1, 64, 192), "--num-warps=4", "--block-m=64",
            "--block-n=32", lse=False, softcap=20),
        # One tile of keys: no loop is left.
        "wgmma-f16-d64-one-tile": _plain_warpgroups(
            "f16", 64, (1, 1, 1, 128, 64), "--num-warps=8", "--block-m=128",
            "--block-n=64", lse=False),
        # Columns of ones, and a maximum that most tiles do not follow.
        "wgmma-f16-d64-ones": _warpgroups(
            "f16", 64, (1, 1, 1, 64, 256), "--num-warps=4", "--block-m=64",
            "--block-n=64", "--row-sum=mma", "--row-max=stale", "--grid=full",
            "--overlap=pv", lse=False),
        # One that is checked behind the exponentials, and the walk that would
        # follow.
        "wgmma-f16-d64-checked": _warpgroups(
            "f16", 64, (1, 1, 1, 64, 192), "--num-warps=4", "--block-m=64",
            "--block-n=64", "--row-sum=mma", "--row-max=checked",
            "--grid=full", "--overlap=none", lse=False),
        # The first warpgroup passes by the tiles that the second sees alone.
        "wgmma-f16-d64-causal": _plain_warpgroups(
            "f16", 64, (1, 1, 1, 128, 128), "--num-warps=8", "--block-m=128",
            "--block-n=32", causal="bottom_right", lse=False),
        # Two blocks that walk two tiles each.
        "wgmma-f16-d64-persistent": _warpgroups(
            "f16", 64, (1, 4, 2, 64, 96), "--num-warps=4", "--block-m=64",
            "--block-n=32", "--row-sum=add", "--row-max=exact",
            "--grid=persistent", lse=False),
    }


def wmma():
    """The same of those of wmma: with copies of either kind, and rows at either
    distance."""
    attention = emulation.attention
    dynamic = {"batch": 1, "heads_q": 2, "heads_kv": 1}
    return {
        "wmma-f16-d16": dict(
            source=attention("f16", 16, "none", (1, 1, 1, 32, 96)),
            options=["--schedule=fused-wmma-32x32"]),
        "wmma-f16-d32-causal": dict(
            source=attention("f16", 32, "bottom_right"), padding=8,
            options=["--schedule=+swizzle", "--block-m=32", "--num-warps=2",
                     "--block-n=32"],
            dims={**dynamic, "seqlen_q": 41, "seqlen_k": 77}),
    }


def _foreign(name, file, kernel, grid, shared, arguments, outputs, row_bytes,
             shared_row_bytes):
    options = ["--kernel", kernel, "--grid", grid, "--block", "128",
               "--shared", str(shared)]
    for argument in arguments:
        options += ["--arg", argument]
    return emulation.Launch(name, _INPUTS / file, options, outputs, row_bytes,
                            shared_row_bytes, kernel=kernel)


def foreign():
    """Launches of kernels of nvcc and Triton."""
    return [
        _foreign("nvcc-attention", "attention.ptx", "attention", "2,2", 40960,
                 ["f16[2,128,64]:randn:1", "f16[2,128,64]:randn:2",
                  "f16[2,128,64]:randn:3", "f16[2,128,64]:poison",
                  "f32[2,128]:poison", "i32:128", "f32:0.18"],
                 {3: "o", 4: "lse"}, 128, 128),
        _foreign("nvcc-gemm", "samples.ptx", "gemm", "2,2", 0,
                 ["f16[128,96]:randn:1", "f16[128,96]:randn:2",
                  "f32[128,128]:poison", "i32:128", "i32:96"],
                 {2: "c"}, 192, 80),
        _foreign("triton-attention", "triton_attention.ptx", "attention", "2,2",
                 24576,
                 ["f16[2,112,64]:randn:1", "f16[2,112,64]:randn:2",
                  "f16[2,112,64]:randn:3", "f16[2,112,64]:poison",
                  "f32[2,112]:poison", "i32:112", "f32:0.18", "u64:0", "u64:0"],
                 {3: "o", 4: "lse"}, 128, 128),
        _foreign("triton-matmul", "triton_matmul.ptx", "matmul", "2,2", 16384,
                 ["bf16[80,112]:randn:1", "bf16[112,96]:randn:2",
                  "f32[80,96]:poison", "i32:80", "i32:96", "i32:112", "u64:0",
                  "u64:0"],
                 {2: "c"}, 224, 64),
    ]
