"""Runs on inputs far from normal ones, for every schedule: lists of scripts/kernel_grids.py.

Finite masks, infinities, sinks, and large scores whose maxima rise and fall from tile to tile and from part to part, for each form of the
softmax, of the loop and of the grid, and for each generation of chips.
"""
import dataclasses
import itertools

import compiler_lists
from flashcore_benchmarks.mlir import attention, may_have_lse

_TILES = ("block-m", "block-n", "num-warps", "key-warps", "num-stages")
_WARPGROUP = ("--chip=sm_90a", "--product=warpgroup")
# Schedules that have a name and take bf16 on sm_89; the others multiply by wmma.
_BF16 = ("scalar", "mma", "default", "wgmma")
# Name of a problem: the type of its bias, where "own" is that of q, the axes, and kinds of inputs. Without a bias scores are products alone.
PROBLEMS = {
    "plain": (None, None, ("large",)), "f32": ("f32", "11qk", ("large", "masked")),
    "own": ("own", "1hqk", ("masked", "infinite")), "padded": ("f32", "b11k", ("masked", "large")),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Form:
    """Options of flashcore-compile, and what they take."""

    options: tuple
    head_dims: tuple = (64, 128)
    dtypes: tuple = ("f16", "bf16")
    problems: tuple = tuple(PROBLEMS)
    heads_kv: tuple = (1, 2)  # that two heads of queries read, in turn


def _tiles(*sizes):
    return tuple(f"--{name}={value}" for name, value in zip(_TILES, sizes))


FORMS = {
    "exact": Form(("--row-max=exact", "--row-sum=add")), "exact-mma": Form(("--row-max=exact", "--row-sum=mma", "--overlap=none")),
    "stale": Form(("--row-max=stale", "--row-sum=mma", "--overlap=qk")), "stale-add": Form(("--row-max=stale", "--row-sum=add", "--overlap=none")),
    "folded": Form(("--row-max=folded", "--row-sum=mma"), problems=("plain",)),
    "one-pass": Form((*_tiles(32, 16, 4, 4, 2), "--softmax=one_pass")),
    "one-pass-mma": Form((*_tiles(16, 32, 4, 4, 2), "--softmax=one_pass", "--row-sum=mma"), head_dims=(64,)),
    "unfused-wmma": Form(("--softmax=unfused", "--chip=sm_89")), "unfused-mma": Form(("--softmax=unfused", "--chip=sm_80", "--product=warp")),
    "splits": Form(("--key-splits=3",)), "splits-exact": Form(("--key-splits=3", "--row-max=exact")),
    "splits-stale": Form(("--key-splits=3", "--row-max=stale")), "invariant": Form(("--invariance=batch",)),
    "invariant-splits": Form(("--invariance=batch", "--split-keys=128")), "key-warps": Form(_tiles(32, 32, 4, 4, 2), head_dims=(64,)),
    "key-warps-stale": Form((*_tiles(64, 16, 4, 2, 2), "--row-max=stale")), "key-warps-exact": Form((*_tiles(16, 16, 4, 4, 3), "--row-max=exact"), head_dims=(64,)),
    "small-tiles": Form(("--block-m=16", "--block-n=16", "--num-warps=1")), "head-group": Form(("--head-group=2",), heads_kv=(1, 1)),
    "persistent": Form(("--grid=persistent",)), "thread": Form(("--product=thread",)), "sm_80": Form(("--chip=sm_80",)),
    "sm_75": Form(("--chip=sm_75",)), "sm_70": Form(("--chip=sm_70",)), "sm_70-splits": Form(("--chip=sm_70", "--key-splits=2")),
}  # fmt: skip
# A card that has their instructions gets them in a list of its own.
WARPGROUP_FORMS = {
    "warpgroup": Form(_WARPGROUP), "warpgroup-none": Form((*_WARPGROUP, "--overlap=none")),
    "warpgroup-checked": Form((*_WARPGROUP, "--overlap=none", "--row-max=checked")),
    "warpgroup-stale": Form((*_WARPGROUP, "--overlap=none", "--row-max=stale")),
    "warpgroup-exact": Form((*_WARPGROUP, "--overlap=none", "--row-max=exact")), "warpgroup-splits": Form((*_WARPGROUP, "--key-splits=2")),
    "warpgroup-persistent": Form((*_WARPGROUP, "--grid=persistent")), "sm_90a": Form(("--chip=sm_90a",)),
}  # fmt: skip


def named_forms(compiler):
    """The schedules that have a name, on a chip that has them."""
    forms = {}
    for name, chip in compiler_lists.list_schedules(compiler):
        options = (f"--schedule={name}", f"--chip={'sm_89' if chip == 'any' else chip}")
        forms[f"step-{name.lstrip('+')}"] = Form(options, dtypes=("f16", "bf16") if name in _BF16 else ("f16",))
    return forms


def _runs(bundles, name, options, dtype, head_dim, causal, problem, shape):
    bias, axes, kinds = PROBLEMS[problem]
    bias = bias and (dtype if bias == "own" else bias, axes)
    words = attention(dtype, head_dim, causal, shape, bias=bias, lse=may_have_lse(options))
    bundle = bundles.make(f"far-{name}-{problem}-{dtype}-d{head_dim}-{causal}", words, list(options))
    return [{"bundle": bundle, "kind": kind} for kind in kinds]


def _seeded(runs):
    """Of each run a seed of its own: sizes of scores go with it, and one seed gives a form only some of them."""
    return [{**run, "seed": seed} for seed, run in enumerate(runs, 1)]


def form_runs(bundles, forms, is_whole=False):
    """Of each form two problems, of a step one, with types, head dims and masks in turn; or all of them, of more rows and keys."""
    runs = []
    for i, (name, form) in enumerate(forms.items()):
        choices = list(itertools.product(form.dtypes, form.head_dims, ("none", "bottom_right")))
        # With a bias of f32 masks are lowest and scores largest, without one they are not formed; the others take turns.
        some = ("f32", ("plain", "own", "plain", "padded")[i % 4])
        if name.startswith("step-"):
            some = ("f32", "plain")[i % 2 :][:1]
        problems = form.problems if is_whole else [problem for problem in some if problem in form.problems] or form.problems
        for j, problem in enumerate(problems):
            some = choices if is_whole else [choices[(3 * i + 5 * j) % len(choices)]]
            for k, choice in enumerate(some):
                turn = (i + j + k) % 2
                shape = ((1, 70, 300), (2, 33, 512))[turn] if is_whole else (1, 20, 272)
                shape = (shape[0], 2, form.heads_kv[turn if is_whole else 0], *shape[1:])
                runs += _runs(bundles, name, form.options, *choice, problem, shape)
    return runs


def decode_runs(bundles, keys):
    """One query of many keys, in one part and in several."""
    runs = []
    for i, options in enumerate([[], ["--key-splits=4"], ["--key-splits=4", "--row-max=exact"], ["--chip=sm_75"]]):
        for j, problem in enumerate(PROBLEMS):
            runs += _runs(bundles, f"decode-{i}", options, ("f16", "bf16")[(i + j) % 2], (64, 128)[i // 2], "none", problem, (1, 4, 2, 1, keys))
    return runs


def sink_runs(bundles, forms):
    """Sinks beside keys in one part and in several, and distances of ALiBi that overflow."""
    runs = []
    for name, kind in (("sink", "sinks"), ("alibi", "masked")):
        for i, (form, options) in enumerate(forms.items()):
            words = attention(("f16", "bf16")[i % 2], 64, ("none", "bottom_right")[i % 2], (2, 6, 2, 20, 150), lse=True)
            runs.append({"bundle": bundles.make(f"far-{name}-{form}", f"{words} {name}", list(options)), "kind": kind})
    return runs


def weight_runs(bundles, forms):
    """Weights of each key as an output, of rows that one mask fills and of large scores: LSEs that float32 has no digits for."""
    runs = []
    for i, (form, options) in enumerate(forms.items()):
        words = attention(("f16", "bf16")[i % 2], (64, 72)[i // 2 % 2], ("none", "bottom_right")[i % 2], (2, 4, 2, 22, 150), bias=("f32", "b1qk"),
                         lse=True, scores=("probabilities", "f32"))
        bundle = bundles.make(f"far-weights-{form}", words, list(options))
        runs += [{"bundle": bundle, "kind": kind} for kind in ("masked", "large")]
    return runs


def far_runs(bundles, is_whole=False):
    """For cards of any generation that FlashCore compiles for."""
    sinks = {"default": (), "splits": ("--key-splits=3",), "exact": ("--row-max=exact",), "unfused": ("--softmax=unfused",)}
    weights = {**sinks, "thread": ("--product=thread",), "persistent": ("--grid=persistent",), "sm_75": ("--chip=sm_75",), "sm_70": ("--chip=sm_70",)}
    forms = {**named_forms(bundles.compiler), **FORMS}
    forms = {name: form for name, form in forms.items() if "--chip=sm_90a" not in form.options}
    decodes = decode_runs(bundles, 2048 if is_whole else 1024)
    return _seeded(form_runs(bundles, forms, is_whole) + decodes + sink_runs(bundles, sinks) + weight_runs(bundles, weights))


def far_warpgroup_runs(bundles, is_whole=False):
    """The same of products of warpgroups."""
    forms = {**named_forms(bundles.compiler), **WARPGROUP_FORMS}
    forms = {name: form for name, form in forms.items() if "--chip=sm_90a" in form.options}
    warpgroups = {"warpgroup": _WARPGROUP}
    return _seeded(form_runs(bundles, forms, is_whole) + sink_runs(bundles, warpgroups) + weight_runs(bundles, warpgroups))
