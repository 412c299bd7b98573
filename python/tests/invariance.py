"""Whether the bits of a row depend on what else is computed: counts rows that differ.

usage: python/tests/invariance.py [--device emulator|cuda] [--split-keys N]
           [--product warpgroup] [--free]
  On the emulator of arrays of NumPy, for the chip that FLASHCORE_CHIP names; on a GPU
  of PyTorch's tensors, of more and longer sequences. --split-keys N splits keys at
  multiples of N, --product asks for products of warpgroups, --free leaves
  batch_invariant out, to see what it is for. Prints a
  line for each problem, with the rows of each check that differ from the same rows
  of the whole problem, and fails where there are any.

test_invariance.py and gpu/test_gpu_invariance.py run the same checks.
"""

import argparse
import dataclasses
import itertools
import sys

import numpy

import flashcore


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem whose rows are computed in several ways. As many keys as queries."""

    dtype: str = "float16"
    dim: int = 64
    mask: str = "causal"
    queries: int = 300
    heads: int = 4
    heads_kv: int = 2
    batch: int = 64
    split_keys: int = 0
    device: str = "emulator"
    is_invariant: bool = True
    product: str = "warp"

    def __str__(self):
        parts = f", parts of {self.split_keys} keys" if self.split_keys else ""
        product = ", warpgroups" if self.product == "warpgroup" else ""
        return f"{self.dtype} d{self.dim} {self.mask}{parts}{product}"

    @property
    def schedule(self):
        choices = {"split_keys": self.split_keys}
        if self.product != "warp":
            choices["product"] = self.product
        return choices if self.is_invariant else None

    @property
    def options(self):
        causal = self.mask in ("causal", "window")
        return {"causal": causal, "window": self.queries // 4 if self.mask == "window" else None}


#: What o and lse of some rows are, to the bit: unsigned arrays (batch, heads, queries, bytes).
Bits = numpy.ndarray


def make_array(problem, values):
    """An array of the device, of the type of the problem where it is of float32."""
    if problem.device == "cuda":
        import torch

        array = torch.from_numpy(values).to("cuda")
        return array.to(getattr(torch, problem.dtype)) if values.dtype == numpy.float32 else array
    if values.dtype != numpy.float32:
        return values
    if problem.dtype == "bfloat16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(problem.dtype)


def bytes_of(array):
    """Of each row of (batch, heads, queries, numbers)."""
    if not isinstance(array, numpy.ndarray):
        import torch

        array = array.cpu().contiguous().view(torch.uint8).numpy()
    return numpy.ascontiguousarray(array).view(numpy.uint8)


def attend(problem, q, k, v, **options):
    """The bits of attention on arrays of float32."""
    tensors = {
        name: make_array(problem, options.pop(name))
        for name in ("seqused_k", "cu_seqlens_q", "cu_seqlens_k", "page_table")
        if name in options
    }
    o, lse = flashcore.attention(
        *(make_array(problem, array) for array in (q, k, v)),
        lse=True,
        schedule=problem.schedule,
        batch_invariant=problem.is_invariant,
        **{**problem.options, **tensors, **options},
    )
    return numpy.concatenate([bytes_of(o), bytes_of(lse[..., None])], axis=-1)


def count_different(rows: Bits, others: Bits) -> int:
    assert rows.shape == others.shape and rows.size, (rows.shape, others.shape)
    return int((rows != others).any(-1).sum())


class Inputs:
    """q, k and v of a sequence, and the bits of all of its rows."""

    def __init__(self, problem, seed=1):
        rng = numpy.random.default_rng(seed)

        def draw(heads, factor):
            shape = (1, heads, problem.queries, problem.dim)
            return rng.standard_normal(shape, dtype=numpy.float32) * numpy.float32(factor)

        self.problem = problem
        # Scores of some tens, so that maxima rise and factors are no powers of 2.
        self.q = draw(problem.heads, 3)
        self.k, self.v = draw(problem.heads_kv, 2), draw(problem.heads_kv, 1)
        self.whole = attend(problem, self.q, self.k, self.v)

    @property
    def hides_later_keys(self):
        return self.problem.mask != "dense"

    def keys_until(self, end):
        """What the cache holds when query `end` - 1 comes: with a dense mask, all."""
        if not self.hides_later_keys:
            return self.k, self.v
        return self.k[:, :, :end], self.v[:, :, :end]

    def compare_chunk(self, begin, end, **options):
        k, v = self.keys_until(end)
        rows = attend(self.problem, self.q[:, :, begin:end], k, v, **options)
        return count_different(rows, self.whole[:, :, begin:end])


def check_static(inputs):
    """A kernel for these sizes, and one for all."""
    rows = attend(inputs.problem, inputs.q, inputs.k, inputs.v, static=True)
    return count_different(rows, inputs.whole)


def check_chunks(inputs, size, most=12):
    """Calls of `size` queries each; of many calls, `most`, the last of them among these."""
    queries = inputs.problem.queries
    begins = list(range(0, queries, size))
    begins = begins[:: max(1, -(-len(begins) // most))] + begins[-1:]
    return sum(inputs.compare_chunk(a, min(a + size, queries)) for a in sorted(set(begins)))


def check_places(inputs):
    """A row at every place of a tile: at the end of calls of 1 to 130 queries."""
    end = min(inputs.problem.queries, 200)
    step = 1 if inputs.problem.device == "cuda" else 9
    return sum(inputs.compare_chunk(a, end) for a in range(end - 130, end, step))


def check_equal_rows(inputs):
    """One row at all places of a call."""
    problem = dataclasses.replace(inputs.problem, mask="dense")  # all see all keys
    q = numpy.repeat(inputs.q[:, :, :1], 130, axis=2)
    rows = attend(problem, q, inputs.k, inputs.v)
    return count_different(rows[:, :, 1:], numpy.repeat(rows[:, :, :1], 129, axis=2))


def check_batch(inputs):
    """In a batch, of which it is an entry in the middle."""
    problem, end = inputs.problem, min(inputs.problem.queries, 150)
    rng = numpy.random.default_rng(2)
    arrays = []
    k, v = inputs.keys_until(end)
    for array in (inputs.q[:, :, end - 3 : end], k, v):
        batch = rng.standard_normal((problem.batch, *array.shape[1:]), dtype=numpy.float32)
        batch[problem.batch // 2] = array[0]
        arrays.append(batch)
    rows = attend(problem, *arrays)[problem.batch // 2 :][:1]
    return count_different(rows, inputs.whole[:, :, end - 3 : end])


def check_heads(inputs):
    """The heads of one kv head, alone."""
    group = inputs.problem.heads // inputs.problem.heads_kv
    rows = attend(inputs.problem, inputs.q[:, :group], inputs.k[:, :1], inputs.v[:, :1])
    return count_different(rows, inputs.whole[:, :group])


def check_used(inputs):
    """In a cache that is longer than what is used of it."""
    problem, queries = inputs.problem, inputs.problem.queries
    unused = numpy.full((1, problem.heads_kv, 77, problem.dim), numpy.nan, numpy.float32)
    k, v = (numpy.concatenate([array, unused], axis=2) for array in (inputs.k, inputs.v))
    used = numpy.array([queries], numpy.int32)
    rows = attend(problem, inputs.q, k, v, seqused_k=used)
    one = attend(problem, inputs.q[:, :, -1:], k, v, seqused_k=used)
    return count_different(rows, inputs.whole) + count_different(one, inputs.whole[:, :, -1:])


def check_pages(inputs, page_size=16):
    """In pages, in no order."""
    queries = inputs.problem.queries
    each = -(-queries // page_size)
    table = numpy.random.default_rng(3).permutation(each + 2)[:each].astype(numpy.int32)
    pools = []
    for array in (inputs.k, inputs.v):
        pool = numpy.zeros((each + 2, array.shape[1], page_size, array.shape[3]), numpy.float32)
        for page, name in enumerate(table):
            part = array[0, :, page * page_size : (page + 1) * page_size]
            pool[name, :, : part.shape[1]] = part
        pools.append(pool)
    used = numpy.array([queries], numpy.int32)
    rows = attend(inputs.problem, inputs.q, *pools, seqused_k=used, page_table=table[None])
    return count_different(rows, inputs.whole)


def check_sequences(inputs):
    """Behind another sequence; these have no parts of keys."""
    if inputs.problem.split_keys:
        return 0
    others = Inputs(dataclasses.replace(inputs.problem, queries=37), seed=4)
    q, k, v = (
        numpy.concatenate([getattr(others, name), getattr(inputs, name)], axis=2) for name in "qkv"
    )
    ends = numpy.array([0, 37, 37 + inputs.problem.queries], numpy.int32)
    rows = attend(inputs.problem, q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends)
    return count_different(rows[:, :, 37:], inputs.whole)


def check_loud_keys(inputs):
    """Keys that a mask hides, with rows of V as large as their type has.

    What tensor cores round a sum to must not depend on products that are 0.
    """
    if not inputs.hides_later_keys:
        return 0
    problem, end = inputs.problem, 150
    v = inputs.v * numpy.float32(1e-3)
    v[:, :, end:] = numpy.copysign(numpy.float32(6e4), v[:, :, end:])
    whole = attend(problem, inputs.q, inputs.k, v)[:, :, :end]
    first = (array[:, :, :end] for array in (inputs.q, inputs.k, v))
    return count_different(attend(problem, *first), whole)


CHECKS = {
    "static": check_static,
    "chunks of 1": lambda inputs: check_chunks(inputs, 1),
    "of 17": lambda inputs: check_chunks(inputs, 17),
    "of 256": lambda inputs: check_chunks(inputs, 256),
    "places": check_places,
    "equal rows": check_equal_rows,
    "batch": check_batch,
    "heads": check_heads,
    "used": check_used,
    "loud keys": check_loud_keys,
    "pages": check_pages,
    "sequences": check_sequences,
}


def count_all(problem):
    """{check: rows that differ}."""
    inputs = Inputs(problem)
    return {name: check(inputs) for name, check in CHECKS.items()}


def list_problems(device, split_keys, is_invariant=True, product="warp"):
    """Both types, two head dims, three masks."""
    queries, heads = (4096, 8) if device == "cuda" else (300, 4)
    axes = ("float16", "bfloat16"), (64, 128), ("dense", "causal", "window")
    return [
        Problem(*which, queries, heads, 2, 64, split_keys, device, is_invariant, product)
        for which in itertools.product(*axes)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["emulator", "cuda"], default="emulator")
    parser.add_argument("--split-keys", type=int, default=0)
    parser.add_argument("--product", choices=["warp", "warpgroup"], default="warp")
    parser.add_argument("--free", action="store_true")
    arguments = parser.parse_args()
    print("rows that differ".ljust(45), *CHECKS, sep="  ")
    total = 0
    for problem in list_problems(
        arguments.device, arguments.split_keys, not arguments.free, arguments.product
    ):
        counts = count_all(problem)
        cells = (str(count).rjust(len(name)) for name, count in counts.items())
        print(str(problem).ljust(45), *cells, sep="  ", flush=True)
        total += sum(counts.values())
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
