#!/usr/bin/env python3
"""Says what a feature cost: the source files that were there and that its commits changed.

Tests and documentation do not count, nor do files that the commits made, which are
listed beside. A file that several of them change counts once, and one that was moved
and changed counts by its new name.

  scripts/feature-cost.py 2d1f0aa 86c3e11
"""
import argparse
import pathlib
import subprocess
import sys

TESTS = {"test", "tests", "unittests"}


def git(repo, *arguments):
    process = subprocess.run(["git", "-C", str(repo), *arguments], text=True, capture_output=True)
    if process.returncode:
        sys.exit(f"feature-cost: {process.stderr.strip().splitlines()[0]}")
    return process.stdout


def is_source(path):
    """Whether a path is neither a test's nor documentation's."""
    parts = pathlib.PurePosixPath(path).parts
    return not TESTS & set(parts[:-1]) and parts[0] != "docs" and not path.endswith(".md")


def list_changes(repo, commit):
    """Status and path of what a commit changes against its first parent; a copy is a new file."""
    for line in git(repo, "show", "--first-parent", "-m", "--format=", "--name-status", "-M", commit).splitlines():
        status, *paths = line.split("\t")
        yield status[0], paths[-1]


def count(repo, commits):
    """The existing and the new source files of some commits, oldest first, in order of their paths."""
    ordered = git(repo, "rev-list", "--no-walk=sorted", "--reverse", *commits, "--").split()
    existing, new = set(), set()
    for commit in ordered:
        for status, path in filter(lambda change: is_source(change[1]), list_changes(repo, commit)):
            if status in "AC":
                new.add(path)
            elif path not in new:
                existing.add(path)
    return sorted(existing), sorted(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="the repository, by default this one")
    parser.add_argument("commits", nargs="+", metavar="COMMIT")
    args = parser.parse_args()
    existing, new = count(args.repo, args.commits)
    for title, paths in (("existing", existing), ("new", new)):
        print(f"{title}: {len(paths)}", *(f"  {path}" for path in paths), sep="\n")


if __name__ == "__main__":
    main()
