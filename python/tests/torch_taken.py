"""The calls that FlashCore computes, of what PyTorch's interfaces are given."""

import flashcore
from flashcore.torch import dropin, registry


def count_taken(monkeypatch):
    """A list that gets the options of each call that goes to ``flashcore.attention``."""
    taken = []

    def count(*arguments, **options):
        taken.append(options)
        return attention(*arguments, **options)

    attention = flashcore.attention
    monkeypatch.setattr(dropin, "_passed", {})
    for module in (dropin, registry):
        monkeypatch.setattr(module, "attention", count)
    return taken
