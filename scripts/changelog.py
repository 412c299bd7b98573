#!/usr/bin/env python3
"""The sections of CHANGELOG.md.

  changelog.py release VERSION [--date DAY]   the section Unreleased becomes that of the version
  changelog.py notes VERSION                  prints the section, as notes of a release have it

Links into the tree become plain text in notes, which are read elsewhere.
"""
import argparse
import datetime
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md"
UNRELEASED = "Unreleased"
VERSION = re.compile(r"\d+\.\d+\.\d+")


class Failure(Exception):
    """Printed alone."""


def sections(text):
    """{heading: body}, newest first, and what stands before them."""
    head, *rest = re.split(r"^## (.+)\n", text, flags=re.M)
    return dict(zip(rest[::2], rest[1::2])), head


def release(text, version, day):
    """The text with the section of a version in the place of Unreleased."""
    found, _ = sections(text)
    if any(heading.split(",")[0] == version for heading in found):
        raise Failure(f"expects no section {version} before its release, but got one")
    if not found.get(UNRELEASED, "").strip():
        raise Failure(f"expects a section '{UNRELEASED}' that says what is new, but got none")
    return text.replace(f"## {UNRELEASED}\n", f"## {version}, {day}\n", 1)


def notes(text, version):
    """The section of a version, with its heading one level up."""
    found, _ = sections(text)
    for heading, body in found.items():
        if heading.split(",")[0] == version:
            body = re.sub(r"^###", "##", body.strip(), flags=re.M)
            body = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)\s]*\)", r"\1", body)
            return f"# FlashCore {heading}\n\n{body}\n"
    raise Failure(f"expects a section of {version}, but got {', '.join(found) or 'none'}")


def version_of(text):
    if not VERSION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expects MAJOR.MINOR.PATCH, but got '{text}'")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("release", "notes"))
    parser.add_argument("version", type=version_of)
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today(), help="of the release (default: today)")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, help="the page (default: CHANGELOG.md)")
    options = parser.parse_args()
    try:
        text = options.page.read_text()
        if options.command == "release":
            options.page.write_text(release(text, options.version, options.date))
        else:
            print(notes(text, options.version), end="")
    except (Failure, OSError) as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
