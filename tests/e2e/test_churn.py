"""Processes of one fabric are killed, started again, frozen and replaced, derive and leave; who
lives sees what was promised, and at the end nothing is left of the others.

`pytest tests/e2e/test_churn.py -n 0 -s --rounds 200 --seed N` plays 200 faults in 5 minutes; what
each process has logged is in the test's folder.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from churn_cast_for_tests import Cast
from churn_checks_for_tests import broken, measure, parts, sent
from churn_script_for_tests import Script

FEW = 12  # faults, in which memory has not yet grown to its size
PACE = 1.5  # seconds from one fault to the next
GROWTH = 8.0  # megabytes from the middle of a run to its end: an arena or two, 80 KB a fault


def show(what: str, cast: Cast, script: Script, before: Any, after: Any) -> None:
    print(f"{what}; slowest start {script.longest:.1f} s")
    print(f"{dict(script.faults)}; {dict(script.outcomes)}")
    for each in cast.standing:
        name, megabytes = each.player.name, each.memory[:: max(1, len(each.memory) // 10)]
        print(f"{name}: {before[name]}, then {after[name]}; flows", end=" ")
        print(*(len(now["flows"].get(each.player.node, [])) for now in (before, after)), end="")
        print(f"; megabytes {[round(m, 1) for m in megabytes]}, {each.growth():+.1f}")
    for bearer in cast.everyone:
        for note in bearer.notes:
            print(f"{bearer.name}, lost {bearer.lost}, ousted {bearer.ousted}: {note}")


@pytest.mark.table
@pytest.mark.timeout(1800)
def test_nothing_is_left_of_processes_that_come_and_go(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds, seed = pytestconfig.getoption("rounds"), pytestconfig.getoption("seed")
    with ExitStack() as stack:
        cast = Cast(stack, tmp_path)
        script = Script(stack, cast, seed)
        script.warm_up()
        cast.steady.get("pause")
        before, parts_before = measure(cast), parts(cast)
        cast.steady.get("go_on")
        script.fill()
        begin = time.monotonic()
        for number in range(1, rounds + 1):
            script.fault()
            script.operation()
            script.pass_(max(0.0, begin + number * PACE - time.monotonic()))
            for each in cast.standing:
                each.sample()
        took = time.monotonic() - begin
        script.all_leave()
        published = cast.steady.get("pause")
        after, parts_after = measure(cast), parts(cast)
        what = f"{rounds} faults of seed {seed} in {took:.0f} s; {published} events of 'steady'"
        show(what, cast, script, before, after)
        for each in (cast.plain, cast.counting):
            each.last = each.get("report")
        cast.steady.last = published
        assert broken(cast) == []
        assert sent(cast) == published
        assert after == before
        left = {name: parts_after[name] - parts_before[name] for name in parts_after}
        assert not any(left.values()), left
        if rounds > FEW:
            assert max(each.growth() for each in cast.standing) < GROWTH
