"""Timing candidates on the GPU. Tests hand the search a stand-in with the same
methods."""

import random

from .. import rotation


class TorchTimer:
    """Candidates in one rotation through PyTorch. `errors_on` is the device
    of flashcore-run that checks errors."""

    errors_on = "cuda"

    def __init__(self):
        from ..torch_device import TorchDevice

        self._device = TorchDevice()

    def card(self):
        return self._device.card()

    @property
    def chip(self):
        return self._device.chip

    def time(self, problem, bundles, rounds, seed):
        """Microseconds a round of each bundle, by name, and why others were
        not timed."""
        rng = random.Random(seed)
        with self._device.prepare(problem, bundles, (), seed=0) as (
            ready,
            refused,
        ):
            measures = {name: measure for name, (measure, _) in ready.items()}
            samples, _ = rotation.rotate(
                measures, rotation.Rounds.exactly(rounds), rng
            )
            for name, (_, facts) in ready.items():
                if facts["error"]["ratio"] > 2:
                    refused[name] = "its results are wrong on this GPU"
        good = {n: times for n, times in samples.items() if n not in refused}
        return good, refused
