"""Parts of what is tested: with a share I/N, the part I of N parts, which are drawn by name.

Neighbours in a grid differ in type, mask or schedule by turns, so parts by number would be all of one type; a part by the digest of a name is a
mixture, and stays the same where others are added.
"""
import argparse
import dataclasses
import hashlib


@dataclasses.dataclass(frozen=True)
class Share:
    part: int
    parts: int

    @staticmethod
    def parse(text):
        """Of "I/N", for argparse."""
        part, _, parts = text.partition("/")
        if part.isdigit() and parts.isdigit() and int(part) < int(parts):
            return Share(int(part), int(parts))
        raise argparse.ArgumentTypeError(f"expects I/N with I below N, such as 0/2, but got '{text}'")

    def has(self, name):
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % self.parts == self.part


WHOLE = Share(0, 1)
