#!/usr/bin/env python3
"""What docs/Python.md says of times on the host, from a file that
python/tests/gpu/host_time.py writes.

usage: host-times.py [--update] docs/figures/host.json docs/Python.md
"""
import datetime
import sys

import marked_blocks


def milliseconds(seconds):
    return f"{1000 * seconds:.0f}"


def describe(times):
    run, calls = times["run"], times["host time per asynchronous call"]
    day = datetime.date.fromisoformat(run["date"])
    imported = 1000 * times["import flashcore beyond torch"]["import"]
    kinds = "nothing cached", "disk cache"
    first = {}
    for name, seconds in times["first call"].items():
        problem, route, kind = name.rsplit(", ", 2)
        first.setdefault(problem, {})[route, kind] = milliseconds(seconds)
    rows = "".join(
        f"| {problem} | {' | '.join(' / '.join(cells[route, kind] for route in ('ptxas', 'driver')) for kind in kinds)} |\n"
        for problem, cells in first.items())
    host = "".join(f"| `{name}` | {1e6 * seconds:.1f} | {seconds / calls['torch.add']:.2f} |\n"
                   for name, seconds in calls.items())
    return {"host-times":
            f"{day.day} {day:%B %Y}, {run['card']}, PyTorch {run['torch']}. `import flashcore` takes {imported:.0f} ms beyond PyTorch's.\n\n"
            "| ms of a process's first call, by ptxas / by the driver | nothing cached | disk cache |\n|---|---:|---:|\n"
            f"{rows}\n| host time of an asynchronous call, output allocated | us | of torch.add |\n|---|---:|---:|\n{host}"}


if __name__ == "__main__":
    sys.exit(marked_blocks.main(__doc__, describe))
