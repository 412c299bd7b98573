# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance corpus: PTX kernels that apply every instruction variant of
the emulator to many operands, and the launches that run them.

A case is one variant. Cases of one signature and data set share a kernel, whose
thread i loads element i of each operand and stores one result a case.
"""
import collections
import dataclasses
import itertools

from collective import BUFFER_BYTES, collective_cases, shuffle_columns, warp_columns
from launch import ELEMENT_BYTES, Launch, Result
from mma import mma_launches
from values import (BF16, F16, F32, F64, all_patterns, float_binary, float_ternary, float_unary, integers, pairs,
                    shifts)
from wgmma import wgmma_launches
from wmma import wmma_launches

BLOCK = 128

# Data sets: (name, kind of every operand) -> columns.
INT_COUNT, FLOAT_COUNT = 4096, 16384
WIDTH = {"8": 8, "16": 16, "32": 32, "64": 64}


def width_of(type_name):
    digits = type_name.lstrip("usbf")
    return {"16x2": 32, "8x2": 16}.get(digits) or (16 if type_name == "bf16" else WIDTH[digits])


def format_of(type_name):
    return {"f16": F16, "f16x2": F16, "bf16": BF16, "bf16x2": BF16, "f32": F32, "f64": F64}[type_name]


def float_columns(types):
    fmt, name = format_of(types[0]), f"float-{'-'.join(types)}"
    packed = types[0].endswith("x2")
    if len(types) == 1:
        columns = all_patterns(16) if fmt.width == 16 else float_unary(name, fmt, FLOAT_COUNT)
    else:
        columns = (float_binary if len(types) == 2 else float_ternary)(name, fmt, FLOAT_COUNT)
    return pairs(columns) if packed else columns


def int_columns(types):
    widths = [max(16, width_of(t)) for t in types]
    return integers("int-" + "-".join(map(str, widths)), widths, INT_COUNT * (2 if len(widths) == 3 else 1))


def shift_columns(types):
    """Operands of type u32 after the first are amounts."""
    widths = [None if i and t == "u32" else width_of(t) for i, t in enumerate(types)]
    return shifts("shift-" + "-".join(map(str, widths)), widths, INT_COUNT * 2)


def mixed_columns(types):
    """Values to choose from, and a float or integer that chooses."""
    columns = integers("mixed-" + "-".join(types), [width_of(t) for t in types], INT_COUNT)
    for i, t in enumerate(types):
        if t == "f32":
            fresh = float_unary(f"mixed-{i}", F32, INT_COUNT)[0]
            columns[i] = fresh[:: len(fresh) // INT_COUNT][:INT_COUNT]
    return columns


DATA = {
    "float": float_columns, "int": int_columns, "shift": shift_columns, "mixed": mixed_columns,
    "all": lambda types: all_patterns(16), "shuffle": lambda types: shuffle_columns(INT_COUNT),
    "warp": lambda types: warp_columns(INT_COUNT),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One instruction variant. The text names its operands {d}, {a}, {b}, {c}
    and {e}, the TEMPORARIES, and three addresses: {address} is where the result
    will go, {slot} and {warp} are the shared memory of this thread and warp."""
    label: str
    types: tuple
    result: str
    text: str
    data: str
    rule: str = "exact"
    chip: int = 89


CASES = []


def case(opcode, types, result=None, data=None, rule="exact", chip=89, text=None, extra=""):
    """A case of `opcode {d}, {a}, ...` with source types `types`."""
    types = tuple(types.split()) if isinstance(types, str) else tuple(types)
    if data is None:
        data = "float" if "f" in types[0] else "int"
    operands = "".join(f", {{{name}}}" for name in "abce"[:len(types)])
    text = text or f"{opcode} {{d}}{operands}{extra};"
    label = opcode + (f" {extra.strip(', ')}" if extra else "")
    CASES.append(Case(label, types, result or types[0], text, data, rule, chip))


def predicate_case(opcode, types, data=None, chip=89):
    """A case with a predicate result, and its negation where there are two."""
    types = tuple(types.split())
    data = data or ("float" if "f" in types[0] else "int")
    operands = ", ".join(f"{{{name}}}" for name in "abc"[:len(types)])
    if opcode.startswith("testp") or "f16" in types[0]:  # these have no second predicate
        text = f"{opcode} {{p}}, {operands}; selp.u16 {{d}}, 1, 0, {{p}};"
    else:
        text = (f"{opcode} {{p}}|{{q}}, {operands}; selp.u32 {{t}}, 1, 0, {{p}}; selp.u32 {{u}}, 2, 0, {{q}}; "
                "or.b32 {t}, {t}, {u}; cvt.u16.u32 {d}, {t};")
    CASES.append(Case(opcode, types, "pred", text, data, "exact", chip))


# Integers.

SIZES = ("16", "32", "64")
SIGNED = tuple("s" + s for s in SIZES)
UNSIGNED = tuple("u" + s for s in SIZES)
BITS = tuple("b" + s for s in SIZES)


def integer_cases():
    for t in UNSIGNED + SIGNED:
        for opcode in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            case(f"{opcode}.{t}", (t, t))
        case(f"mad.lo.{t}", (t, t, t))
    for t in ("u16", "s16", "u32", "s32"):
        wide = t[0] + str(2 * int(t[1:]))
        case(f"mul.wide.{t}", (t, t), wide)
        case(f"mad.wide.{t}", (t, t, wide), wide)
    for t in ("u32", "s32"):
        case(f"mad.hi.{t}", (t, t, t))
        case(f"sad.{t}", (t, t, "u32"), "u32")
    for t in SIGNED:
        case(f"abs.{t}", (t,))
        case(f"neg.{t}", (t,))
    for t in BITS:
        for opcode in ("and", "or", "xor"):
            case(f"{opcode}.{t}", (t, t))
        for opcode in ("not", "cnot", "mov"):
            case(f"{opcode}.{t}", (t,))
        case(f"shl.{t}", (t, "u32"), data="shift")
    for t in UNSIGNED + SIGNED + BITS:
        case(f"shr.{t}", (t, "u32"), data="shift")


def bit_cases():
    for direction, mode in itertools.product("lr", ("wrap", "clamp")):
        case(f"shf.{direction}.{mode}.b32", "b32 b32 u32", data="shift")
    for table in (0x80, 0xE8, 0x96, 0xCA, 0x1B, 0x2D, 0xFE, 0x3C, 0x01, 0x7F):
        case("lop3.b32", "b32 b32 b32", extra=f", {table:#04x}")
    case("prmt.b32", "b32 b32 b32")
    for t in ("u32", "u64", "s32", "s64"):
        case(f"bfe.{t}", (t, "u32", "u32"), data="shift")
        case(f"bfind.{t}", (t,), "u32")
        case(f"bfind.shiftamt.{t}", (t,), "u32")
    for t in ("b32", "b64"):
        case(f"bfi.{t}", (t, t, "u32", "u32"), data="shift")
        case(f"popc.{t}", (t,), "u32")
        case(f"clz.{t}", (t,), "u32")
        case(f"brev.{t}", (t,))
    case("mov.b64 pack", "b32 b32", "b64", text="mov.b64 {d}, {{{a}, {b}}};")
    case("mov.b64 low", "b64", "b32", text="mov.b64 {{{d}, {t}}}, {a};")
    case("mov.b64 high", "b64", "b32", text="mov.b64 {{{t}, {d}}}, {a};")
    case("mov.b32 pack", "b16 b16", "b32", text="mov.b32 {d}, {{{a}, {b}}};")
    case("mov.b32 low", "b32", "b16", text="mov.b32 {{{d}, {h}}}, {a};")
    case("mov.b32 high", "b32", "b16", text="mov.b32 {{{h}, {d}}}, {a};")


# Comparison and selection.

ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def comparison_cases():
    for t in UNSIGNED + SIGNED:
        for op in ORDERED + (("lo", "ls", "hi", "hs") if t in UNSIGNED else ()):
            predicate_case(f"setp.{op}.{t}", f"{t} {t}")
    for t in BITS:
        for op in ("eq", "ne"):
            predicate_case(f"setp.{op}.{t}", f"{t} {t}")
    for op in ORDERED + UNORDERED:
        predicate_case(f"setp.{op}.f32", "f32 f32")
        predicate_case(f"setp.{op}.ftz.f32", "f32 f32")
        predicate_case(f"setp.{op}.f64", "f64 f64")
        predicate_case(f"setp.{op}.f16", "f16 f16")
        predicate_case(f"setp.{op}.bf16", "bf16 bf16", chip=90)
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        predicate_case(f"testp.{test}.f32", "f32")
    selection_cases()


def selection_cases():
    odd = "and.b32 {t}, {c}, 1; setp.ne.u32 {p}, {t}, 0; "
    for combine in ("and", "or", "xor"):
        for negated in ("", "!"):
            case(f"setp.lt.{combine}.s32 {negated}p", "s32 s32 u32", "u32",
                 text=odd + f"setp.lt.{combine}.s32 {{p}}|{{q}}, {{a}}, {{b}}, {negated}{{p}}; "
                 "selp.u32 {t}, 1, 0, {p}; selp.u32 {u}, 2, 0, {q}; or.b32 {d}, {t}, {u};")
        case(f"{combine}.pred", "s32 s32 u32", "u32",
             text=odd + f"setp.lt.s32 {{q}}, {{a}}, {{b}}; {combine}.pred {{p}}, {{p}}, {{q}}; "
             "selp.u32 {d}, 1, 0, {p};")
    case("not.pred", "s32 s32 u32", "u32", text=odd + "not.pred {q}, {p}; selp.u32 {d}, {a}, {b}, {q};")
    case("mov.pred", "s32 s32 u32", "u32", text=odd + "mov.pred {q}, {p}; selp.u32 {d}, {a}, {b}, {q};")
    for t in BITS:
        case(f"selp.{t}", (t, t, "u32"), text=odd + f"selp.{t} {{d}}, {{a}}, {{b}}, {{p}};", data="int")
    for to, source in itertools.product(("u32", "s32", "f32"), ("f32", "s32", "u32")):
        case(f"set.lt.{to}.{source}", (source, source), to)
    case("slct.u32.s32", "u32 u32 s32")
    case("slct.f32.s32", "b32 b32 s32", "f32", data="mixed")
    case("slct.u32.f32", "u32 u32 f32", data="mixed")
    case("slct.ftz.u32.f32", "u32 u32 f32", data="mixed")
    case("copysign.f32", "f32 f32")


# Floats.

ROUNDINGS = (".rn", ".rz", ".rm", ".rp")
FTZ = ("", ".ftz")
SAT = ("", ".sat")
# The errors that the PTX ISA allows, section 9.7.3: a number of ulps, or the
# larger of a relative and an absolute error.
APPROXIMATE = {
    "rcp.approx": "ulp 1", "rsqrt.approx": "relative 2^-22.9", "sqrt.approx": "relative 2^-23",
    "ex2.approx": "ulp 2", "lg2.approx": "relative 2^-22 absolute 2^-22",
    "sin.approx": "absolute 2^-20.5 below 3.14159", "cos.approx": "absolute 2^-20.5 below 3.14159",
    "tanh.approx": "relative 2^-11", "div.approx": "ulp 2", "div.full": "ulp 2",
}


def f32_cases():
    for opcode, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        plain = () if opcode == "fma" else ("",)
        for rounding, ftz, sat in itertools.product(plain + ROUNDINGS, FTZ, SAT):
            case(f"{opcode}{rounding}{ftz}{sat}.f32", ["f32"] * count)
    for ftz in FTZ:
        for rounding in ROUNDINGS:
            case(f"div{rounding}{ftz}.f32", "f32 f32")
            case(f"sqrt{rounding}{ftz}.f32", "f32")
        case(f"rcp.rn{ftz}.f32", "f32")
        for opcode in ("abs", "neg"):
            case(f"{opcode}{ftz}.f32", "f32")
        for opcode, nan in itertools.product(("min", "max"), ("", ".NaN")):
            case(f"{opcode}{ftz}{nan}.f32", "f32 f32")
        for name, rule in APPROXIMATE.items():
            if name == "tanh.approx" and ftz:
                continue
            case(f"{name}{ftz}.f32", "f32 f32" if name.startswith("div") else "f32", rule=rule)


def f64_cases():
    for opcode in ("add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max"):
        case(f"{opcode}.f64", "f64 f64")
    case("fma.rn.f64", "f64 f64 f64")
    for opcode in ("rcp.rn", "sqrt.rn", "abs", "neg"):
        case(f"{opcode}.f64", "f64")


def half_cases():
    for t, packed in itertools.product(("f16", "bf16"), ("", "x2")):
        type_name = t + packed
        chip = 90 if t == "bf16" else 89
        for opcode in ("add", "sub", "mul"):
            for rounding in ("", ".rn"):
                case(f"{opcode}{rounding}.{type_name}", (type_name, type_name), chip=chip)
        for suffix in ("", ".relu") + ((".sat",) if t == "f16" else ()):
            case(f"fma.rn{suffix}.{type_name}", (type_name,) * 3)
        for opcode, nan in itertools.product(("min", "max"), ("", ".NaN")):
            case(f"{opcode}{nan}.{type_name}", (type_name, type_name))
        for opcode in ("abs", "neg"):
            case(f"{opcode}.{type_name}", (type_name,))
        ex2 = "ex2.approx.ftz" if t == "bf16" else "ex2.approx"
        case(f"{ex2}.{type_name}", (type_name,), chip=chip, rule=f"ulp 1 of {t}")
        case(f"tanh.approx.{type_name}", (type_name,), chip=chip, rule=f"ulp 1 of {t}")


# Conversions.

INTEGERS = ("u8", "s8") + UNSIGNED + SIGNED
INTEGRAL = (".rni", ".rzi", ".rmi", ".rpi")


def integer_cvt_cases():
    for to, source in itertools.product(INTEGERS, INTEGERS):
        case(f"cvt.{to}.{source}", (source,), to)
        wider = int(to[1:]) - int(source[1:])
        if source[0] == to[0] and wider < 0 or source[0] != to[0] and (to[0] == "u" or wider <= 0):
            case(f"cvt.sat.{to}.{source}", (source,), to)
    for source in INTEGERS:
        for rounding in ROUNDINGS:
            case(f"cvt{rounding}.f32.{source}", (source,), "f32")
        case(f"cvt.rn.f64.{source}", (source,), "f64")
        for rounding in (".rn", ".rz"):
            case(f"cvt{rounding}.f16.{source}", (source,), "f16")
        if source not in ("u8", "s8"):
            case(f"cvt.rn.bf16.{source}", (source,), "bf16", chip=90)
        case(f"cvt.rn.sat.f32.{source}", (source,), "f32")


def float_to_integer_cases():
    for to, rounding in itertools.product(INTEGERS, INTEGRAL):
        case(f"cvt{rounding}.{to}.f32", "f32", to)
    for to in INTEGERS:
        case(f"cvt.rzi.ftz.{to}.f32", "f32", to)
        case(f"cvt.rzi.sat.{to}.f32", "f32", to)
        for rounding in INTEGRAL if to in ("s32", "u64") else (".rzi",):
            case(f"cvt{rounding}.{to}.f64", "f64", to)
            case(f"cvt{rounding}.{to}.f16", "f16", to)
            if to not in ("u8", "s8"):
                case(f"cvt{rounding}.{to}.bf16", "bf16", to, chip=90)


def float_cvt_cases():
    for t, chip in (("f16", 89), ("bf16", 90)):
        case(f"cvt.f32.{t}", t, "f32", chip=chip)
        case(f"cvt.f64.{t}", t, "f64", chip=chip)
    case("cvt.sat.f32.f16", "f16", "f32")
    case("cvt.ftz.f32.f16", "f16", "f32")
    for integral in INTEGRAL:
        case(f"cvt{integral}.f16.f16", "f16")
        case(f"cvt{integral}.bf16.bf16", "bf16", chip=90)
        for ftz, sat in itertools.product(FTZ, SAT):
            case(f"cvt{integral}{ftz}{sat}.f32.f32", "f32")
        case(f"cvt{integral}.f64.f64", "f64")
    for ftz, sat in ((".ftz", ""), ("", ".sat"), (".ftz", ".sat")):
        case(f"cvt{ftz}{sat}.f32.f32", "f32")
    for rounding in ROUNDINGS:
        for ftz, sat in itertools.product(FTZ, SAT):
            case(f"cvt{rounding}{ftz}{sat}.f32.f64", "f64", "f32")
        case(f"cvt{rounding}.f16.f64", "f64", "f16")
    for ftz in FTZ:
        case(f"cvt{ftz}.f64.f32", "f32", "f64")
    for rounding, ftz, sat in itertools.product((".rn", ".rz"), FTZ, SAT):
        case(f"cvt{rounding}{ftz}{sat}.f16.f32", "f32", "f16")
    for rounding, relu in itertools.product((".rn", ".rz"), ("", ".relu")):
        if relu:
            case(f"cvt{rounding}{relu}.f16.f32", "f32", "f16")
        case(f"cvt{rounding}{relu}.bf16.f32", "f32", "bf16")
        for to in ("f16x2", "bf16x2"):
            case(f"cvt{rounding}{relu}.{to}.f32", "f32 f32", to)
    case("cvt.rna.tf32.f32", "f32", "b32")
    case("cvt.rn.bf16.f16", "f16", "bf16", chip=90)
    case("cvt.rn.f16.bf16", "bf16", "f16", chip=90)
    fp8_cases()


def fp8_cases():
    for t, relu in itertools.product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        case(f"cvt.rn.satfinite{relu}.{t}.f32", "f32 f32", "b16")
        case(f"cvt.rn.satfinite{relu}.{t}.f16x2", "f16x2", "b16")
        case(f"cvt.rn{relu}.f16x2.{t}", "b16", "f16x2", data="all")


# Rarer forms.


def carry_cases():
    """The second of two chained instructions, and the carry out of that."""
    for t in ("u32", "s32", "u64", "s64"):
        temporary = "{t}" if t.endswith("32") else "{m}"
        for first, second in (("add", "add"), ("sub", "sub"), ("add", "sub"), ("sub", "add")):
            begin = f"{first}.cc.{t} {temporary}, {{a}}, {{c}}; "
            case(f"{first}.cc {second}c.{t}", (t, t, t), text=begin + f"{second}c.{t} {{d}}, {{a}}, {{b}};")
            case(f"{first}.cc {second}c.cc.{t} carry", (t, t, t),
                 text=begin + f"{second}c.cc.{t} {temporary}, {{a}}, {{b}}; {second}c.{t} {{d}}, 0, 0;")
        for first, second in itertools.product(("lo", "hi"), repeat=2):
            begin = f"mad.{first}.cc.{t} {temporary}, {{a}}, {{b}}, {{c}}; "
            case(f"mad.{first}.cc madc.{second}.{t}", (t, t, t), text=begin + f"madc.{second}.{t} {{d}}, {{a}}, {{b}}, {{c}};")
            case(f"mad.{first}.cc madc.{second}.cc.{t} carry", (t, t, t),
                 text=begin + f"madc.{second}.cc.{t} {temporary}, {{a}}, {{b}}, {{c}}; addc.{t} {{d}}, 0, 0;")


def product_cases():
    for part, t in itertools.product(("lo", "hi"), ("u32", "s32")):
        case(f"mul24.{part}.{t}", (t, t))
        case(f"mad24.{part}.{t}", (t, t, t))
    for t in ("u16", "s16", "u64", "s64"):
        case(f"mad.hi.{t}", (t, t, t))
        case(f"sad.{t}", (t, t, t))
    case("mad.hi.sat.s32", "s32 s32 s32")
    case("mad24.hi.sat.s32", "s32 s32 s32")
    for opcode in ("add", "sub"):
        case(f"{opcode}.sat.s32", "s32 s32")
    for a, b in itertools.product(("u32", "s32"), repeat=2):
        for opcode in ("dp4a", "dp2a.lo", "dp2a.hi"):
            case(f"{opcode}.{a}.{b}", "b32 b32 b32")


def rarer_bit_cases():
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        case(f"prmt.b32.{mode}", "b32 b32 b32")
    bounded = "and.b32 {t}, {b}, 31; and.b32 {u}, {c}, 15; sub.s32 {u}, {u}, 7; "
    case("fns.b32 near", "b32 b32 b32", text=bounded + "fns.b32 {d}, {a}, {t}, {u};")
    case("fns.b32", "b32 b32 b32", text="and.b32 {t}, {b}, 31; fns.b32 {d}, {a}, {t}, {c};")
    for mode in ("wrap", "clamp"):
        case(f"bmsk.{mode}.b32", "b32 u32 u32", data="shift", text=f"bmsk.{mode}.b32 {{d}}, {{b}}, {{c}};")
        for t in ("u32", "s32"):
            case(f"szext.{mode}.{t}", (t, "u32"), data="shift")
    for t in ("u32", "s32", "u64", "s64"):
        case(f"bfe.{t} fixed", (t, "u32", "u32"), data="shift", text=f"bfe.{t} {{d}}, {{a}}, 13, 9;")
        case(f"bfe.{t} fixed length", (t, "u32", "u32"), data="shift", text=f"bfe.{t} {{d}}, {{a}}, {{b}}, 17;")
        case(f"bfe.{t} fixed position", (t, "u32", "u32"), data="shift", text=f"bfe.{t} {{d}}, {{a}}, 5, {{b}};")
    for t in ("b32", "b64"):
        case(f"bfi.{t} fixed", (t, t, "u32", "u32"), data="shift", text=f"bfi.{t} {{d}}, {{a}}, {{b}}, 13, 9;")
        case(f"bfi.{t} fixed length", (t, t, "u32", "u32"), data="shift", text=f"bfi.{t} {{d}}, {{a}}, {{b}}, {{c}}, 17;")
        case(f"bfi.{t} fixed position", (t, t, "u32", "u32"), data="shift", text=f"bfi.{t} {{d}}, {{a}}, {{b}}, 5, {{c}};")
    for combine, table, negated in itertools.product(("and", "or"), (0x80, 0xE8, 0x01), ("", "!")):
        begin = "and.b32 {t}, {c}, 1; setp.ne.u32 {p}, {t}, 0; "
        lop3 = f"lop3.{combine}.b32 {{t}}|{{q}}, {{a}}, {{b}}, {{c}}, {table:#04x}, {negated}{{p}}; "
        case(f"lop3.{combine}.b32 {table:#04x} {negated}p", "b32 b32 b32",
             text=begin + lop3 + "selp.b32 {u}, 0x55555555, 0, {q}; xor.b32 {d}, {t}, {u};")
    halves = "{{{h}, {i}, {j}, {k}}}"
    case("mov.b64 halves", "b64", text=f"mov.b64 {halves}, {{a}}; mov.b64 {{d}}, {{{{{{k}}, {{j}}, {{i}}, {{h}}}}}};")


def rarer_selection_cases():
    for t in ("b16", "u16", "s16", "u64", "s64", "b64", "f64"):
        bits = "b" + t[1:]
        case(f"slct.{t}.s32", (bits, bits, "s32"), t, data="mixed")
        for ftz in FTZ:
            case(f"slct{ftz}.{t}.f32", (bits, bits, "f32"), t, data="mixed")
    case("copysign.f64", "f64 f64")
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        predicate_case(f"testp.{test}.f64", "f64")


def set_cases():
    """set with results and operands of every type."""
    for to, source in itertools.product(("u32", "s32", "f32"), ("u16", "s16", "u64", "s64", "f64")):
        case(f"set.ge.{to}.{source}", (source, source), to)
    case("set.neu.ftz.u32.f32", "f32 f32", "u32")
    odd = "and.b32 {t}, {c}, 1; setp.ne.u32 {p}, {t}, 0; "
    for combine, negated in itertools.product(("and", "or", "xor"), ("", "!")):
        case(f"set.lt.{combine}.u32.s32 {negated}p", "s32 s32 u32", "u32",
             text=odd + f"set.lt.{combine}.u32.s32 {{d}}, {{a}}, {{b}}, {negated}{{p}};")
    for t in ("f16", "bf16"):
        chip = 90 if t == "bf16" else 89
        for op in ("le", "neu", "nan"):
            for to in ("u16", "s16", "u32", "s32"):
                case(f"set.{op}.{to}.{t}", (t, t), to, chip=chip)
            for to in (t + "x2", "u32", "s32"):
                case(f"set.{op}.{to}.{t}x2", (t + "x2", t + "x2"), to, chip=chip)
        case(f"set.le.{t}.{t}", (t, t), chip=chip)
        for source in ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
            case(f"set.le.{t}.{source}", (source, source), t, chip=chip)
    for to in ("f16x2", "u32"):
        case(f"set.le.ftz.{to}.f16x2", "f16x2 f16x2", to)
    case("set.le.ftz.u32.f16", "f16 f16", "u32")


def packed_comparison_cases():
    result = "selp.u32 {t}, 1, 0, {q}; selp.u32 {u}, 2, 0, {r}; or.b32 {d}, {t}, {u};"
    for t, chip in (("f16x2", 89), ("bf16x2", 90)):
        for op in ORDERED + UNORDERED:
            case(f"setp.{op}.{t}", (t, t), "b32", chip=chip, text=f"setp.{op}.{t} {{q}}|{{r}}, {{a}}, {{b}}; " + result)
        for combine, negated in itertools.product(("and", "or", "xor"), ("", "!")):
            odd = "and.b32 {t}, {a}, 1; setp.ne.u32 {p}, {t}, 0; "
            case(f"setp.le.{combine}.{t} {negated}p", (t, t), "b32", chip=chip,
                 text=odd + f"setp.le.{combine}.{t} {{q}}|{{r}}, {{a}}, {{b}}, {negated}{{p}}; " + result)
    case("setp.lt.ftz.f16x2", "f16x2 f16x2", "b32", text="setp.lt.ftz.f16x2 {q}|{r}, {a}, {b}; " + result)
    predicate_case("setp.lt.ftz.f16", "f16 f16")


def directed_f64_cases():
    for rounding in (".rz", ".rm", ".rp"):
        for opcode in ("add", "sub", "mul", "div"):
            case(f"{opcode}{rounding}.f64", "f64 f64")
        case(f"fma{rounding}.f64", "f64 f64 f64")
        for opcode in ("rcp", "sqrt"):
            case(f"{opcode}{rounding}.f64", "f64")
    # The ISA bounds the error of none; the result has 20 bits of fraction.
    case("rcp.approx.ftz.f64", "f64", rule="relative 2^-18")
    case("rsqrt.approx.f64", "f64", rule="relative 2^-18")
    case("rsqrt.approx.ftz.f64", "f64", rule="relative 2^-18")


def half_modifier_cases():
    for t in ("f16", "f16x2"):
        for opcode, suffix in itertools.product(("add", "sub", "mul"), (".ftz", ".sat", ".ftz.sat")):
            case(f"{opcode}{suffix}.{t}", (t, t))
        for suffix in (".ftz", ".ftz.sat", ".ftz.relu"):
            case(f"fma.rn{suffix}.{t}", (t, t, t))
        for opcode, nan in itertools.product(("min", "max"), ("", ".NaN")):
            case(f"{opcode}.ftz{nan}.{t}", (t, t))
        for opcode in ("abs", "neg"):
            case(f"{opcode}.ftz.{t}", (t,))


def xorsign_cases():
    for opcode, nan in itertools.product(("min", "max"), ("", ".NaN")):
        for ftz in FTZ:
            case(f"{opcode}{ftz}{nan}.xorsign.abs.f32", "f32 f32")
        for t in ("f16", "f16x2", "bf16", "bf16x2"):
            case(f"{opcode}{nan}.xorsign.abs.{t}", (t, t))


def rarer_cvt_cases():
    for source in INTEGERS:
        for rounding in (".rm", ".rp"):
            case(f"cvt{rounding}.f16.{source}", (source,), "f16")
        for rounding in (".rz", ".rm", ".rp"):
            case(f"cvt{rounding}.f64.{source}", (source,), "f64")
            if source not in ("u8", "s8"):
                case(f"cvt{rounding}.bf16.{source}", (source,), "bf16", chip=90)
        case(f"cvt.rn.sat.f16.{source}", (source,), "f16")
        case(f"cvt.rn.sat.f64.{source}", (source,), "f64")
    for to, rounding in itertools.product(INTEGERS, INTEGRAL):
        case(f"cvt{rounding}.sat.{to}.f64", "f64", to)
        case(f"cvt{rounding}.sat.{to}.f16", "f16", to)
    for rounding in (".rm", ".rp"):
        case(f"cvt{rounding}.f16.f32", "f32", "f16")
        case(f"cvt{rounding}.bf16.f32", "f32", "bf16", chip=90)
    for rounding in ROUNDINGS:
        case(f"cvt{rounding}.bf16.f64", "f64", "bf16", chip=90)
        case(f"cvt{rounding}.f16.bf16", "bf16", "f16", chip=90)
        case(f"cvt{rounding}.bf16.f16", "f16", "bf16", chip=90)
        case(f"cvt{rounding}.sat.f16.f64", "f64", "f16")
    case("cvt.sat.f64.f32", "f32", "f64")
    case("cvt.sat.f64.f16", "f16", "f64")
    case("cvt.sat.f16.f16", "f16")
    case("cvt.sat.f64.f64", "f64")
    for integral in INTEGRAL:
        case(f"cvt{integral}.sat.f16.f16", "f16")
        case(f"cvt{integral}.sat.f64.f64", "f64")
    for rounding, relu in itertools.product((".rn", ".rz"), ("", ".relu")):
        case(f"cvt{rounding}{relu}.tf32.f32", "f32", "b32", chip=90)
    case("cvt.rna.satfinite.tf32.f32", "f32", "b32")


def all_cases():
    CASES.clear()
    for make in (integer_cases, bit_cases, comparison_cases, f32_cases, f64_cases, half_cases, integer_cvt_cases,
                 float_to_integer_cases, float_cvt_cases):
        make()
    for label, types, result, text, data, chip in collective_cases():
        CASES.append(Case(label, types, result, text, data, "exact", chip))
    # These came later; behind the others they leave most kernels as they were.
    for make in (carry_cases, product_cases, rarer_bit_cases, rarer_selection_cases, set_cases, packed_comparison_cases,
                 directed_f64_cases, half_modifier_cases, xorsign_cases, rarer_cvt_cases):
        make()
    return list(CASES)


# Kernels.


def register_type(type_name):
    return type_name if type_name in ("f32", "f64") else "b16" if type_name == "pred" else f"b{max(16, width_of(type_name))}"


def memory_type(type_name):
    """8-bit integers travel in 16 bits, so that the rest of the register is
    seen too."""
    return "u8" if type_name == "pred" else register_type(type_name)


TEMPORARIES = {"p": "pred", "q": "pred", "r": "pred", "t": "b32", "u": "b32", "v": "b32", "w": "b32", "x": "b32", "y": "b32",
               "h": "b16", "i": "b16", "j": "b16", "k": "b16", "m": "b64", "n": "b64"}
ADDRESSES = ("address", "slot", "warp")


def case_text(case, index, count):
    """The instructions of one case in a scope of their own."""
    names = {name: f"%{name}" for name in (*"abcde", *TEMPORARIES, *ADDRESSES)}
    offset = index * count * ELEMENT_BYTES[memory_type(case.result)]
    lines = [f"\t// {case.label}", "\t{", f"\t.reg .{register_type(case.result)} %d;"]
    lines += [f"\t.reg .{t} %{name};" for name, t in TEMPORARIES.items() if f"{{{name}}}" in case.text]
    lines.append(f"\tadd.u64 %address, %out, {offset};")
    lines += [f"\t{line.strip()};" for line in case.text.format(**names).split(";") if line.strip()]
    lines += [f"\tst.global.{memory_type(case.result)} [%address], %d;", "\t}"]
    return "\n".join(lines)


def kernel_text(name, cases, count, chip):
    """The kernel of cases of one signature, whose results have one size."""
    types = cases[0].types
    params = ",\n".join(f"\t.param .u64 {name}_{i}" for i in range(len(types) + 1))
    lines = [".version 8.6", f".target sm_{chip}", ".address_size 64", "", f".visible .entry {name}(", params, ")",
             f".reqntid {BLOCK}, 1, 1", "{"]
    uses_shared = any("shared" in case.text or "{slot}" in case.text for case in cases)
    if uses_shared:
        lines.append(f"\t.shared .align 16 .b8 buffer[{BLOCK * BUFFER_BYTES}];")
    lines += ["\t.reg .b32 %thread, %cta, %element, %warp, %slot;", "\t.reg .b64 %base, %index, %address, %bytes, %out;",
              "\tmov.u32 %thread, %tid.x;", "\tmov.u32 %cta, %ctaid.x;",
              f"\tmad.lo.u32 %element, %cta, {BLOCK}, %thread;", "\tcvt.u64.u32 %index, %element;"]
    if uses_shared:
        lines += ["\tmov.u32 %warp, buffer;", f"\tmad.lo.u32 %slot, %thread, {BUFFER_BYTES}, %warp;",
                  "\tand.b32 %cta, %thread, 0xffffffe0;", f"\tmad.lo.u32 %warp, %cta, {BUFFER_BYTES}, %warp;"]
    for i, t in enumerate(types):
        lines += [f"\t.reg .{register_type(t)} %{'abce'[i]};", f"\tld.param.u64 %base, [{name}_{i}];",
                  f"\tmul.lo.u64 %bytes, %index, {ELEMENT_BYTES[memory_type(t)]};",
                  "\tadd.u64 %address, %base, %bytes;", f"\tld.global.{memory_type(t)} %{'abce'[i]}, [%address];"]
    lines += [f"\tld.param.u64 %base, [{name}_{len(types)}];",
              f"\tmul.lo.u64 %bytes, %index, {ELEMENT_BYTES[memory_type(cases[0].result)]};",
              "\tadd.u64 %out, %base, %bytes;"]
    lines += [case_text(case, i, count) for i, case in enumerate(cases)]
    return "\n".join(lines + ["\tret;", "}", ""])


MAX_CASES = 48  # of a kernel


def group_of(case):
    """Cases of one group share a kernel, except for MAX_CASES."""
    types = tuple(memory_type(t) if case.data in ("int", "warp") else t for t in case.types)
    return types, ELEMENT_BYTES[memory_type(case.result)], case.data, case.chip


def case_launches():
    groups = collections.defaultdict(list)
    for c in all_cases():
        groups[group_of(c)].append(c)
    launches = []
    for (types, size, data, chip), cases in groups.items():
        columns = DATA[data](cases[0].types)
        count = len(columns[0]) // BLOCK * BLOCK
        inputs = [(memory_type(t), column[:count]) for t, column in zip(cases[0].types, columns)]
        for part in range(0, len(cases), MAX_CASES):
            some = cases[part:part + MAX_CASES]
            name = "_".join([data, *types, f"to{8 * size}", f"sm{chip}", str(part // MAX_CASES)])
            results = [Result(c.label, i * count, count, c.result, c.rule) for i, c in enumerate(some)]
            launches.append(Launch(name, kernel_text(name, some, count, chip), count // BLOCK, BLOCK, inputs,
                                   memory_type(some[0].result), results))
    return launches


def all_launches():
    """Every launch of the corpus, in a fixed order."""
    return case_launches() + mma_launches() + wmma_launches() + wgmma_launches()
