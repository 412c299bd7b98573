"""Functions are traced once for what they depend on, and again where that has changed."""

import functools
import gc
import math
import random
import types
import weakref

import flashcore
import numpy
import pytest
from flashcore import mods
from formula import draw_qkv

WIDTH = 3
SETTINGS = types.ModuleType("settings")
SETTINGS.width = 3
SETTINGS.unused = object()


@pytest.fixture
def traces(monkeypatch):
    """How many times functions were traced."""
    made = []
    trace = mods.trace_mods
    monkeypatch.setattr(mods, "_known", {})
    monkeypatch.setattr(mods, "trace_mods", lambda *given: made.append(given) or trace(*given))
    return made


def text_of(mask_mod=None, score_mod=None):
    return mods.read_mods(score_mod, mask_mod)[0][0]


def near(width):
    return lambda b, h, i, j: i - j < width


def test_the_same_code_and_values(traces):
    assert text_of(near(5)) == text_of(near(5))
    assert len(traces) == 1
    assert text_of(near(6)) != text_of(near(5)) and len(traces) == 2
    assert text_of(near(5.0)) != text_of(near(5)) and len(traces) == 3
    assert text_of(near(True)) == text_of(near(1)) and len(traces) == 5


def test_zero_has_a_sign(traces):
    def times(x):
        return lambda s, b, h, i, j: s * x

    assert text_of(None, times(0.0)) != text_of(None, times(-0.0))
    assert text_of(None, times(math.nan)) == text_of(None, times(math.nan)) and len(traces) == 3


def global_width(b, h, i, j):
    return i - j < WIDTH


def of_settings(b, h, i, j):
    return i - j < SETTINGS.width


def test_globals(traces, monkeypatch):
    first = text_of(global_width)
    assert text_of(global_width) == first and len(traces) == 1
    monkeypatch.setitem(globals(), "WIDTH", 4)
    assert text_of(global_width) != first and len(traces) == 2
    first = text_of(of_settings)
    assert text_of(of_settings) == first and len(traces) == 3
    monkeypatch.setattr(SETTINGS, "width", 4)
    assert text_of(of_settings) != first and len(traces) == 4


def test_functions_that_it_calls(traces, monkeypatch):
    def outer(inner):
        return lambda b, h, i, j: inner(b, h, i, j) & (i >= j)

    first = text_of(outer(near(3)))
    assert text_of(outer(near(3))) == first and len(traces) == 1
    assert text_of(outer(near(4))) != first and len(traces) == 2
    first = text_of(outer(global_width))
    monkeypatch.setitem(globals(), "WIDTH", 5)
    assert text_of(outer(global_width)) != first


def test_defaults_and_partials(traces):
    def with_default(width):
        def function(b, h, i, j, width=width, *, more=width):
            return i - j < width + more

        return function

    def of_width(width, b, h, i, j):
        return i - j < width

    assert text_of(with_default(3)) == text_of(with_default(3)) and len(traces) == 1
    assert text_of(with_default(3)) != text_of(with_default(4))
    count = len(traces)
    partials = [functools.partial(of_width, width) for width in (3, 3, 4)]
    texts = [text_of(partial) for partial in partials]
    assert texts[0] == texts[1] != texts[2] and len(traces) == count + 2


def test_lists_are_what_they_hold(traces):
    widths = [3, 4]

    def function(b, h, i, j):
        return i - j < sum(widths)

    first = text_of(function)
    assert text_of(function) == first and len(traces) == 1
    widths[0] = 5
    assert text_of(function) != first and len(traces) == 2


class Model:
    width = 3

    def mask(self, b, h, i, j):
        return i - j < self.width


def test_objects_are_looked_at_each_time(traces):
    model = Model()
    first = text_of(model.mask)
    assert text_of(model.mask) == first and len(traces) == 2
    model.width = 4
    assert text_of(model.mask) != first


def test_effects_are_not_left_out(traces):
    seen = []

    def function(b, h, i, j):
        seen.append(1)
        return i >= j

    class Counter:
        count = 0

    counter = Counter()

    def counting(b, h, i, j):
        counter.count += 1
        return i >= j

    def importing(b, h, i, j):
        import math

        return i >= j + math.floor(1.5)

    is_on = False

    def switching(b, h, i, j):
        nonlocal is_on
        is_on = not is_on
        return (i >= j) if is_on else (i <= j)

    texts = set()
    for _ in range(3):
        text_of(function), text_of(counting), text_of(importing)
        texts.add(text_of(switching))
    assert counter.count == 3 and len(seen) == 3 and len(traces) == 12 and len(texts) == 2


def test_captures_are_found_again(traces):
    q, k, v = draw_qkv(queries=20)

    def call(table):
        read = flashcore.capture(table)
        return flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: read[j] > 0)

    keys = k.shape[2]
    tables = [numpy.arange(keys, dtype="int32") % step for step in (2, 3)]
    results = [call(table) for table in (*tables, tables[0])]
    assert len(traces) == 1
    assert (results[0] == results[2]).all() and not (results[0] == results[1]).all()
    call(tables[0].astype("float32"))
    assert len(traces) == 2
    call(numpy.zeros((keys, 2), "int32")[:, 0])
    assert len(traces) == 3
    # A copy is made of it at each call.
    wide = tables[1].astype("int64")
    assert (call(wide) == results[1]).all() and len(traces) == 4
    wide[:] = tables[0]
    assert (call(wide) == results[0]).all() and len(traces) == 4


def test_nothing_that_was_read_is_kept(traces):
    class Table(numpy.ndarray):
        pass

    q, k, v = draw_qkv(queries=20)
    table = numpy.ones(k.shape[2], "int32").view(Table)
    alive = weakref.ref(table)
    read = flashcore.capture(table)
    flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: read[j] > 0)
    del table, read
    gc.collect()
    assert alive() is None


def test_an_array_without_capture_may_be_read_as_numbers(traces):
    """Which are a part of the kernel."""
    table = numpy.array([3, 4])

    def function(b, h, i, j):
        return i - j < int(table[0])

    first = text_of(function)
    table[0] = 9
    assert text_of(function) != first


def test_handles(traces):
    model = Model()
    mask, score = flashcore.mask(model.mask), flashcore.score(lambda s, b, h, i, j: s * 2)
    assert len(traces) == 2
    first = mods.read_mods(score, mask)
    assert mods.read_mods(score, mask)[0] is first[0] and len(traces) == 3
    model.width = 4  # which nobody asks for
    assert text_of(mask) == text_of(near(3)) and "mask_mod" in repr(mask)
    q, k, v = draw_qkv(queries=20)
    expected = flashcore.attention(q, k, v, mask_mod=near(3))
    assert (flashcore.attention(q, k, v, mask_mod=mask) == expected).all()
    assert mask(0, 0, 5, 2) == (5 - 2 < 4)  # a plain call is one


def test_handles_beside_functions(traces):
    mask = flashcore.mask(near(3))
    both = mods.read_mods(lambda s, b, h, i, j: s * 2, mask)
    assert [text.partition("=")[0] for text in both[0][0]] == ["score", "mask"]


def test_wrong_handles():
    with pytest.raises(TypeError, match="expects mask_mod to be a function, but got that of a score_mod: <score_mod"):
        mods.read_mods(None, flashcore.score(lambda s, b, h, i, j: s))
    with pytest.raises(TypeError, match="expects mask_mod to return whether the key is seen"):
        flashcore.mask(lambda b, h, i, j: i + j)
    with pytest.raises(TypeError, match="expects function to be a function, but got 5"):
        flashcore.mask(5)


def test_the_table_starts_over(traces, monkeypatch):
    monkeypatch.setattr(mods, "_MAX_KNOWN", 4)
    for width in range(9):
        text_of(near(width))
        assert len(mods._known) <= 4


def test_torch_tensors(traces):
    torch = pytest.importorskip("torch")
    documents = torch.zeros(40, dtype=torch.int32)

    def same(b, h, i, j):
        return documents[i] == documents[j]

    def by_size(b, h, i, j):
        return j < documents.shape[0]

    def by_value(b, h, i, j):
        return j < documents[0].item() + 4

    first = mods.read_mods(None, same)
    assert mods.read_mods(None, same)[1][0] is documents and len(traces) == 1
    documents = torch.zeros(50, dtype=torch.int32)
    again = mods.read_mods(None, same)
    assert again[0] is first[0] and again[1][0] is documents and len(traces) == 1
    texts = text_of(by_size)
    documents = torch.ones(60, dtype=torch.int32)
    assert text_of(by_size) != texts
    texts = text_of(by_value)
    documents[0] = 7
    assert text_of(by_value) != texts


def test_compositions_of_pytorch(traces):
    torch = pytest.importorskip("torch")
    from torch.nn.attention.flex_attention import and_masks, or_masks

    table = torch.ones(40, dtype=torch.bool)

    def make(width):
        return and_masks(near(width), or_masks(lambda b, h, i, j: table[j], near(2)))

    first = text_of(make(5))
    assert text_of(make(5)) == first and len(traces) == 1
    assert text_of(make(6)) != first


def test_numbers_that_are_data(traces):
    """One kernel, and one trace, for all of them."""
    from flashcore import kernels

    q, k, v = draw_qkv(queries=40)

    def call(width, factor):
        width, factor = flashcore.number(width), flashcore.number(factor)
        return flashcore.attention(
            q, k, v, mask_mod=lambda b, h, i, j: i - j < width,
            score_mod=lambda s, b, h, i, j: s * factor,
        )  # fmt: skip

    def expected(width, factor):
        return flashcore.attention(
            q, k, v, mask_mod=lambda b, h, i, j: i - j < width,
            score_mod=lambda s, b, h, i, j: s * factor,
        )  # fmt: skip

    values = ((5, 1.0), (9, 0.5), (numpy.int64(-3), numpy.float32(2.0)))
    results = [call(*each) for each in values[:1]]
    before, count = kernels.statistics.compiled, len(traces)
    results += [call(*each) for each in values[1:]]
    assert kernels.statistics.compiled == before and len(traces) == count == 1
    for result, each in zip(results, values):
        numpy.testing.assert_allclose(
            result.astype("float32"), expected(*each).astype("float32"), atol=2e-3, rtol=2e-3
        )


@pytest.mark.parametrize(
    "value, error, message",
    [
        ("5", TypeError, "expects value to be a number, but got '5'"),
        (True, TypeError, "expects value to be a number, but got True"),
        (1 << 31, ValueError, "expects value to be a whole number of 32 bits, but got 2147483648"),
    ],
)
def test_what_are_no_numbers(value, error, message):
    with pytest.raises(error, match=message):
        flashcore.number(value)


def test_one_tensor_in_two_places_is_another_kernel(traces):
    """As of a mask of documents for attention to oneself and to others."""
    q, k, v = draw_qkv(queries=48, keys=48)

    def call(first, second):
        one, other = flashcore.capture(first), flashcore.capture(second)
        return flashcore.attention(q, k, v, mask_mod=lambda b, h, i, j: one[i] == other[j])

    same = numpy.arange(48, dtype="int32") // 8
    others = (same + 1) % 6
    results = [call(same, same), call(same, others), call(same, same)]
    assert (results[0] == results[2]).all() and not (results[0] == results[1]).all()


def holder():
    """Whose attribute others read."""


holder.scale = 2.0


def helper(s):
    return s * holder.scale


def scaled_by(module, s):
    return s * module.width


def test_state_that_no_key_has(traces, monkeypatch):
    """Attributes of functions, modules that are handed on, and what functools.wraps says."""
    first = text_of(None, lambda s, b, h, i, j: helper(s))
    monkeypatch.setattr(holder, "scale", 3.0)
    assert text_of(None, lambda s, b, h, i, j: helper(s)) != first

    def handed(s, b, h, i, j):
        return scaled_by(SETTINGS, s)

    first = text_of(None, handed)
    monkeypatch.setattr(SETTINGS, "width", 7)
    assert text_of(None, handed) != first

    @functools.wraps(numpy.linalg.norm)
    def wrapped(x):
        return x * WIDTH

    first = text_of(None, lambda s, b, h, i, j: wrapped(s))
    monkeypatch.setitem(globals(), "WIDTH", 11)
    assert text_of(None, lambda s, b, h, i, j: wrapped(s)) != first


def test_random_numbers_are_drawn_anew(traces):
    import numpy.random as generator

    texts = {text_of(None, lambda s, b, h, i, j: s * generator.rand()) for _ in range(3)}
    assert len(texts) == 3


def test_arrays_of_one_number(traces):
    def times(x):
        return lambda s, b, h, i, j: s * float(x)

    values = (0.001234567891, 0.001234569)
    texts = [text_of(None, times(numpy.array(value))) for value in values]
    assert texts[0] != texts[1]


def test_handles_do_not_change(traces, monkeypatch):
    """Beside others, too, which are traced later."""
    mask = flashcore.mask(global_width)
    monkeypatch.setitem(globals(), "WIDTH", 40)
    alone = mods.read_mods(None, mask)[0][0]
    beside = mods.read_mods(lambda s, b, h, i, j: s * 2, mask)[0][0]
    with_handle = mods.read_mods(flashcore.score(lambda s, b, h, i, j: s * 2), mask)[0][0]
    assert "arith.constant 3 :" in alone[0] and beside == with_handle and alone[0] in beside
    table = numpy.arange(48, dtype="int32")
    read = flashcore.capture(table)
    reading = flashcore.mask(lambda b, h, i, j: read[j] > 3)
    _, (capture,) = mods.read_mods(lambda s, b, h, i, j: s + read[j], reading)
    assert capture is table


def test_handles_keep_no_others(traces):
    score = flashcore.score(lambda s, b, h, i, j: s * 2)
    mask = flashcore.mask(near(4))
    mods.read_mods(score, mask)
    alive = weakref.ref(mask)
    del mask
    gc.collect()
    assert alive() is None


class Numbers:
    """Functions drawn at random, and changes of what they read."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        kinds = ("int32", "int32", "float32", "int64")
        self.tables = [numpy.arange(8, dtype=kind) + i for i, kind in enumerate(kinds)]
        self.captures = [flashcore.capture(table) for table in self.tables]
        self.settings = types.ModuleType("drawn")
        self.listed = [1, 2]
        self.scale(2.0)
        self.settings.width = 3

    def scale(self, number):
        holder.scale = number

    def value(self):
        return self.random.choice([0, 1, 3, 3.0, 0.0, -0.0, True, numpy.float32(0.1), (1, 2.0)])

    def change(self):
        choice = self.random.randrange(4)
        if choice == 0:
            self.settings.width = self.random.choice([3, 4, 3.0])
        elif choice == 1:
            self.listed[:] = self.random.choice([[1, 2], [2, 1], [3], []])
        elif choice == 2:
            self.scale(self.random.choice([2.0, 3.0]))
        else:
            self.captures.append(flashcore.capture(self.random.choice(self.tables)))

    def function(self, depth=0):
        x, settings, listed = self.value(), self.settings, self.listed
        one, other = (self.random.choice(self.captures) for _ in range(2))
        inner = self.function(depth + 1) if depth < 2 else helper
        return self.random.choice(
            [
                lambda s: s * x if not isinstance(x, tuple) else s + sum(x),
                lambda s: s + one[s.to("int32")] - other[s.to("int32")],
                lambda s: inner(s) + settings.width,
                lambda s: s + sum(listed),
                lambda s, more=x: inner(s) if more else s,
                functools.partial(lambda y, s: inner(s) * (y is x), x),
                inner,
            ]
        )

    def mod(self):
        function = self.function()
        return lambda s, b, h, i, j: function(s)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_is_what_a_trace_would_be(seed, monkeypatch):
    """Of functions that hold the same or something else, in any order of changes."""
    from flashcore.regions import trace_mods

    monkeypatch.setattr(mods, "_known", {})
    monkeypatch.setattr(holder, "scale", 2.0)
    drawn = Numbers(seed)
    made = [drawn.mod() for _ in range(12)]
    for _ in range(60):
        if drawn.random.random() < 0.4:
            drawn.change()
            made[drawn.random.randrange(12)] = drawn.mod()
        mod = drawn.random.choice(made)
        (words, _), arrays = mods.read_mods(mod, None)
        traced = trace_mods(mod, None)
        assert words == traced.regions.words()
        assert [id(x) for x in arrays] == [id(x.array) for x in traced.captures]
