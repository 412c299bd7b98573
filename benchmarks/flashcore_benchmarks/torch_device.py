"""The GPU through PyTorch: inputs, references, contenders in CUDA graphs.

Only this module and its peers import torch; bench.py and the tuner see
`TorchDevice` alone, and their tests a stand-in with the same methods.
"""

import contextlib
import math
import statistics
import warnings

import torch

from . import roofline, rotation
from .cli import program
from .errors import ContextLost, UserError, first_line
from .package import BundleError, open_device
from .problems import cold_input_sets, input_sets
from .torch_package import CALLS
from .torch_peers import DTYPES, PEERS, Unsupported

# Scores of a part of the rows that a reference holds at once, in bytes.
_REFERENCE_BYTES = 1 << 30
# A replay is made this long where 400 calls reach it: events and launches cost
# nothing of it, and a card at its power limit settles (shorter ones read up to
# 10 % too fast).
_REPLAY_MS = 40.0


class Inputs:
    """`count` sets of q, k, v for a problem, always the same for a seed, and one
    bias for all of them."""

    def __init__(self, problem, seed, count):
        self.problem, self.count = problem, count
        generator = torch.Generator("cuda").manual_seed(seed)
        b, hq, hkv, sq, sk = problem.shape

        def draw(shape, dtype):
            return torch.randn(
                shape, generator=generator, device="cuda", dtype=DTYPES[dtype]
            )

        def draw_all(heads, rows, dim):
            if problem.layout == "bshd":
                shape = (b, rows, heads, dim)
                return [
                    draw(shape, problem.dtype).transpose(1, 2)
                    for _ in range(self.count)
                ]
            shape = (b, heads, rows, dim)
            return [draw(shape, problem.dtype) for _ in range(self.count)]

        self.q = draw_all(hq, sq, problem.head_dim)
        self.k = draw_all(hkv, sk, problem.head_dim)
        self.v = draw_all(hkv, sk, problem.value_dim)
        self.bias = None
        if problem.bias:
            self.bias = draw(problem.bias_shape(), problem.bias[0])

    def set(self, i):
        i %= self.count
        return self.q[i], self.k[i], self.v[i]


class References:
    """O of input set 0 in f32, and the largest error of the same formula in
    the input precision, which is the yardstick."""

    def __init__(self, inputs):
        self.o = _formula(inputs, torch.float32)
        self.yardstick = self.error(_formula(inputs, inputs.q[0].dtype))

    def error(self, o):
        difference = (o.float() - self.o).abs().max().item()
        return float("inf") if math.isnan(difference) else difference


def _formula(inputs, dtype):
    """softmax(cap(scale Q K^T) + bias) V of input set 0 with every step in
    `dtype`, a part of the rows at a time."""
    problem = inputs.problem
    q, k, v = (x.to(dtype) for x in inputs.set(0))
    group = problem.heads_q // problem.heads_kv
    o = torch.empty((*q.shape[:3], problem.value_dim), dtype=dtype, device="cuda")
    row_bytes = problem.seqlen_k * q.element_size()
    step = max(1, _REFERENCE_BYTES // row_bytes)
    keys = torch.arange(problem.seqlen_k, device="cuda")
    bias = inputs.bias
    if bias is not None:
        bias = bias.expand(*q.shape[:3], problem.seqlen_k)
    for b in range(problem.batch):
        for h in range(problem.heads_q):
            kh, vh = k[b, h // group], v[b, h // group]
            for first in range(0, problem.seqlen_q, step):
                rows = slice(first, min(first + step, problem.seqlen_q))
                scores = (q[b, h, rows] * problem.softmax_scale) @ kh.T
                if problem.softcap:
                    scores = torch.tanh(scores / problem.softcap)
                    scores = scores * problem.softcap
                if bias is not None:
                    scores = scores + bias[b, h, rows].to(dtype)
                if problem.causal or problem.has_window:
                    queries = torch.arange(rows.start, rows.stop, device="cuda")
                    shown = problem.visible(queries[:, None], keys)
                    scores = scores.masked_fill(~shown, float("-inf"))
                    # The softmax of a row without keys is NaN; its O is 0.
                    weights = torch.softmax(scores, -1).masked_fill(~shown, 0)
                else:
                    weights = torch.softmax(scores, -1)
                o[b, h, rows] = weights @ vh
    return o


class Graph:
    """Many calls of one contender, over all input sets, in a CUDA graph."""

    def __init__(self, call, input_count):
        # The graph knows the addresses of what the calls write, and PyTorch
        # gives them to somebody else when nobody holds the tensors any more.
        self._call = call
        # The first calls compile, choose algorithms and allocate.
        for i in range(3):
            call(i)
        torch.cuda.synchronize()
        self._start, self._end = (torch.cuda.Event(True) for _ in range(2))
        per_call = self._timed(lambda: [call(i) for i in range(5)]) / 5
        # Whole rotations over the inputs, so that every set counts the same.
        calls = min(400, max(4, _REPLAY_MS / max(per_call, 1e-3)))
        self.calls = input_count * max(1, round(calls / input_count))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call(0)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            for i in range(self.calls):
                call(i)
        self.measure()

    def _timed(self, work):
        """Milliseconds on the device."""
        self._start.record()
        work()
        self._end.record()
        torch.cuda.synchronize()
        return self._start.elapsed_time(self._end)

    def measure(self):
        """Microseconds of a call, mean over one replay."""
        return self._timed(self._graph.replay) / self.calls * 1e3


def _stream():
    """The current stream's handle; the one that is captured, if any."""
    return torch.cuda.current_stream().cuda_stream


def _place(tensor, sizes, source=None):
    """A tensor of a bundle with the strides that it fixes, dense otherwise. It
    holds `source`, or NaN."""
    shape = tensor.shape(sizes)
    strides, offset = tensor.layout(sizes)
    if source is not None and source.stride() == (*strides,) and offset == 0:
        return source
    span = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    storage = torch.full(
        (span,), float("nan"), dtype=DTYPES[tensor.dtype], device="cuda"
    )
    placed = storage.as_strided(shape, strides, offset)
    if source is not None:
        placed.copy_(source)
    return placed


class FlashCoreCall:
    """A bundle, with every input set of a problem."""

    def __init__(self, device, path, inputs):
        self._module = device.load(path)
        tensors = self._module.bundle.tensors
        sizes = self._module.bundle.sizes(**inputs.problem.dims)
        self._plan = self._module.plan(
            {
                name: (tensor.shape(sizes), tensor.layout(sizes)[0])
                for name, tensor in tensors.items()
            }
        )
        self._workspace = torch.empty(
            self._plan.workspace_bytes, dtype=torch.uint8, device="cuda"
        )
        # What kernels read is held as long as they may run.
        self._sets, self._pointers = [], []
        for i in range(inputs.count):
            sources = dict(zip("qkv", inputs.set(i))) | {"bias": inputs.bias}
            placed = {
                name: _place(tensor, sizes, sources.get(name))
                for name, tensor in tensors.items()
            }
            self._sets.append(placed)
            self._pointers.append([x.data_ptr() for x in placed.values()])

    def __call__(self, i):
        i %= len(self._sets)
        self._plan.launch(
            self._pointers[i], self._workspace.data_ptr(), _stream()
        )
        return self._sets[i]["o"]

    def facts(self):
        """What the driver says of the code that runs."""
        kernels = [
            {
                "name": kernel.name,
                "registers": kernel.registers,
                "local_bytes": kernel.local_bytes,
            }
            for kernel in self._module.kernels
        ]
        # Not whether it was assembled now or before.
        return {"code": self._module.code.split(",")[0], "kernels": kernels}


class TorchDevice:
    """The GPU that PyTorch calls cuda:0. `is_cold`: no call finds its inputs in
    the L2 cache."""

    def __init__(self, is_cold=False):
        if not torch.cuda.is_available():
            raise UserError(
                f"PyTorch finds no NVIDIA GPU here; {program('bench')} compile, "
                "report and plot need none"
            )
        # The f32 reference is f32, not TF32.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.cuda.init()
        self._device, self._error = open_device()
        major, minor = torch.cuda.get_device_capability()
        self.chip = f"sm_{10 * major + minor}"
        self._properties = torch.cuda.get_device_properties(0)
        self._is_cold = is_cold

    @property
    def gpu_id(self):
        """As nvidia-smi takes it: indices differ under CUDA_VISIBLE_DEVICES."""
        uuid = str(getattr(self._properties, "uuid", ""))
        if not uuid:
            return "0"
        return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"

    def card(self):
        return {
            "name": self._properties.name,
            "chip": self.chip,
            "sms": self._properties.multi_processor_count,
            "memory_gib": round(self._properties.total_memory / (1 << 30), 1),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }

    def peaks(self):
        """mma.sync in TFLOP/s and DRAM in GB/s, medians of some replays."""
        blocks, iterations = 12 * self._properties.multi_processor_count, 2048
        out = torch.empty(blocks * 32 * roofline.WARPS, device="cuda")
        kernel = self._device.load_ptx(
            roofline.mma_ptx(), "mma_peak", 32 * roofline.WARPS
        )
        arguments = (out.data_ptr(), iterations)
        mma = Graph(lambda i: kernel.launch(blocks, arguments, _stream()), 1)
        # A copy by a kernel: the memcpy of a graph goes another way, slower.
        source = torch.zeros(1 << 28, device="cuda")
        target = torch.empty_like(source)
        copy = Graph(lambda i: torch.neg(source, out=target), 1)
        read = Graph(lambda i: torch.sum(source), 1)
        times = {
            graph: statistics.median(graph.measure() for _ in range(9))
            for graph in (mma, copy, read)
        }
        size = source.numel() * source.element_size()
        flops = roofline.mma_flops(blocks, iterations)
        rate = max(2 * size / times[copy], size / times[read])
        return {
            "mma_tflops": round(flops / times[mma] * 1e-6, 1),
            "dram_gbs": round(rate * 1e-3, 1),
            "source": "measured: mma.sync m16n8k16 (f16, f32 accumulators) from "
            "registers; the faster of a copy and a sum of 1 GiB",
        }

    def _count_inputs(self, problem):
        if not self._is_cold:
            return input_sets(problem)
        return cold_input_sets(problem, self._properties.L2_cache_size)

    @contextlib.contextmanager
    def prepare(
        self, problem, bundles, peers, seed, announce=rotation.ignore
    ):
        """Contenders of a problem, ready to be timed: `bundles` by name and
        `peers` of PEERS or CALLS. Yields (ready, refused): `ready` has for each name a
        function that measures, and its facts; `refused` the reasons of the
        others. `announce` hears a name before its work begins."""
        inputs = Inputs(problem, seed, self._count_inputs(problem))
        references = References(inputs)
        makers = {
            name: lambda inputs, path=path: FlashCoreCall(
                self._device, path, inputs
            )
            for name, path in bundles.items()
        }
        makers |= {name: (PEERS | CALLS)[name] for name in peers}
        ready, refused = {}, {}
        for name, make in makers.items():
            announce(name)
            try:
                ready[name] = self._ready(make, inputs, references)
            except ContextLost:
                raise
            except (Unsupported, UserError, BundleError) as error:
                refused[name] = str(error)
        try:
            yield ready, refused
        finally:
            ready.clear()
            del inputs, references
            torch.cuda.empty_cache()

    def _ready(self, make, inputs, references):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                call = make(inputs)
                o = call(0)
                torch.cuda.synchronize()
                error = references.error(o)
                graph = Graph(call, inputs.count)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                raise Unsupported("out of GPU memory")
            except (Unsupported, UserError, BundleError):
                raise
            except self._error as failure:
                self._check_context(failure)
                # All lines: the assembler's log says what it did not like.
                raise Unsupported(str(failure))
            except Exception as failure:
                # Of PyTorch, Triton or a package: each has classes of its own.
                self._check_context(failure)
                raise Unsupported(_reason(failure, caught))
        facts = {
            "error": {
                "max": error,
                "yardstick": references.yardstick,
                "ratio": error / references.yardstick,
            },
            "calls_per_replay": graph.calls,
        }
        if hasattr(call, "facts"):
            facts |= call.facts()
        return graph.measure, facts

    @staticmethod
    def _check_context(failure):
        """A kernel that failed on the device takes the context with it."""
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            raise ContextLost(
                f"the GPU's context is lost: {first_line(failure)}"
            )


def _reason(failure, caught):
    """PyTorch says in warnings why it refused a backend. A line that ends in
    `because` announces the next, and the other backends are disabled by us."""
    lines = [str(w.message).split("(Triggered internally")[0] for w in caught]
    lines = [line.strip() for line in lines]
    ends = ("because:", "runtime disabled.")
    lines = [line for line in lines if not line.endswith(ends)]
    text = first_line(failure)
    if not isinstance(failure, RuntimeError):
        text = f"{type(failure).__name__}: {text}"
    return "; ".join(dict.fromkeys([text, *lines]))[:300]
