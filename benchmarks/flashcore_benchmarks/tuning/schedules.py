"""Schedules: the fields of #fcgpu.schedule and how to draw some.

The compiler lists them; here are the values to try of those that are numbers.
What is legal is not decided here: the compiler refuses what cannot work, and
says why.
"""

import dataclasses
import re

from ..errors import UserError


def option(name):
    """The option of flashcore-compile for a field."""
    return "--" + name.replace("_", "-")


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
    def option(self):
        """Of flashcore-compile."""
        return option(self.name)

    def neighbours(self, value):
        """The next smaller and larger number, or all other words."""
        if isinstance(self.values[0], str):
            return [other for other in self.values if other != value]
        smaller = [other for other in self.values if other < value]
        larger = [other for other in self.values if other > value]
        return smaller[-1:] + larger[:1]


# The values to try of fields that are numbers.
NUMBERS = {
    "block_m": (16, 32, 48, 64, 96, 128, 192, 256),
    "block_n": (16, 32, 48, 64, 80, 96, 128),
    "num_warps": (1, 2, 3, 4, 6, 8, 12, 16),
    "num_stages": (2, 3, 4, 5),
    "min_blocks": (1, 2, 3, 4),
    "query_steps": (0, 1, 2, 3, 4, 6, 8, 10, 12, 14),
    "grid_heads": (0, 4, 8, 16, 32, 64, 128, 1 << 20),
    "head_group": (1, 2, 4, 8),
    "key_splits": (1, 2, 4, 8, 16, 32, 64, 128),
    "key_warps": (1, 2, 4, 8),
    "split_keys": (0, 256, 512, 1024, 2048, 4096),
    "expected_queries": (0, 1, 4, 16, 32),
}
# Words that no search takes, and fields that none changes.
OTHERS = {"softmax": ("unfused",)}
FIXED = (
    "invariance",
    "split_keys",
    "split_count",
    "expected_queries",
    "expected_grid",
    "copies",
    "exchange",
)


# Fields that divide the work otherwise, so that others must change with them.
DIVIDING = ("head_group", "key_splits", "key_warps")


def known_fields(toolchain):
    """The fields that the compiler at hand lists, in its order."""
    text = toolchain.run("compile", ["--list-schedule-fields"]).stdout
    fields = []
    for line in text.splitlines():
        name, _, values, *_ = line.split()
        others = OTHERS.get(name, ())
        if values == "number":
            if name not in NUMBERS:
                raise UserError(
                    f"expects values of {name}, which flashcore-compile "
                    f"lists, in NUMBERS of {__name__}, but has none"
                )
            tried = NUMBERS[name]
        else:
            tried = tuple(w for w in values.split("|") if w not in others)
        fields.append(Field(name, tried, name in FIXED, others))
    return fields


def options(schedule):
    """Of flashcore-compile, which forces every field."""
    return [f"{option(name)}={value}" for name, value in schedule.items()]


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
