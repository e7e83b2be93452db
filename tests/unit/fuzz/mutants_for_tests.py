"""Changes to bytes, drawn from a seed, that a fault or a foe might make."""

from __future__ import annotations

import random
import resource
import struct
import sys

ROOM = 4 << 30  # bytes of address space; what wants more fails at once
GROWTH = 256 << 20  # bytes that a run may take beyond those it began with
ODD = [-1, 0, 1, 7, 8, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1]


def mutant(data: bytes, draw: random.Random, head: int, others: list[bytes]) -> bytes:
    """The data with one to four changes, half of them in the first `head` bytes."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        end = len(changed) if draw.random() < 0.5 else min(head, len(changed))
        at = draw.randrange(end) if end else 0
        match draw.randrange(8):
            case 0:
                if changed:
                    changed[at] ^= 1 << draw.randrange(8)
            case 1:
                if changed:
                    changed[at] = draw.randrange(256)
            case 2 | 3:
                size, code = draw.choice([(1, "B"), (2, "H"), (4, "I"), (8, "Q")])
                at -= at % draw.choice([1, size])
                value = struct.pack(f"<{code}", draw.choice(ODD) % (1 << 8 * size))
                changed[at : at + size] = value[: len(changed) - at]
            case 4:
                del changed[at : at + draw.choice([1, 4, 8, 64, len(changed)])]
            case 5:
                size = draw.choice([1, 4, 8, 64])
                changed[at:at] = changed[at : at + size]
            case 6:
                other = draw.choice(others)
                begin = draw.randrange(len(other) + 1)
                part = other[begin : begin + draw.choice([4, 8, 64, 512])]
                changed[at : at + draw.choice([0, len(part)])] = part
            case _:
                size = draw.choice([4, 8, 16])
                there = draw.randrange(end) if end else 0
                one, two = changed[at : at + size], changed[there : there + size]
                if len(one) == len(two) == size and abs(at - there) >= size:
                    changed[at : at + size], changed[there : there + size] = two, one
    return bytes(changed)


class Memory:
    """Bounds what this process may take, and tells at the end whether it stayed within `GROWTH`."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
        self._begin = self._peak()

    def check(self) -> None:
        grown = self._peak() - self._begin
        if grown > GROWTH:
            sys.exit(f"the process has grown by {grown >> 20} MiB")

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
