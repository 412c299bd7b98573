"""The calls that FlashCore computes, of what PyTorch's interfaces are given."""

import flashcore
from flashcore import _core
from flashcore.torch import dropin, registry


class NothingSeen:
    """In the place of _core.Calls, for tests that look at the checks of each call."""

    def run_seen(self, *arguments):
        return NotImplemented

    def see(self, *arguments):
        pass


def forget(monkeypatch):
    """As if no call of SDPA had been seen."""
    monkeypatch.setattr(dropin, "_seen", _core.make_calls(dropin._make_call))


def count_taken(monkeypatch):
    """A list that gets the options of each call that goes to ``flashcore.attention``."""
    taken = []

    def count(*arguments, **options):
        taken.append(options)
        return attention(*arguments, **options)

    attention = flashcore.attention
    monkeypatch.setattr(dropin, "_seen", NothingSeen())
    for module in (dropin, registry):
        monkeypatch.setattr(module, "attention", count)
    return taken
