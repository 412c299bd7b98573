# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases whose lanes or addresses meet: shuffles, votes, atomics, matrix moves.

Each case is (label, types, result type, text, data set, chip); see corpus.py
for the text. `[buffer]` is shared memory of 16 bytes a thread, {address} the
place of the result in global memory.
"""
import random

from values import generator, int_specials

LANES = 0x0F3F_00FF  # a set of lanes for the masked forms
BUFFER_BYTES = 16


def shuffle_columns(count):
    """A value, a lane or distance, and segment mask with clamp."""
    rng = generator("shuffle")
    usual = [0x1F, 0x0000, 0x181F, 0x1C07, 0x1003, 0x1E01, 0x0F1F]
    return [[rng.getrandbits(32) for _ in range(count)],
            [rng.choice((rng.randrange(32), rng.getrandbits(32))) for _ in range(count)],
            [rng.choice(usual) if rng.getrandbits(1) else rng.getrandbits(13) for _ in range(count)]]


def warp_columns(count):
    """Values that repeat within a warp, in some warps all of them."""
    rng = generator("warp")
    values, flags = [], []
    for warp in range(count // 32):
        pool = random.Random(rng.getrandbits(32)).sample(int_specials(32), 1 + warp % 5)
        values += [rng.choice(pool) if warp % 8 else rng.getrandbits(32) for _ in range(32)]
        odds = (0, 1, 2, 31, 32)[warp % 5]
        flags += [int(rng.randrange(32) < odds) for _ in range(32)]
    return [values, flags]


def shuffle_cases():
    for mode in ("up", "down", "bfly", "idx"):
        text = f"shfl.sync.{mode}.b32 {{t}}|{{p}}, {{a}}, {{b}}, {{c}}, -1; "
        types = ("b32", "b32", "b32")
        yield f"shfl.{mode}", types, "b32", text + "mov.b32 {d}, {t};", "shuffle", 89
        yield f"shfl.{mode} predicate", types, "b32", text + "selp.b32 {d}, 1, 0, {p};", "shuffle", 89


def guarded(instruction, where):
    """`instruction` on the lanes of LANES, others give 0."""
    return (f"mov.u32 {{t}}, %laneid; shr.b32 {{t}}, {where:#x}, {{t}}; and.b32 {{t}}, {{t}}, 1; "
            f"setp.ne.u32 {{q}}, {{t}}, 0; mov.b32 {{d}}, 0; @{{q}} {instruction}, {where:#x};")


def warp_cases():
    types = ("b32", "b32")
    flag = "setp.ne.u32 {p}, {b}, 0; "
    for suffix, wrap in (("", lambda text: text + ", -1;"), (" masked", lambda text: guarded(text, LANES))):
        for mode in ("all", "any", "uni"):
            text = flag + "setp.eq.u32 {r}, 0, 1; " + wrap(f"vote.sync.{mode}.pred {{r}}, {{p}}") + " selp.b32 {d}, 1, 0, {r};"
            yield f"vote.{mode}{suffix}", types, "b32", text, "warp", 89
        yield f"vote.ballot{suffix}", types, "b32", flag + wrap("vote.sync.ballot.b32 {d}, {p}"), "warp", 89
        yield f"match.any{suffix}", types, "b32", wrap("match.any.sync.b32 {d}, {a}"), "warp", 89
        yield f"match.all{suffix}", types, "b32", wrap("match.all.sync.b32 {d}, {a}"), "warp", 89
        for op, ts in (("add", "us"), ("min", "us"), ("max", "us"), ("and", "b"), ("or", "b"), ("xor", "b")):
            for t in ts:
                yield f"redux.{op}.{t}32{suffix}", types, "b32", wrap(f"redux.sync.{op}.{t}32 {{d}}, {{a}}"), "warp", 89
    yield "activemask", types, "b32", "activemask.b32 {d};", "warp", 89


# Atomics.


def atomic_cases():
    operations = [("add", t) for t in ("u32", "s32", "u64", "f32", "f64")]
    operations += [(op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")]
    operations += [(op, t) for op in ("and", "or", "xor", "exch", "cas") for t in ("b32", "b64")]
    operations += [("inc", "u32"), ("dec", "u32"), ("add.noftz", "f16"), ("add.noftz", "f16x2"), ("cas", "b16")]
    operations += [("add.noftz", "bf16"), ("add.noftz", "bf16x2")]
    for op, t in operations:
        width = {"f16x2": 32, "bf16x2": 32, "bf16": 16}.get(t) or int(t[1:])
        memory = t if t in ("f32", "f64") else f"b{width}"
        types = (t, t, t) if op == "cas" else (t, t)
        data = "float" if "f" in t else "int"
        chip = 90 if "bf16" in t else 89
        sources = "{b}, {c}" if op == "cas" else "{b}"
        for space, place in (("global", "[{address}]"), ("shared", "[{slot}]")):
            begin = f"st.{space}.{memory} {place}, {{a}}; "
            atom = begin + f"atom.{space}.{op}.{t} {{d}}, {place}, {sources};"
            reload = f" ld.{space}.{memory} {{d}}, {place};"
            yield f"atom.{space}.{op}.{t} old", types, t, atom, data, chip
            yield f"atom.{space}.{op}.{t} new", types, t, atom + reload, data, chip
            if op not in ("exch", "cas"):
                yield f"red.{space}.{op}.{t}", types, t, begin + f"red.{space}.{op}.{t} {place}, {sources};" + reload, data, chip


# Matrix moves: each warp has 32 rows of 16 bytes.

FILL = ("bar.warp.sync -1; mov.u32 {t}, %laneid; shl.b32 {t}, {t}, 2; add.u32 {t}, {t}, {warp}; st.shared.b32 [{t}], {a}; "
        "not.b32 {u}, {a}; st.shared.b32 [{t}+128], {u}; st.shared.b32 [{t}+256], {b}; not.b32 {u}, {b}; "
        "st.shared.b32 [{t}+384], {u}; bar.warp.sync -1; ")
ROW = "mov.u32 {t}, %laneid; mad.lo.u32 {t}, {t}, 5, 3; and.b32 {t}, {t}, 31; shl.b32 {t}, {t}, 4; add.u32 {t}, {t}, {warp}; "


def matrix_cases():
    types = ("b32", "b32")
    for count in (1, 2, 4):
        registers = ", ".join("{" + name + "}" for name in "vwxy"[:count])
        for trans in ("", ".trans"):
            for i in range(count):
                load = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{{{registers}}}}}, [{{t}}]; "
                yield (f"ldmatrix.x{count}{trans} register {i}", types, "b32",
                       FILL + ROW + load + f"mov.b32 {{d}}, {{{'vwxy'[i]}}};", "warp", 89)
            sources = ("mov.b32 {v}, {a}; mov.b32 {w}, {b}; not.b32 {x}, {a}; xor.b32 {y}, {a}, 0x12345678; " +
                       ROW + f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [{{t}}], {{{{{registers}}}}}; ")
            for i in range(4):
                read = (f"bar.warp.sync -1; mov.u32 {{t}}, %laneid; shl.b32 {{t}}, {{t}}, 2; add.u32 {{t}}, {{t}}, {{warp}}; "
                        f"ld.shared.b32 {{d}}, [{{t}}+{128 * i}];")
                yield f"stmatrix.x{count}{trans} part {i}", types, "b32", FILL + sources + read, "warp", 90


def move_matrix_cases():
    """A transpose in registers, and matrices at generic addresses."""
    types = ("b32", "b32")
    yield "movmatrix", types, "b32", "movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};", "warp", 89
    generic = "cvt.u64.u32 {m}, {t}; cvta.shared.u64 {m}, {m}; "
    for trans in ("", ".trans"):
        load = f"ldmatrix.sync.aligned.m8n8.x1{trans}.b16 {{{{{{v}}}}}}, [{{m}}+0]; mov.b32 {{d}}, {{v}};"
        yield f"ldmatrix.x1{trans} generic", types, "b32", FILL + ROW + generic + load, "warp", 89
        load = f"ldmatrix.sync.aligned.m8n8.x2{trans}.b16 {{{{{{v}}, {{w}}}}}}, [{{m}}]; prmt.b32 {{d}}, {{v}}, {{w}}, 0x5410;"
        yield f"ldmatrix.x2{trans} generic", types, "b32", FILL + ROW + generic + load, "warp", 89


def access_cases():
    for t, result in (("s8", "s32"), ("u8", "u32"), ("s16", "s32"), ("u16", "u32"), ("s32", "s64"), ("u32", "u64")):
        yield (f"ld.shared.{t} into {result}", ("b32",), result,
               f"st.shared.b32 [{{slot}}], {{a}}; ld.shared.{t} {{d}}, [{{slot}}];", "int", 89)
    yield ("ld.shared.v2.u16", ("b32",), "b32",
           "st.shared.b32 [{slot}], {a}; ld.shared.v2.u16 {{{h}, {i}}}, [{slot}]; mov.b32 {d}, {{{i}, {h}}};", "int", 89)
    yield ("st.shared.v4.u8", ("b64",), "b32",
           "mov.b64 {{{t}, {u}}}, {a}; cvt.u16.u32 {h}, {t}; cvt.u16.u32 {i}, {u}; "
           "st.shared.v4.u8 [{slot}], {{{h}, {i}, {i}, {h}}}; ld.shared.b32 {d}, [{slot}];", "int", 89)


def collective_cases():
    for make in (shuffle_cases, warp_cases, atomic_cases, matrix_cases, access_cases, move_matrix_cases):
        yield from make()
