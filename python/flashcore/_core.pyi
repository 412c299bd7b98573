"""The C interface of FlashCore (python/src)."""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

_Path = Union[str, os.PathLike[str]]
_Dim = Tuple[int, int, int]
_Allocation = Optional[Tuple[Any, Optional[Tuple[Any, ...]], Dict[str, Any]]]
_Specs = Sequence[Tuple[str, int, bool, Sequence[int], Sequence[int]]]

class View:
    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    rank: int
    dtype: str
    device: Tuple[int, int]
    read_only: bool

class Array:
    pointer: int
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class Compilation:
    warnings: str
    report: str
    explanation: str
    names: Tuple[str, ...]
    chips: Tuple[str, ...]
    def ptx(self, attention: int, chip: int, /) -> str: ...
    def phase(self, chip: int, phase: int, /) -> str: ...
    def write_bundle(self, attention: int, path: _Path, /) -> None: ...

class Bundle:
    manifest: str
    def compute_reference(
        self, specs: _Specs, pointers: Sequence[int], threads: int, /
    ) -> None: ...
    def check_outputs(
        self, specs: _Specs, pointers: Sequence[int], threads: int, /
    ) -> Tuple[Dict[str, Any], ...]: ...

class Device:
    kind: str
    name: str
    chip: str
    multiprocessors: int
    shared_memory_per_block: int
    def runs(self, bundle: Bundle, /) -> bool: ...
    def load(self, bundle: Bundle, /) -> Module: ...
    def load_ptx(self, ptx: str, kernel: str, block: _Dim, shared: int, /) -> Module: ...
    def allocate(self, bytes: int, /) -> int: ...
    def free(self, pointer: int, /) -> None: ...
    def copy_to_device(self, pointer: int, data: bytes, /) -> None: ...
    def copy_to_host(self, pointer: int, bytes: int, /) -> bytes: ...
    def synchronize(self, stream: int, /) -> None: ...

class Module:
    chip: str
    code: str
    warning: str
    device: Device
    kernels: Tuple[Tuple[str, int, int, int], ...]
    def plan(self, specs: _Specs, /) -> Plan: ...
    def launch(
        self, kernel: int, grid: _Dim, arguments: Tuple[int, ...], stream: int, /
    ) -> None: ...

class Plan:
    workspace_bytes: int
    text: str
    def run_on_host(self, pointers: Sequence[int], /) -> None: ...
    def launch(self, pointers: Sequence[int], workspace: int, stream: int, /) -> None: ...

class Launch: ...

class Call:
    size: int
    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        bias: Any,
        out: Any,
        stream: Optional[int],
        beside: Optional[Tuple[Any, ...]] = ...,
        /,
    ) -> Any: ...

class Calls:
    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        bias: Any,
        out: Any,
        stream: Optional[int],
        beside: Optional[Tuple[Any, ...]],
        /,
        *options: Any,
    ) -> Any: ...
    def run_seen(
        self,
        q: Any,
        k: Any,
        v: Any,
        bias: Any,
        out: Any,
        stream: Optional[int],
        beside: Optional[Tuple[Any, ...]],
        /,
        *options: Any,
    ) -> Any: ...
    def see(
        self,
        q: Any,
        k: Any,
        v: Any,
        bias: Any,
        out: Any,
        stream: Optional[int],
        beside: Optional[Tuple[Any, ...]],
        /,
        *options: Any,
    ) -> None: ...

def view(array: Any, stream: Optional[int], name: str = ..., /) -> View: ...
def has_rows(array: Any, name: str, /) -> bool: ...
def overlap(one: View, other: View, /) -> bool: ...
def has_exchange_api(array: Any, /) -> bool: ...
def exchange_empty(
    kind: type, shape: Tuple[int, ...], dtype: str, device: int, index: int, /
) -> Any: ...
def make_array(device: Device, ordinal: int, shape: Tuple[int, ...], dtype: str, /) -> Array: ...
def compile(
    module: bytes,
    name: str,
    chips: Optional[str],
    schedule: Sequence[Tuple[str, str]],
    ptxas: Optional[str],
    keep_phases: bool,
    /,
) -> Compilation: ...
def write_shape(words: str, /) -> str: ...
def describe_shape(words: str, /) -> str: ...
def count_flops(words: str, /) -> float: ...
def find_ptxas(path: str, /) -> str: ...
def version() -> str: ...
def chips() -> Tuple[str, ...]: ...
def operands() -> Tuple[Tuple[str, str, str, str, str, str, str], ...]: ...
def relations() -> Tuple[Tuple[str, str, str, str], ...]: ...
def call_class(
    chip: str, heads: int, queries: int, keys: int, multiprocessors: int, /
) -> str: ...
def call_classes(chip: str, /) -> Tuple[str, ...]: ...
def call_splits(
    chip: str, batch: int, heads_q: int, heads_kv: int, queries: int, keys: int,
    multiprocessors: int, /,
) -> int: ...  # fmt: skip
def known_splits(chip: str, /) -> Tuple[int, ...]: ...
def chips_for(device: str, shared: int, /) -> Tuple[str, ...]: ...
def load_bundle(path: _Path, /) -> Bundle: ...
def open_cuda(ordinal: int, /) -> Device: ...
def open_emulator(options: str, /) -> Device: ...
def make_call(
    resolve: Callable[..., Tuple[Any, int]],
    refuses_gradients: bool,
    names: Tuple[str, ...],
    first: str,
    /,
) -> Call: ...
def make_calls(make: Callable[..., Call], /) -> Calls: ...
def make_launch(
    plan: Plan,
    o: _Allocation,
    lse: _Allocation,
    scores: _Allocation,
    workspace: _Allocation,
    current_stream: Any,
    o_strides: Tuple[int, ...],
    sources: Tuple[int, ...],
    returns_lse: bool,
    /,
) -> Launch: ...
def run_ptx(
    ptx: str,
    kernel: Optional[str],
    grid: _Dim,
    block: _Dim,
    shared: int,
    values: List[Any],
    checks: str,
    threads: int,
    schedule: int,
    asynchronous: int,
    seed: int,
    max_instructions: int,
    shared_base: int,
    /,
) -> Tuple[str, str]: ...
def load_ptx(
    ptx: str, kernel: Optional[str], /
) -> Tuple[str, str, List[Tuple[str, int]], _Dim, int]: ...
def describe_ptx(ptx: str, /) -> str: ...
def ptx_kernels(ptx: str, /) -> Tuple[str, ...]: ...
