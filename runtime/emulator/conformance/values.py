# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of the conformance corpus.

Every list is a function of a seed and a name alone. A value is its bit pattern
as an int; a data set is a list of columns, one an operand, of equal length.
"""
import itertools
import random

SEED = 20


def generator(name):
    return random.Random(f"{SEED}:{name}")


def below(rng, count):
    """What rng.randrange(count) gives, in a third of its time: the corpus draws
    millions."""
    bits = count.bit_length()
    drawn = rng.getrandbits(bits)
    while drawn >= count:
        drawn = rng.getrandbits(bits)
    return drawn


class FloatFormat:
    """Exponent and fraction widths of a binary floating-point format."""

    def __init__(self, name, exponent_bits, fraction_bits):
        self.name, self.exponent_bits, self.fraction_bits = name, exponent_bits, fraction_bits
        self.width = 1 + exponent_bits + fraction_bits
        self.bias = (1 << exponent_bits - 1) - 1
        self.max_field = (1 << exponent_bits) - 1
        self.infinity = self.max_field << fraction_bits

    def make(self, sign, field, fraction):
        return sign << self.width - 1 | field << self.fraction_bits | fraction

    def is_nan(self, bits):
        return bits & (1 << self.width - 1) - 1 > self.infinity

    def specials(self):
        """Zeros, subnormals, the edges of the range, infinities, NaNs."""
        top, quiet = (1 << self.fraction_bits) - 1, 1 << self.fraction_bits - 1
        one = self.bias
        fields = [(0, 0), (0, 1), (0, quiet), (0, top), (1, 0), (1, 1), (one - 1, 0), (one, 0), (one, 1),
                  (one, quiet), (one + 1, 0), (one + 1, quiet), (one + self.fraction_bits, 1),
                  (self.max_field - 1, 0), (self.max_field - 1, top), (self.max_field, 0), (self.max_field, quiet),
                  (self.max_field, 1), (self.max_field, top)]
        return [self.make(sign, *field) for field in fields for sign in (0, 1)]

    def any(self, rng):
        return rng.getrandbits(self.width)

    def near(self, rng, field, spread):
        """A number whose exponent field is within `spread` of `field`."""
        field = min(max(field - spread + below(rng, 2 * spread + 1), 0), self.max_field - 1)
        draw = rng.getrandbits
        return draw(1) << self.width - 1 | field << self.fraction_bits | draw(self.fraction_bits)

    def field(self, bits):
        return bits >> self.fraction_bits & self.max_field


F16 = FloatFormat("f16", 5, 10)
BF16 = FloatFormat("bf16", 8, 7)
F32 = FloatFormat("f32", 8, 23)
F64 = FloatFormat("f64", 11, 52)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


def pad(rows, count, make):
    """`rows` cut or continued by `make()` to `count`, as columns."""
    rows = rows[:count]
    rows += [make() for _ in range(count - len(rows))]
    return [list(column) for column in zip(*rows)]


# Integers.


def int_specials(width):
    ones, top = (1 << width) - 1, 1 << width - 1
    values = [0, 1, 2, 3, 5, 7, 10, ones, ones - 1, ones - 2, top, top + 1, top - 1, top - 2, ones // 3, ones // 3 * 2]
    for power in range(3, width - 1, max(1, width // 8)):
        values += [(1 << power) - 1, 1 << power, (1 << power) + 1, ones - (1 << power)]
    return values


def any_int(rng, width):
    """Of any magnitude and sign."""
    value = rng.getrandbits(width) >> below(rng, width)
    return value if rng.getrandbits(1) else (1 << width) - 1 - value


def integers(name, widths, count):
    rng = generator(name)
    specials = [int_specials(w) for w in widths]
    if len(widths) == 3:
        specials = [values[:16] for values in specials]
    rows = list(itertools.product(*specials))
    return pad(rows, count, lambda: tuple(any_int(rng, w) for w in widths))


AMOUNTS = [*range(72), 127, 128, 255, 256, 257, 0x8000_0000, 0xFFFF_FFFF]


def shifts(name, widths, count):
    """The last operands are positions or lengths."""
    rng = generator(name)
    amounts = widths.count(None)
    row = lambda: tuple(any_int(rng, w) if w else rng.choice(AMOUNTS) for w in widths)
    fixed = [0x1234_5678_9ABC_DEF0_0FED & (1 << w) - 1 for w in widths if w]
    rows = [(*fixed, *a) for a in itertools.product(AMOUNTS, repeat=min(amounts, 2))]
    return pad(rows, count, row)


# Floats.


def all_patterns(width):
    return [list(range(1 << width))]


def float_unary(name, fmt, count):
    """All exponents times telling fractions, then values kernels use."""
    rng = generator(name)
    bits = fmt.fraction_bits
    fractions = {0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) // 3}
    # Halfway cases of the narrower formats, and their neighbours.
    for cut in {bits - 10, bits - 7, bits - 23} & set(range(2, bits)):
        half = 1 << cut - 1
        fractions |= {half, half - 1, half + 1, 3 * half, 3 * half - 1, 3 * half + 1}
    fields = set(range(fmt.max_field + 1))
    if fmt is F64:  # what f32, f16 and the integers cover, and some of the rest
        offsets = {*range(-152, -120), *range(-28, 68), *range(120, 132)}
        fields = {fmt.bias + offset for offset in offsets} | set(range(0, fmt.max_field, 16)) | {fmt.max_field}
    rows = [(fmt.make(sign, field, fraction),)
            for field in sorted(fields) for fraction in sorted(fractions) for sign in (0, 1)]

    def make():
        choice = below(rng, 4)
        if choice == 0:
            return (fmt.any(rng),)
        if choice == 1:  # integers and halves of integers
            exponent = below(rng, bits + 2)
            kept = min(exponent + 1, bits)
            return (fmt.make(rng.getrandbits(1), fmt.bias + exponent, rng.getrandbits(kept) << bits - kept),)
        return (fmt.near(rng, fmt.bias + (3 if choice == 2 else 0), 4),)

    return pad(rows, max(count, len(rows) + 2048), make)


def float_binary(name, fmt, count):
    rng = generator(name)
    rows = list(itertools.product(fmt.specials(), repeat=2))

    def make():
        a = fmt.any(rng)
        choice = below(rng, 4)
        if choice == 0:
            return a, fmt.any(rng)
        if choice == 1:  # alignment, cancellation
            return a, fmt.near(rng, fmt.field(a), fmt.fraction_bits + 3)
        if choice == 2:  # products at the lower edge of the range
            return a, fmt.near(rng, fmt.bias - fmt.field(a), fmt.fraction_bits + 3)
        a = fmt.near(rng, fmt.bias, 6)
        return a, fmt.near(rng, fmt.bias, 6)

    return pad(rows, count, make)


def float_ternary(name, fmt, count):
    rng = generator(name)
    some = fmt.specials()
    some = some[:4] + some[8:10] + some[14:16] + some[28:]
    rows = list(itertools.product(some, repeat=3))

    def make():
        a, b = (fmt.any(rng), fmt.any(rng)) if rng.getrandbits(1) else (
            fmt.near(rng, fmt.bias, 8), fmt.near(rng, fmt.bias, 8))
        product = fmt.field(a) + fmt.field(b) - fmt.bias
        return a, b, fmt.near(rng, product, 2 * fmt.fraction_bits + 3) if below(rng, 8) else fmt.any(rng)

    return pad(rows, count, make)


def pairs(columns):
    """Columns of 16-bit values as columns of 32-bit pairs; each value meets two
    others."""
    return [[low | column[i - 1] << 16 for i, low in enumerate(column)] for column in columns]
