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


def all_cases():
    CASES.clear()
    for make in (integer_cases, bit_cases, comparison_cases, f32_cases, f64_cases, half_cases, integer_cvt_cases,
                 float_to_integer_cases, float_cvt_cases):
        make()
    for label, types, result, text, data, chip in collective_cases():
        CASES.append(Case(label, types, result, text, data, "exact", chip))
    return list(CASES)


# Kernels.


def register_type(type_name):
    return type_name if type_name in ("f32", "f64") else "b16" if type_name == "pred" else f"b{max(16, width_of(type_name))}"


def memory_type(type_name):
    """8-bit integers travel in 16 bits, so that the rest of the register is
    seen too."""
    return "u8" if type_name == "pred" else register_type(type_name)


TEMPORARIES = {"p": "pred", "q": "pred", "r": "pred", "t": "b32", "u": "b32", "v": "b32", "w": "b32", "x": "b32", "y": "b32",
               "h": "b16", "i": "b16"}
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
    return case_launches() + mma_launches()
