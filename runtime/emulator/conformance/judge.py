# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the results of two devices by the rule of each instruction variant."""
import collections
import dataclasses
import math
import re
import struct

from launch import unpack
from values import FORMATS

EXAMPLES = 16


def value_of(fmt, bits):
    if fmt.name == "f64":
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if fmt.name == "f16":
        return struct.unpack("<e", bits.to_bytes(2, "little"))[0]
    return struct.unpack("<f", (bits << 16 if fmt.name == "bf16" else bits).to_bytes(4, "little"))[0]


def ordered(fmt, bits):
    """Neighbouring numbers become neighbouring integers; -0 and +0 are 0."""
    magnitude = bits & (1 << fmt.width - 1) - 1
    return -magnitude if bits >> fmt.width - 1 else magnitude


@dataclasses.dataclass
class Rule:
    """exact; or the PTX ISA's bound: a number of ulps, or the larger of a
    relative and an absolute error. `below` limits the operand's size."""
    ulps: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    below: float = math.inf

    @staticmethod
    def parse(text):
        rule = Rule()
        for name, base, power in re.findall(r"(ulp|relative|absolute|below) ([0-9.]+)(?:\^(-?[0-9.]+))?", text):
            setattr(rule, "ulps" if name == "ulp" else name, float(base) ** float(power) if power else float(base))
        return rule

    def allows(self, fmt, want, got, operand):
        """Whether `got` may stand for `want`, which is the exact result rounded
        to nearest and so off by half an ulp itself."""
        if fmt.is_nan(want) or fmt.is_nan(got):
            return False
        if abs(ordered(fmt, want) - ordered(fmt, got)) <= self.ulps:
            return True
        if math.isfinite(self.below) and not abs(operand) <= self.below:
            return True
        exact, other = value_of(fmt, want), value_of(fmt, got)
        if math.isinf(exact) or math.isinf(other):
            return False
        magnitude = want & (1 << fmt.width - 1) - 1
        spacing = abs(exact) - value_of(fmt, max(magnitude, 1) - 1)
        bound = max(self.relative * abs(exact), self.absolute)
        return bound > 0 and abs(other - exact) <= bound + spacing / 2


@dataclasses.dataclass
class Verdict:
    label: str
    rule: str
    count: int
    differing: int = 0
    broken: int = 0
    max_ulp: object = None  # of numbers, for float types
    examples: list = dataclasses.field(default_factory=list)

    def text(self):
        if not self.differing:
            return "equal"
        if self.rule == "report":
            return "differs"
        return "BROKEN" if self.broken else f"within {self.rule}"


def lanes_of(type_name):
    """The float format of a result and how many an element holds."""
    fmt = FORMATS.get(type_name.removesuffix("x2"))
    return fmt, 2 if type_name.endswith("x2") else 1


def parts(fmt, packed, bits):
    return [bits >> i * fmt.width & (1 << fmt.width) - 1 for i in range(packed)]


def operand_value(launch, index):
    type_name, values = launch.inputs[0]
    return value_of(FORMATS[type_name], values[index]) if type_name in FORMATS else 0.0


def example(launch, result, index, card, emulator):
    digits = launch.element_bytes() * 2
    out = {"index": index, "card": f"{card:0{digits}x}", "emulator": f"{emulator:0{digits}x}"}
    if launch.shape:
        return out | launch.shape.example(launch, result.offset + index)
    return out | {"operands": [f"{values[index]:x}" for _, values in launch.inputs]}


def judge(launch, result, card, emulator):
    """`card` and `emulator` are the bytes of the whole output."""
    size = launch.element_bytes()
    begin, end = result.offset * size, (result.offset + result.count) * size
    verdict = Verdict(result.label, result.rule, result.count)
    fmt, packed = lanes_of(result.type)
    if fmt:
        verdict.max_ulp = 0
    if card[begin:end] == emulator[begin:end]:
        return verdict
    got, want = unpack(size, card[begin:end]), unpack(size, emulator[begin:end])
    rule = Rule.parse(result.rule)
    differing = []
    broken = []
    for i in (i for i in range(result.count) if got[i] != want[i]):
        differing.append(i)
        allowed = fmt is not None
        for x, y in zip(parts(fmt, packed, want[i]), parts(fmt, packed, got[i])) if fmt else ():
            if x == y:
                continue
            if not (fmt.is_nan(x) or fmt.is_nan(y)):
                verdict.max_ulp = max(verdict.max_ulp, abs(ordered(fmt, x) - ordered(fmt, y)))
            allowed = allowed and result.rule != "exact" and rule.allows(fmt, x, y, operand_value(launch, i))
        if not allowed:
            broken.append(i)
    verdict.differing, verdict.broken = len(differing), len(broken)
    # Examples from all over the range, of broken rules first.
    chosen = broken or differing
    step = max(1, len(chosen) // EXAMPLES)
    verdict.examples = [example(launch, result, i, got[i], want[i]) for i in chosen[::step][:EXAMPLES]]
    return verdict


def nan_patterns(launch, result, data):
    """How often each NaN pattern occurs among the results."""
    fmt, packed = lanes_of(result.type)
    if not fmt:
        return collections.Counter()
    size = launch.element_bytes()
    elements = unpack(size, data[result.offset * size:(result.offset + result.count) * size])
    counts = collections.Counter()
    for bits, times in collections.Counter(elements).items():
        for part in parts(fmt, packed, bits):
            if fmt.is_nan(part):
                counts[part] += times
    return counts
