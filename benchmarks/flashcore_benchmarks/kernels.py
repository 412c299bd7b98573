"""The bundles that a run needs, compiled here or elsewhere."""

import concurrent.futures
import os
import pathlib

from . import given
from .errors import UserError
from .problems import FEATURES
from .toolchain import Refused, attention


def compile_all(toolchain, jobs, chip, progress):
    """Compiles `jobs`, (MLIR, options) by path, in parallel. Returns by path
    what the compiler refuses, in the order of the jobs. Options may name a chip
    of their own."""
    refused = {}

    def compile_one(item):
        path, (text, options) = item
        arguments = list(options)
        if not any(option.startswith("--chip") for option in options):
            arguments.append(f"--chip={chip}")
        # PTX is assembled by the driver of each card that it is for. Code that
        # is for one chip alone (sm_90a) is assembled here.
        if not any(
            option.startswith("--chip=") and option.endswith("a")
            for option in arguments
        ):
            arguments.append("--no-cubin")
        try:
            toolchain.compile(text, path, arguments)
        except Refused as error:
            refused[path] = str(error)
        return path

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in pool.map(compile_one, jobs.items()):
            progress.step(f"compiled {path.stem}")
    return {path: refused[path] for path in jobs if path in refused}


class Kernels:
    """The bundles of each problem, by contender; of `is_dynamic` kernels the
    problems of a head_dim and mask share one."""

    def __init__(self, toolchain, folder, chip, variants, has_dynamic):
        self._toolchain, self._folder = toolchain, pathlib.Path(folder)
        self._chip, self._variants = chip, variants
        self._has_dynamic = has_dynamic

    def _jobs(self, problem):
        """(contender, file name, MLIR, options)."""
        text = problem.text(attention)
        yield "flashcore", problem.name, text, []
        for name, options in self._variants.items():
            yield name, f"{problem.name}-{name.split(':')[1]}", text, options
        if self._has_dynamic:
            mask = "causal" if problem.causal else "dense"
            file = f"dynamic-d{problem.head_dim}-{mask}"
            if problem.group in (given.GROUP, FEATURES):
                file = f"dynamic-{problem.name}"
            yield "flashcore-dynamic", file, problem.text(attention, True), []

    def paths(self, problem):
        return {
            contender: self._folder / f"{file}-{problem.dtype}.fcb"
            for contender, file, _, _ in self._jobs(problem)
        }

    def compile(self, selected, progress):
        """Compiles what the problems need, once each and in parallel. What
        the compiler refuses is a file with its error. Returns those by
        path."""
        self._folder.mkdir(parents=True, exist_ok=True)
        jobs = {}
        for problem in selected:
            paths = self.paths(problem)
            for contender, _, text, options in self._jobs(problem):
                jobs[paths[contender]] = text, options
        refused = compile_all(self._toolchain, jobs, self._chip, progress)
        for path in jobs:
            _refusal_of(path).unlink(missing_ok=True)
        for path, reason in refused.items():
            _refusal_of(path).write_text(reason)
        return refused

    def count(self, selected):
        return len({path for p in selected for path in self.paths(p).values()})

    def of(self, problem):
        """({contender: path}, {contender: why there is none})."""
        found, refused = {}, {}
        for contender, path in self.paths(problem).items():
            if _refusal_of(path).exists():
                refused[contender] = _refusal_of(path).read_text()
            elif path.exists():
                found[contender] = path
            else:
                raise UserError(
                    f"no bundle '{path}': make it with flashcore-bench compile, "
                    "with the same --problems, --variant and --dynamic"
                )
        return found, refused


def _refusal_of(path):
    return path.with_suffix(".refused")
