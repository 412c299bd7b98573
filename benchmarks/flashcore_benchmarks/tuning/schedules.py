"""Schedules: the fields of #fcgpu.schedule and how to draw some.

FIELDS is the one place that lists them. What is legal is not decided here: the
compiler refuses what cannot work, and says why.
"""

import dataclasses
import re

from ..errors import UserError


@dataclasses.dataclass(frozen=True)
class Field:
    """A field under its name in #fcgpu.schedule and in a tuning file, and the
    values to try: numbers in order, or words. No search changes one that is
    fixed, or takes a word of `others`: a promise about results is no question
    of speed, and what the ladder has of steps back is never faster."""

    name: str
    values: tuple
    is_fixed: bool = False
    others: tuple = ()

    @property
    def words(self):
        """All that the compiler knows."""
        return self.values + self.others

    @property
    def option(self):
        """Of flashcore-compile."""
        return "--" + self.name.replace("_", "-")

    def neighbours(self, value):
        """The next smaller and larger number, or all other words."""
        if isinstance(self.values[0], str):
            return [other for other in self.values if other != value]
        smaller = [other for other in self.values if other < value]
        larger = [other for other in self.values if other > value]
        return smaller[-1:] + larger[:1]


FIELDS = (
    Field("block_m", (16, 32, 48, 64, 96, 128, 192, 256)),
    Field("block_n", (16, 32, 48, 64, 80, 96, 128)),
    Field("num_warps", (1, 2, 3, 4, 6, 8, 12, 16)),
    Field("num_stages", (2, 3, 4, 5)),
    Field("min_blocks", (1, 2, 3, 4)),
    Field("query", ("registers", "shared", "split")),
    Field("query_steps", (0, 1, 2, 3, 4, 6, 8, 10, 12, 14)),
    Field("grid_order", ("query_fastest", "head_fastest")),
    Field("grid_heads", (0, 4, 8, 16, 32, 64, 128, 1 << 20)),
    Field("overlap", ("none", "qk", "pv")),
    Field("row_max", ("exact", "stale", "folded", "checked")),
    Field("row_sum", ("add", "mma")),
    Field("head_group", (1, 2, 4, 8)),
    Field("key_splits", (1, 2, 4, 8, 16, 32, 64, 128)),
    Field("key_warps", (1, 2, 4, 8)),
    Field("softmax", ("online", "one_pass"), others=("unfused",)),
    Field("grid", ("full", "persistent")),
    Field("product", ("warp", "warpgroup", "wmma", "thread")),
    Field("output", ("direct", "bulk")),
    Field("invariance", ("none", "batch"), is_fixed=True),
    Field("split_keys", (0, 256, 512, 1024, 2048, 4096), is_fixed=True),
    Field("split_count", ("fixed", "call"), is_fixed=True),
    Field("expected_queries", (0, 1, 4, 16, 32), is_fixed=True),
    Field("copies", ("async", "registers", "producer"), is_fixed=True),
    Field(
        "exchange",
        ("none", "plain", "padded", "wide", "fragments"),
        is_fixed=True,
    ),
)


# Fields that divide the work otherwise, so that others must change with them.
DIVIDING = ("head_group", "key_splits", "key_warps")


def known_fields(toolchain):
    """The fields that the compiler at hand has an option for."""
    text = toolchain.run("compile", ["--help"]).stdout
    return [f for f in FIELDS if re.search(rf"{f.option}(?![\w-])", text)]


def options(schedule):
    """Of flashcore-compile, which forces every field."""
    by_name = {field.name: field for field in FIELDS}
    return [
        f"{by_name[name].option}={value}" for name, value in schedule.items()
    ]


def key(schedule):
    """A name for a schedule, the same for equal ones."""
    return ",".join(f"{name}={value}" for name, value in schedule.items())


def parse_explanation(text, fields):
    """The schedule in what `flashcore-compile --explain` says."""
    schedule = {}
    for field in fields:
        line = re.search(rf"^  {field.name} +(\S+)", text, re.MULTILINE)
        if not line:
            raise UserError(
                f"flashcore-compile --explain does not say {field.name}:\n{text}"
            )
        is_number = not isinstance(field.values[0], str)
        schedule[field.name] = int(line[1]) if is_number else line[1]
    return schedule


def _settle(schedule):
    """Leaves open what the other fields give no meaning to."""
    if schedule.get("query") != "split" and "query_steps" in schedule:
        schedule["query_steps"] = 0
    takes_turns = schedule.get("grid_order") == "head_fastest"
    if "grid_heads" in schedule and not (
        takes_turns and schedule.get("key_splits", 1) == 1
    ):
        schedule["grid_heads"] = 0
    return schedule


def draw(rng, schedule, fields):
    """A schedule far away: half of the fields drawn anew."""
    return _settle(
        {
            field.name: rng.choice(field.values)
            if rng.random() < 0.5 and not field.is_fixed
            else schedule[field.name]
            for field in fields
        }
    )


def mutate(rng, schedule, fields):
    """A schedule one or two steps away."""
    result = dict(schedule)
    searched = [field for field in fields if not field.is_fixed]
    for field in rng.sample(searched, rng.choice((1, 1, 2))):
        steps = field.neighbours(schedule[field.name])
        if steps:
            result[field.name] = rng.choice(steps)
    return _settle(result)


def propose(rng, parents, fields, count, seen):
    """`count` schedules, the most a step and some further from `parents`, that
    are not among the keys `seen`. Fewer when the space is exhausted."""
    proposals = {}
    for _ in range(50 * count):
        if len(proposals) == count:
            break
        change = draw if rng.random() < 0.25 else mutate
        schedule = change(rng, rng.choice(parents), fields)
        if key(schedule) not in seen:
            proposals.setdefault(key(schedule), schedule)
    return list(proposals.values())
