# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of one warp that execute one memory instruction each, with a known
pattern of addresses, to compare traffic counters with those of a profiler."""
from bundles import Argument, KernelLaunch

SHARED_BYTES = 16384
OUT_WORDS = 4096

PROLOGUE = """.version 8.6
.target sm_89
.address_size 64

.visible .entry {name}(
	.param .u64 {name}_0,
	.param .u64 {name}_1
)
.reqntid 32, 1, 1
{{
	.shared .align 128 .b8 buffer[16384];
	.reg .b16 %h<4>;
	.reg .b32 %lane, %shared, %linear, %n, %x<4>;
	.reg .b64 %in, %out, %wide, %y<2>;
	ld.param.u64 %in, [{name}_0];
	ld.param.u64 %out, [{name}_1];
	mov.u32 %lane, %tid.x;
	mul.lo.u32 %n, %lane, {stride};
	mov.u32 %shared, buffer;
	mad.lo.u32 %linear, %lane, 16, %shared;
	add.u32 %shared, %shared, %n;
	mul.wide.u32 %wide, %lane, {global_stride};
	add.u64 %in, %in, %wide;
	mul.wide.u32 %wide, %lane, {out_stride};
	add.u64 %out, %out, %wide;
"""

STORE_X = "st.global.b32 [%out], %x0;"
FOLD_X = "xor.b32 %x0, %x0, %x1; xor.b32 %x2, %x2, %x3; xor.b32 %x0, %x0, %x2; "
FOLD_PAIR = "xor.b32 %x0, %x0, %x1; "
FOLD_Y = "xor.b64 %y0, %y0, %y1; mov.b64 {%x0, %x1}, %y0; " + FOLD_PAIR
SET_X = "mov.u32 %x0, %lane; add.u32 %x1, %lane, 1; add.u32 %x2, %lane, 2; add.u32 %x3, %lane, 3; "
WIDEN_H = "cvt.u32.u16 %x0, %h0; "

# Name, text, shared stride of a lane in bytes.
LOADS = {
    "u8": ("ld.shared.u8 %h0, [%shared]; " + WIDEN_H, (1, 4)),
    "u16": ("ld.shared.u16 %h0, [%shared]; " + WIDEN_H, (2, 4, 64)),
    "b32": ("ld.shared.b32 %x0, [%shared]; ", (0, 4, 8, 12, 16, 32, 64, 128, 132)),
    "b64": ("ld.shared.b64 %y0, [%shared]; mov.b64 {%x0, %x1}, %y0; " + FOLD_PAIR, (0, 8, 16, 24, 32, 128, 136)),
    "v2_b32": ("ld.shared.v2.b32 {%x0, %x1}, [%shared]; " + FOLD_PAIR, (8, 16, 128)),
    "v4_b32": ("ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%shared]; " + FOLD_X, (0, 16, 32, 48, 64, 128, 144, 256)),
    "v2_b64": ("ld.shared.v2.b64 {%y0, %y1}, [%shared]; " + FOLD_Y, (16, 32, 128)),
}
# Lanes i and i ^ bit share an address.
SHARING_BITS = (1, 2, 4)
SHARING_LOADS = {"b64": ("ld.shared.b64 %y0, [%shared]; mov.b64 {%x0, %x1}, %y0; " + FOLD_PAIR, 8),
                 "v4_b32": ("ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%shared]; " + FOLD_X, 16)}
STORES = {
    "u8": ("cvt.u16.u32 %h0, %lane; st.shared.u8 [%shared], %h0; ", (1, 4)),
    "u16": ("cvt.u16.u32 %h0, %lane; st.shared.u16 [%shared], %h0; ", (2, 4, 64)),
    "b32": ("st.shared.b32 [%shared], %lane; ", (4, 8, 12, 16, 32, 64, 128, 132)),
    "b64": (SET_X + "mov.b64 %y0, {%x0, %x1}; st.shared.b64 [%shared], %y0; ", (8, 16, 24, 32, 128, 136)),
    "v4_b32": (SET_X + "st.shared.v4.b32 [%shared], {%x0, %x1, %x2, %x3}; ", (16, 32, 48, 64, 128, 144, 256)),
}
MATRIX_PITCHES = (16, 32, 48, 64, 128, 144)
COPY_PITCHES = {4: (4, 8, 32, 128), 8: (8, 16, 64, 128), 16: (16, 32, 64, 128, 144)}
GLOBAL_STRIDES = {"b32": (0, 4, 8, 12, 32, 36, 128), "b64": (8, 16, 64), "v4_b32": (16, 32, 48, 128)}


def kernel(name, body, stride=0, global_stride=4, out_stride=4):
    text = PROLOGUE.format(name=name, stride=stride, global_stride=global_stride, out_stride=out_stride)
    text += "".join(f"\t{line.strip()};\n" for line in body.split(";") if line.strip()) + "\tret;\n}\n"
    arguments = [Argument("in", "u32", OUT_WORDS, False), Argument("out", "u32", OUT_WORDS, True)]
    return KernelLaunch(name, text, name, [1], [32], 0, arguments)


def shared_kernels():
    for t, (text, strides) in LOADS.items():
        for stride in strides:
            yield kernel(f"ld_shared_{t}_stride{stride}", text + STORE_X, stride)
    for t, (text, strides) in STORES.items():
        for stride in strides:
            # Read back what another lane wrote, or the stores are dropped.
            yield kernel(f"st_shared_{t}_stride{stride}",
                         text + "bar.sync 0; ld.shared.b32 %x0, [%linear]; " + STORE_X, stride)


def sharing_kernels():
    for t, (text, size) in SHARING_LOADS.items():
        for bit in SHARING_BITS:
            drop = (f"and.b32 %x0, %lane, {bit - 1}; shr.u32 %n, %lane, {bit.bit_length()}; mul.lo.u32 %n, %n, {bit}; "
                    f"or.b32 %n, %n, %x0; mul.lo.u32 %n, %n, {size}; add.u32 %shared, %shared, %n; ")
            yield kernel(f"ld_shared_{t}_share{bit}", drop + text + STORE_X)


def matrix_kernels():
    for count in (1, 2, 4):
        registers = ", ".join(f"%x{i}" for i in range(count))
        fold = {1: "", 2: FOLD_PAIR, 4: FOLD_X}[count]
        for trans, pitch in [("", p) for p in MATRIX_PITCHES] + [(".trans", 16), (".trans", 128)]:
            name = f"ldmatrix_x{count}{trans.replace('.', '_')}_pitch{pitch}"
            yield kernel(name, f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%shared]; " +
                         fold + STORE_X, pitch)


def copy_kernels():
    end = "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.b32 %x0, [%linear]; "
    for size, pitches in COPY_PITCHES.items():
        for pitch in pitches:
            for cache in ("ca", "cg") if size == 16 else ("ca",):
                yield kernel(f"cp_async_{cache}{size}_pitch{pitch}",
                             f"cp.async.{cache}.shared.global [%shared], [%in], {size}; " + end + STORE_X, pitch, size)


def global_kernels():
    loads = {"b32": "ld.global.b32 %x0, [%in]; ", "b64": "ld.global.v2.b32 {%x0, %x1}, [%in]; " + FOLD_PAIR,
             "v4_b32": "ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%in]; " + FOLD_X}
    stores = {"b32": "st.global.b32 [%out], %lane; ", "b64": SET_X + "st.global.v2.b32 [%out], {%x0, %x1}; ",
              "v4_b32": SET_X + "st.global.v4.b32 [%out], {%x0, %x1, %x2, %x3}; "}
    for t, strides in GLOBAL_STRIDES.items():
        for stride in strides:
            yield kernel(f"ld_global_{t}_stride{stride}", loads[t] + STORE_X, global_stride=stride)
            if stride:
                yield kernel(f"st_global_{t}_stride{stride}", stores[t], out_stride=stride)


def traffic_kernels():
    return [k for make in (shared_kernels, sharing_kernels, matrix_kernels, copy_kernels, global_kernels) for k in make()]
