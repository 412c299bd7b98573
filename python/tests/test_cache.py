"""The cache on disk: names, corruption, races, limits, folders of kernels."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

import flashcore
from formula import assert_close, attention, draw_qkv
from fresh import forget
from flashcore import _core, cache, codegen, merge_kernel, resolve

#: What a kernel for few small blocks is told.
SMALL = (("expected-grid", "quarter"),)


@pytest.fixture
def one_kernel(cache_dir):
    """A cache with one kernel; returns its folder."""
    check()
    (entry,) = cache.entries()
    return entry.path


def check(**options):
    q, k, v = draw_qkv(queries=20)
    assert_close(flashcore.attention(q, k, v, **options), attention(q, k, v)[0])


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_fault_names_a_file(cache_dir, monkeypatch, is_kept):
    """Of the call that compiled the kernel, and of later ones."""
    if not is_kept:
        monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    q, pages = numpy.zeros((1, 4, 40, 64), "float16"), numpy.zeros((12, 2, 16, 64), "float16")
    table, used = numpy.array([[3, 99]], "int32"), numpy.array([20], "int32")
    for _ in range(2):
        with pytest.raises(flashcore.KernelFault) as fault:
            flashcore.attention(q, pages, pages, page_table=table, seqused_k=used)
        name, line = re.search(r"(/\S+\.ptx):(\d+)", str(fault.value)).groups()
        assert int(line) <= len(Path(name).read_text().splitlines())
        assert Path(name).is_relative_to(cache_dir) == is_kept


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "/somewhere")
    assert cache.path() == Path("/somewhere/bundles")
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    assert cache.path() is None and cache.entries() == []
    monkeypatch.delenv("FLASHCORE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.path() == Path("/xdg/flashcore/bundles")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache.path() == Path("/home/me/.cache/flashcore/bundles")
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")  # as the specification has it
    assert cache.path() == Path("/home/me/.cache/flashcore/bundles")


@pytest.mark.parametrize("home", [".", "", None])
def test_a_home_that_is_no_place(monkeypatch, tmp_path, home):
    """It is the same folder wherever a process works."""
    import pwd

    for name in ("FLASHCORE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)
    user = pwd.getpwuid(os.geteuid()).pw_dir
    assert cache.path() == Path(user, ".cache/flashcore/bundles")

    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(flashcore.Error, match="expects HOME to be an absolute path, but got"):
        cache.path()
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "kernels")
    assert cache.path() == tmp_path / "kernels" / "bundles"


def test_an_entry_says_what_it_is(one_kernel):
    (entry,) = cache.entries()
    assert entry.words == "b? h?/? s?x? d64/64 f16 strided"
    assert entry.chip == "sm_90" and entry.schedule == SMALL and entry.bytes > 1000
    assert time.time() - entry.last_used < 60
    assert one_kernel.stat().st_mode & 0o777 == 0o700


def test_a_kernel_is_found_again(one_kernel, monkeypatch, compiled):
    os.utime(one_kernel / "entry.json", (1, 1))
    for file in (one_kernel / "kernel.fcb").iterdir():
        os.utime(file, (1, 1))
    forget(monkeypatch)
    check()
    assert compiled() == 0
    (entry,) = cache.entries()
    assert time.time() - entry.last_used < 60  # it was touched


def test_other_problems_have_other_entries(one_kernel, compiled):
    check(schedule={"block_n": 32})
    check(static=True)
    assert compiled() == 2 and len(cache.entries()) == 3


def test_another_compiler_has_other_entries(one_kernel, monkeypatch, compiled):
    forget(monkeypatch)
    monkeypatch.setattr(cache, "_compiler", ["another"])
    check()
    assert compiled() == 1 and len(cache.entries()) == 2


def damage(change):
    """Changes each file of an entry in turn."""
    return [
        (change, file)
        for file in ("entry.json", "kernel.fcb/manifest.json", "kernel.fcb/kernels.ptx")
    ]


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    """The last digit, so that what was JSON stays JSON."""
    data = bytearray(path.read_bytes())
    place = max(i for i in range(len(data)) if data[i : i + 1].isdigit())
    data[place] = ord("1") + (data[place] == ord("1"))
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def delete(path):
    path.unlink()


def become_a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "change, file",
    [
        case
        for change in (truncate, flip, empty, delete, become_a_folder)
        for case in damage(change)
    ],
)
def test_a_damaged_entry_is_made_anew(one_kernel, monkeypatch, compiled, change, file):
    change(one_kernel / file)
    forget(monkeypatch)
    check()
    assert compiled() == 1
    forget(monkeypatch)
    check()
    assert compiled() == 1 and len(cache.entries()) == 1


def test_every_byte_of_the_manifest_counts(one_kernel):
    """A manifest that says something else is not believed."""
    kernel = codegen.Kernel("b? h?/? s?x? d64/64 f16 strided", "sm_90", SMALL)
    manifest = one_kernel / "kernel.fcb" / "manifest.json"
    good = manifest.read_bytes()
    assert cache._load(one_kernel, kernel) is not None
    for place in range(0, len(good), 97):
        manifest.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert cache._load(one_kernel, kernel) is None
    manifest.write_bytes(good)
    assert cache._load(one_kernel, kernel) is not None


def test_an_entry_of_another_problem_is_not_taken(one_kernel, monkeypatch, compiled):
    check(schedule={"block_n": 32})
    other = next(e.path for e in cache.entries() if e.path != one_kernel)
    shutil.rmtree(one_kernel)
    other.rename(one_kernel)
    forget(monkeypatch)
    check()
    assert compiled() == 2


def test_a_file_in_place_of_an_entry(one_kernel, monkeypatch, compiled):
    shutil.rmtree(one_kernel)
    one_kernel.write_text("not a folder")
    forget(monkeypatch)
    check()
    assert compiled() == 1 and one_kernel.is_dir()


def test_what_others_may_write_is_not_used(one_kernel, monkeypatch, compiled):
    one_kernel.chmod(0o777)
    forget(monkeypatch)
    check()
    assert compiled() == 1
    assert one_kernel.stat().st_mode & 0o777 == 0o700  # it was replaced
    cache.path().chmod(0o777)
    forget(monkeypatch)
    check()
    assert compiled() == 2
    cache.path().chmod(0o1777)  # sticky, as /tmp
    forget(monkeypatch)
    check()
    assert compiled() == 2


ENTRY_FILES = ["entry.json", "kernel.fcb", "kernel.fcb/manifest.json", "kernel.fcb/kernels.ptx"]


@pytest.mark.parametrize("file", ENTRY_FILES)
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_file_that_others_may_write_is_not_used(one_kernel, monkeypatch, compiled, file, mode):
    place = one_kernel / file
    place.chmod(place.stat().st_mode | mode)
    forget(monkeypatch)
    check()
    assert compiled() == 1 and not place.stat().st_mode & 0o022  # it was replaced


@pytest.mark.parametrize("file", ENTRY_FILES)
def test_a_file_of_another_owner_is_not_used(one_kernel, monkeypatch, compiled, file):
    if os.geteuid():
        pytest.skip("needs root")
    os.chown(one_kernel / file, 12345, 12345)
    forget(monkeypatch)
    check()
    assert compiled() == 1 and (one_kernel / file).stat().st_uid == 0


@pytest.mark.parametrize("file", ["", *ENTRY_FILES])
def test_a_link_is_not_followed(one_kernel, monkeypatch, compiled, tmp_path, file):
    """Others may have what it leads to, now or later."""
    place, elsewhere = one_kernel / file if file else one_kernel, tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    forget(monkeypatch)
    check()
    assert compiled() == 1 and not place.is_symlink() and elsewhere.exists()


def test_an_entry_is_for_its_user_alone_whatever_the_umask(cache_dir, monkeypatch, compiled):
    before = os.umask(0)
    try:
        check()
        forget(monkeypatch)
        check()
    finally:
        os.umask(before)
    assert compiled() == 1
    (entry,) = cache.entries()
    for path in (entry.path, *entry.path.rglob("*")):
        assert not path.stat().st_mode & 0o022


def test_an_entry_of_another_owner_is_not_used(one_kernel, monkeypatch, compiled):
    if os.geteuid():
        pytest.skip("needs root")
    os.chown(one_kernel, 12345, 12345)
    forget(monkeypatch)
    check()
    assert compiled() == 1
    assert one_kernel.stat().st_uid == 0


def test_without_a_cache(cache_dir, monkeypatch, compiled):
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    check()
    forget(monkeypatch)
    check()
    assert compiled() == 2 and not cache_dir.exists()


def test_a_folder_that_cannot_be_made(cache_dir, monkeypatch, compiled, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check()
    assert compiled() == 1


def test_clear(one_kernel):
    assert cache.clear() == 1
    assert cache.entries() == [] and not one_kernel.exists()
    assert cache.clear() == 0


def test_it_is_bounded(cache_dir, monkeypatch):
    check()
    size = cache.entries()[0].bytes
    monkeypatch.setenv("FLASHCORE_CACHE_SIZE", str(3 * size))
    for step in range(1, 7):
        check(
            schedule={"num_stages": 2, "block_n": 16 * (step % 4 + 1), "num_warps": 2 ** (step % 3)}
        )
        assert sum(entry.bytes for entry in cache.entries()) <= 3 * size
    assert cache.entries()


def test_what_was_used_last_stays(cache_dir, monkeypatch):
    for size in (16, 32, 48):
        check(schedule={"block_n": size})
    places = {entry.schedule[0][1]: entry for entry in cache.entries()}
    for age, size in ((30, "16"), (20, "32"), (10, "48")):
        for file in [
            places[size].path / "entry.json",
            *(places[size].path / "kernel.fcb").iterdir(),
        ]:
            os.utime(file, (time.time() - age, time.time() - age))
    cache._touch(places["16"].path)
    assert cache.prune(places["16"].bytes + places["48"].bytes) == 1
    assert {entry.schedule[0][1] for entry in cache.entries()} == {"16", "48"}


@pytest.mark.parametrize(
    "text, limit", [("1000", 1000), ("2K", 2048), ("3m", 3 << 20), ("1G", 1 << 30)]
)
def test_size_limit(monkeypatch, text, limit):
    monkeypatch.setenv("FLASHCORE_CACHE_SIZE", text)
    assert cache.size_limit() == limit


def test_size_limit_that_is_none(monkeypatch):
    monkeypatch.setenv("FLASHCORE_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="expects FLASHCORE_CACHE_SIZE to be a number of bytes"):
        cache.size_limit()


def test_what_a_process_left_is_swept(one_kernel):
    left = cache.path() / ".new-left"
    left.mkdir()
    fresh = cache.path() / ".new-fresh"
    fresh.mkdir()
    os.utime(left, (1, 1))
    cache.prune()
    assert not left.exists() and fresh.exists() and one_kernel.exists()


# Processes ------------------------------------------------------------------

WORKER = """
import sys, time
sys.path.insert(0, {here!r})
import flashcore
from formula import assert_close, attention, draw_qkv
from fresh import forget
from flashcore import kernels
import os
os.environ["FLASHCORE_CACHE_DIR"] = {cache!r}
while time.time() < {begin!r}:
    pass
for block in (16, 32):
    q, k, v = draw_qkv(queries=20)
    o = flashcore.attention(q, k, v, schedule={{"block_n": block}})
    assert_close(o, attention(q, k, v)[0])
print(kernels.statistics.compiled)
"""


def race(cache_dir, count=8):
    """What each of some processes, started together, compiled."""
    text = WORKER.format(
        here=str(Path(__file__).parent), cache=str(cache_dir), begin=time.time() + 3
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    outputs = [worker.communicate()[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    return [int(output) for output in outputs]


def test_processes_race(cache_dir):
    race(cache_dir)
    assert len(cache.entries()) == 2
    assert not list(cache.path().glob(".new-*"))
    assert race(cache_dir, 2) == [0, 0]


def test_processes_race_for_damaged_entries(cache_dir):
    race(cache_dir, 1)
    for entry in cache.entries():
        truncate(entry.path / "kernel.fcb" / "kernels.ptx")
    race(cache_dir)
    assert len(cache.entries()) == 2
    assert not list(cache.path().glob(".new-*"))
    assert race(cache_dir, 2) == [0, 0]


# Folders of kernels ---------------------------------------------------------


def test_precompiled_kernels_need_no_compiler(cache_dir, monkeypatch, compiled, tmp_path):
    problems = ["b1 h2 s20 d64 causal strided", "b1 h4/2 s1x100 d64"]
    made = cache.precompile(problems, tmp_path / "kernels", chips=["sm_80", "sm_90"])
    assert len(made) == 8 and {entry.chip for entry in made} == {"sm_80", "sm_90"}
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path / "kernels"))
    monkeypatch.setattr(codegen, "_compile", None)  # calling it fails
    before = compiled()
    q, k, v = draw_qkv(queries=33)
    assert_close(flashcore.attention(q, k, v, causal=True), attention(q, k, v, causal=True)[0])
    q, k, v = draw_qkv(heads=4, heads_kv=2, queries=1, keys=70)
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
    assert compiled() == before
    with pytest.raises(TypeError):
        flashcore.attention(q, k, v, softcap=2.0)


def test_a_server_compiles_nothing_for_calls_of_any_size(
    cache_dir, monkeypatch, compiled, tmp_path
):
    every = cache.precompile(["b? h? s? d64"], tmp_path / "all", chips=["sm_90"])
    assert len(every) == len(_core.call_classes("sm_90"))
    one = cache.precompile(["b1 h2 s20 d64"], tmp_path / "one", chips=["sm_90"])
    assert len(one) == 2
    monkeypatch.setattr(codegen, "_compile", None)
    for folder, loads in (("all", 2), ("one", 2)):
        monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path / folder))
        forget(monkeypatch)
        before = codegen.statistics.loaded
        for heads, queries in ((2, 20), (16, 130)):
            q, k, v = draw_qkv(heads=heads, heads_kv=heads, queries=queries)
            assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
        assert codegen.statistics.loaded == before + loads


def test_decoding_of_other_batches_needs_no_compiler(cache_dir, monkeypatch, compiled, tmp_path):
    cache.precompile(["b20 h4/2 s1x8192 d64"], tmp_path, chips=["sm_90"], multiprocessors=20)
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    monkeypatch.setattr(codegen, "_compile", None)
    q, k, v = draw_qkv(batch=2, heads=4, heads_kv=2, queries=1, keys=600)
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])
    with pytest.raises(TypeError):  # what was asked for is compiled, or nothing
        flashcore.attention(q, k, v, schedule={"key_splits": 7})


def test_exported_kernels_serve_calls_of_other_sizes(cache_dir, monkeypatch, compiled, tmp_path):
    check()
    made = flashcore.kernels.export(tmp_path, chips=["sm_90"])
    assert sorted(entry.schedule for entry in made) == [(), SMALL]
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    monkeypatch.setattr(codegen, "_compile", None)
    forget(monkeypatch)
    q, k, v = draw_qkv(heads=16, heads_kv=16, queries=130)
    assert_close(flashcore.attention(q, k, v), attention(q, k, v)[0])


def test_kernels_for_an_older_chip_serve_a_newer_one(cache_dir, monkeypatch, tmp_path, compiled):
    cache.precompile(["b1 h2 s20 d64"], tmp_path / "kernels", chips=["sm_80"])
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path / "kernels"))
    before = compiled()
    check()
    assert compiled() == before


def test_precompiling_twice_compiles_once(cache_dir, compiled, tmp_path):
    for _ in range(2):
        cache.precompile(["b1 h2 s20 d64"], tmp_path, chips=["sm_90"])
    assert compiled() == 2  # of small and of large calls


def test_precompile_of_invariant_calls(cache_dir, monkeypatch, compiled, tmp_path):
    kernels = tmp_path / "kernels"
    cache.precompile(["b1 h2 s20 d64"], kernels, chips=["sm_90"], batch_invariant=True)
    monkeypatch.setenv("FLASHCORE_KERNELS", str(kernels))
    before = compiled()
    flashcore.attention(*draw_qkv(queries=20), batch_invariant=True)
    assert compiled() == before


def test_precompile_static(cache_dir, tmp_path):
    (entry,) = cache.precompile(["b1 h2 s20 d64 bhsd"], tmp_path, chips=["sm_90"], static=True)
    assert entry.words == "b1 h2/2 s20x20 d64/64 f16 bhsd"


def slanted(score, batch, head, q_idx, kv_idx):
    return score - 0.1 * (q_idx - kv_idx)


def causal(batch, head, q_idx, kv_idx):
    return q_idx >= kv_idx


def calls_of_a_server(q, k, v):
    """With a clause, functions, pages and a merge."""
    sinks = numpy.zeros(q.shape[1], "float32")
    outputs = numpy.stack([q, q])
    return [
        flashcore.attention(q, k, v, sinks=sinks),
        flashcore.attention(q, k, v, score_mod=slanted, mask_mod=causal),
        flashcore.attention(q, k, v, mask_mod=flashcore.mask(causal), scores="masked")[0],
        flashcore.merge(outputs, numpy.zeros((2, *q.shape[:3]), "float32"))[0],
    ]


def test_kernels_of_calls_that_were_made(cache_dir, monkeypatch, compiled, tmp_path):
    expected = calls_of_a_server(*draw_qkv(queries=33))
    made = flashcore.kernels.export(tmp_path / "kernels")
    assert len(made) >= 4 and any(entry.words == "merge d64 f16" for entry in made)
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path / "kernels"))
    monkeypatch.setenv("FLASHCORE_CACHE_DIR", "")
    monkeypatch.setattr(flashcore.kernels, "_modules", {})
    monkeypatch.setattr(resolve, "_calls_of_options", {})
    monkeypatch.setattr(merge_kernel, "_calls", _core.make_calls(merge_kernel._make_call))
    monkeypatch.setattr(sys.modules["flashcore.attention"], "_calls", fresh_calls())
    monkeypatch.setattr(codegen, "_compile", None)  # calling it fails
    before = compiled()
    for result, wanted in zip(calls_of_a_server(*draw_qkv(queries=33)), expected):
        assert (result == wanted).all()
    assert compiled() == before


def fresh_calls():
    return sys.modules["flashcore.attention"]._new_calls()


def test_precompile_with_functions(cache_dir, monkeypatch, compiled, tmp_path):
    folder = tmp_path / "kernels"
    problems = ["b1 h2 s20 d64", "merge d64 f16 sink"]
    made = cache.precompile(problems, folder, chips=["sm_90"], mask_mod=causal)
    assert sorted(("mask" in e.words, e.schedule) for e in made) == [
        (False, ()), (True, ()), (True, SMALL)
    ]  # fmt: skip
    monkeypatch.setenv("FLASHCORE_KERNELS", str(folder))
    monkeypatch.setattr(codegen, "_compile", None)
    q, k, v = draw_qkv(queries=20)
    flashcore.attention(q, k, v, mask_mod=causal)
    sinks = numpy.zeros(q.shape[1], "float32")
    flashcore.merge(numpy.stack([q, q]), numpy.zeros((2, *q.shape[:3]), "float32"), sinks=sinks)
    with pytest.raises(ValueError, match="expects a merge such as .* but got 'merge 64'"):
        cache.precompile(["merge 64"], folder)


def test_a_damaged_folder_falls_back(cache_dir, monkeypatch, compiled, tmp_path):
    made = cache.precompile(["b1 h2 s20 d64"], tmp_path, chips=["sm_90"])
    for entry in made:
        truncate(entry.path / "kernel.fcb" / "kernels.ptx")
    monkeypatch.setenv("FLASHCORE_KERNELS", str(tmp_path))
    check()
    assert compiled() == len(made) + 1


def test_records_are_json(one_kernel):
    record = json.loads((one_kernel / "entry.json").read_text())
    assert record["compiler"].startswith("flashcore ") and record["chip"] == "sm_90"


def test_a_first_call_imports_no_reader_of_bundles():
    """Nobody waits for modules that a call does not need."""
    code = (
        "import sys, numpy, flashcore; q = numpy.zeros((1, 1, 16, 16), 'float16'); "
        "flashcore.attention(q, q, q); assert 'flashcore.bundle' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
