"""Code that looks like a condition and means another: what it forwards, or raises on, matches."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from programs_for_tests import HEADER
from test_filter_fuzz import load, violations

from predicate_extract import extract

NAN = math.nan
TRAPS = {
    "a name bound anew after a lambda took it": """
        limit = 10
        late = lambda x: x > limit
        limit = 0
        return late(s.a)
    """,
    "a name bound anew after a def took it": """
        limit = 10
        def late(x):
            return x > limit
        limit = 0
        return late(s.a)
    """,
    "lambdas made in a loop see its last value": """
        tests = [lambda x: x == v for v in (5, 1)]
        return tests[0](s.a)
    """,
    "a name bound inside a comprehension": """
        seen = 100
        any((seen := v) > 0 for v in (0, 1))
        return s.a == seen
    """,
    "an empty generator is true": """
        found = (v for v in ())
        return bool(found)
    """,
    "a generator is used up": """
        found = (v for v in (1, 2))
        list(found)
        return s.a not in found
    """,
    "zip is used up": """
        pairs = zip((1, 2), (1, 2))
        list(pairs)
        return (s.a, s.a) not in pairs
    """,
    "the values of a dict are no tuple": """
        return {1: 2}.values() != (2,) and s.a == 1
    """,
    "the values of a dict have no index": """
        return {1: 2}.values()[0] == s.a
    """,
    "the keys of a mapping are no mapping": """
        return s.m.keys() != s.m and s.a == 1
    """,
    "only mappings have keys": """
        return 'z' in s.t.keys()
    """,
    "a plain dict has no deep_get": """
        return s.m.deep_get('a', 'b') == 1
    """,
    "sum has its own way with floats": """
        return sum([s.f, 0.2, 0.3, -0.1]) == sum([0.1, 0.2, 0.3, -0.1])
    """,
    "startswith of no prefix raises all the same": """
        return s.a.startswith(())
    """,
    "a prefix may not be a list": """
        return s.t.startswith(['z'])
    """,
    "a position to match from": """
        return PATTERN.match(s.t, pos=1) is not None
    """,
    "what a manager is given is evaluated": """
        with suppress(note(s.a)):
            return False
        return False
    """,
    "NaN is in a tuple by identity": """
        return s.n in (s.n, 3)
    """,
    "sets are sorted only if they can be": """
        return s.a in sorted([1, 'a'])
    """,
    "a pattern without its text": """
        return re.search('a') is None
    """,
    "more parts than a class has": """
        match s.a:
            case int(x, y):
                return True
        return False
    """,
    "a break skips the else": """
        for v in (1, 2):
            if s.a == v:
                break
        else:
            return True
        return False
    """,
    "a return in finally replaces the first": """
        try:
            return False
        finally:
            return s.a == 1
    """,
    "a default is the one of the definition": """
        return near(s.a)
    """,
    "what is computed in place may raise, though nobody looks at it": """
        v = s.a
        v += 1
    """,
}
CONTENTS = [
    SimpleNamespace(a=a, n=NAN, f=0.1, t=t, m={"a": {"b": 1}})
    for a in (0, 1, 2, 5, 10, 100, "z", None, [1])
    for t in ("za", "az")
]


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_sound(trap: str) -> None:
    names = load(f"{HEADER}\ndef rule(s):{TRAPS[trap]}")
    predicate = extract(names["rule"]).predicate
    for content in CONTENTS:
        names["NOTES"].clear()
        try:
            seen = bool(names["rule"](content)) or bool(names["NOTES"])
        except Exception:  # noqa: BLE001 - whatever the rule raises has to arrive
            seen = True
        assert not seen or predicate.evaluate(content) is not False, str(predicate)


STATES = {
    "a look-up of what has no hash raises": """
        old = self.last.get(s.a)
        if s.a == 3 and old is None:
            super().enqueue(event)
    """,
    "a comparison with what the filter keeps may raise": """
        same = self.odd == s.a
        if s.a == 3 and same:
            super().enqueue(event)
    """,
    "what comes behind an unknown alternative may raise": """
        if (s.a == 5 or self.count == 1) or s.a < 2:
            return
    """,
    "what an unknown condition guards may raise": """
        if (s.a == 5 and self.count == 1) and s.a < 2:
            return
    """,
    "what comes behind many unknown alternatives may raise": """
        if (
            (self.count == 1 or self.count == 2) or (self.count == 3 or self.count == 4)
            or (self.count == 5 or self.count == 6) or s.a < 2
        ):
            return
    """,
    "the truth of what the filter keeps may raise": """
        if self.odd and s.a == 3:
            super().enqueue(event)
    """,
}
FILTER = """
class Odd:
    def __eq__(self, other):
        raise ValueError
    def __bool__(self):
        raise ValueError
class Filter(FIFOFilter):
    def __init__(self, limit):
        super().__init__()
        self.last = {}
        self.odd = Odd()
        self.count = 0
    def change(self):
        self.odd = None
        self.count += 1
        self.last[1] = 1
    def enqueue(self, event):
        s = event.content
"""


@pytest.mark.parametrize("trap", STATES)
def test_a_trap_with_state_is_sound(trap: str) -> None:
    some = [{"a": a} for a in (0, 1, "z", None, [1])]
    assert list(violations(HEADER + FILTER + STATES[trap].strip("\n"), some)) == []


@pytest.mark.parametrize(
    "condition",
    ["s.a == self.mine", "hash(s.a) == 1", "s.a == sys.platform", "s.a == self.platform"],
)
def test_what_differs_from_process_to_process_is_kept(condition: str) -> None:
    made = (
        "        self.mine, self.platform = self.lower(), sys.platform\n"
        "    def lower(self):\n        return PROCESS\n"
    )
    text = "PROCESS = object()\n" + FILTER.replace("        self.count = 0\n", made)
    body = f"        if {condition}:\n            super().enqueue(event)\n"
    names = load(f"import sys\n{HEADER}{text}{body}")
    assert str(extract(names["Filter"], 1).predicate) == "TRUE"
