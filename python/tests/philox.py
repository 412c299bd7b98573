"""What a dropout keeps, by the formula of docs/Op.md."""

import math

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(counter, key):
    """Philox4x32-10 of arrays of uint64 that hold words, written from the paper."""
    c, k = [np.asarray(word, np.uint64) for word in counter], [int(word) for word in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = c[0] * np.uint64(MULTIPLIERS[0]), c[2] * np.uint64(MULTIPLIERS[1])
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
            second & low,
            (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
            first & low,
        ]
        k = [(word + step) & 0xFFFFFFFF for word, step in zip(k, WEYL)]
    return c


def kept(p, rng, entry, head, seqlen_q, seqlen_k):
    """The formula of docs/Op.md: which elements of P meet v."""
    words = np.asarray(rng, np.int64).view(np.uint32)
    d = philox((words[2], words[3], entry, head), words[:2])
    i, j = np.indices((seqlen_q, seqlen_k)).astype(np.uint64)
    number = j // 32 * 4 + j % 8 // 2
    w = np.stack(philox((i ^ d[0], number ^ d[1], i * 0 + d[2], i * 0 + d[3]), (0, 0)))
    word = np.take_along_axis(w, (j % 32 // 8).astype(np.int64)[None], 0)[0]
    return (word >> (16 * (j % 2))) % 65536 >= math.floor(65536 * np.float32(p) + 0.5)
