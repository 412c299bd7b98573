"""What the command lines of both tools share."""

import argparse


def positive_integer(text):
    return _positive(text, int, "integer")


def positive_number(text):
    return _positive(text, float, "number")


def _positive(text, parse, what):
    try:
        value = parse(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"expects a positive {what}, but got '{text}'"
        )
    return value
