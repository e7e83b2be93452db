"""What derivations a run is said to have carried out, and how that is shown."""

from __future__ import annotations

from collections import Counter
from io import StringIO

from rich.console import Console

from activebroker.simulation.drawing import draw
from activebroker.simulation.kinds import cells, kinds_table, met, missing, unforeseen
from activebroker.simulation.outcome import Carried, Outcome
from activebroker.simulation.run import run
from activebroker.simulation.scenario import Options, Scenario, Step

COUNT, FEW = 0, 1  # the filters of a derivation
# Hosts and places of a setting with two brokers, one source and one sink.
EAST, WEST = 3, 4
DERIVE_AT = {"consumer": 0, "atlanta": 1}
MOVE_TO = {"supplier": 0, "consumer": 1, "atlanta": 2, "dallas": 3, "hub": 4}
ATLANTA, HUB = 0, 1  # of the brokers, and of those that are not atlanta
FIRST, SECOND = 0, 1  # of the derived channels

SCENARIO = Scenario(
    7,
    Options(brokers=2, refusing=True),  # dallas can load no filter
    (
        Step(0.0, "open supplier", EAST),
        Step(0.1, "open supplier", EAST),
        Step(0.2, "derive", WEST, 0, COUNT, DERIVE_AT["consumer"]),
        Step(0.4, "derive", WEST, 1, FEW, DERIVE_AT["atlanta"]),
        Step(0.6, "move", WEST, FIRST, 0, MOVE_TO["atlanta"]),
        Step(0.8, "open supplier", EAST),
        Step(1.0, "move", WEST, SECOND, 0, MOVE_TO["dallas"]),
        Step(1.2, "split", WEST, ATLANTA, 0, HUB),
        Step(1.4, "move", WEST, SECOND, 0, MOVE_TO["atlanta"]),
        Step(1.6, "move", WEST, FIRST, 0, MOVE_TO["hub"]),
        Step(1.8, "move", WEST, FIRST, 0, MOVE_TO["supplier"]),
        Step(2.0, "move", WEST, FIRST, 0, MOVE_TO["consumer"]),
        Step(2.2, "offload", WEST, 0, 0, ATLANTA),
    ),
)
CARRIED = Counter(
    {
        Carried("consumer to broker", 1, 2, True, "COMPLETED"): 1,
        Carried("broker to broker", 2, 3, False, "ROLLED_BACK"): 1,
        Carried("split", 2, 3, False, "COMPLETED"): 1,
        Carried("broker to broker", 2, 3, False, "COMPLETED"): 1,
        Carried("broker to broker", 1, 3, True, "COMPLETED"): 1,
        Carried("offload", 0, 3, False, "COMPLETED"): 1,
        Carried("broker to supplier", 1, 3, True, "COMPLETED"): 1,
        Carried("supplier to consumer", 1, 3, True, "COMPLETED"): 1,
    }
)


def shown(carried: Counter[Carried], width: int = 100) -> str:
    console = Console(width=width, file=StringIO())
    with console.capture() as capture:
        console.print(kinds_table(carried))
    return capture.get()


def asked(outcome: Outcome) -> list[str]:
    return [each.what for each in outcome.history if each.kind == "step"]


def test_each_derivation_is_counted_as_what_it_is() -> None:
    outcome = run(SCENARIO)
    assert not outcome.violations
    assert outcome.carried == CARRIED


def test_an_offload_of_some_consumers_is_told_from_one_of_all() -> None:
    setting = (Step(0.0, "open supplier", EAST), Step(0.2, "subscribe", WEST))
    offload = Step(0.4, "offload", WEST, 0, 1, ATLANTA)
    outcome = run(Scenario(7, Options(brokers=2), (*setting, offload)))
    assert not outcome.violations
    assert outcome.carried == {Carried("offload of some", 0, 1, False, "COMPLETED"): 1}


def test_a_split_asks_for_the_status_and_then_for_the_moves() -> None:
    steps = asked(run(SCENARIO))
    at = steps.index("splits atlanta with hub")
    assert steps[at + 1].endswith("to hub, to split")
    assert "Few" in steps[at + 1]


def test_a_split_ends_with_the_first_move_that_is_refused() -> None:
    derived = [
        Step(0.2 + 0.1 * number, "derive", WEST, 0, COUNT, DERIVE_AT["atlanta"])
        for number in range(4)
    ]
    split = Step(1.0, "split", WEST, ATLANTA, 0, place=0)  # to dallas
    scenario = Scenario(7, Options(brokers=2, refusing=True), (*derived, split))
    outcome = run(scenario)
    assert not outcome.violations
    assert sum("to split" in step for step in asked(outcome)) == 1
    assert outcome.carried == {Carried("split", 1, 0, True, "ROLLED_BACK"): 1}
    accepted = run(Scenario(7, Options(brokers=2), (*derived, split)))
    assert accepted.carried == {Carried("split", 1, 0, True, "COMPLETED"): 2}


def test_some_scenarios_split_a_broker_and_move_what_is_there() -> None:
    drawn = [draw(seed) for seed in range(100)]
    splitting = [each for each in drawn if any(step.do == "split" for step in each.steps)]
    assert 3 <= len(splitting) <= 15
    for each in splitting:
        assert list(each.steps) == sorted(each.steps, key=lambda step: step.at)
    carried = [run(each, record=False).carried for each in splitting]
    assert any(each.kind == "split" for found in carried for each in found)


def test_a_move_is_met_by_kind_and_by_depth() -> None:
    assert met(CARRIED) == {
        ("consumer to broker", "2", True): 1,
        ("broker to broker", "undone", False): 1,
        ("broker to broker", "3", False): 1,
        ("broker to broker", "3", True): 1,
        ("split", "3", False): 1,
        ("offload", "3", False): 1,
        ("broker to supplier", "3", True): 1,
        ("supplier to consumer", "3", True): 1,
        ("depth 1", "2", True): 1,
        ("depth 1", "3", True): 3,
        ("depth 2", "undone", False): 1,
        ("depth 2", "3", False): 2,
    }
    deep = Carried("broker to broker", 5, 1, True, "FAILED")
    assert met({deep: 3})["depth 3, more", "failed", True] == 3


def test_a_cell_is_missing_until_it_is_met() -> None:
    cell = ("broker to broker", "3", True)
    assert cell in missing({})
    assert cell not in missing(CARRIED)
    assert len(missing(CARRIED)) == len(list(cells())) - len(met(CARRIED))


def test_what_the_table_does_not_hold_is_told() -> None:
    assert unforeseen(CARRIED) == ()
    assert unforeseen({Carried("split", 1, 0, True, "COMPLETED"): 1}) == ()  # left out
    strange = {
        Carried("broker to moon", 0, 1, True, "COMPLETED"): 1,
        Carried("offload", 0, 9, False, "COMPLETED"): 1,
    }
    assert unforeseen(strange) == (("broker to moon", "1", True), ("offload", "9", False))


def test_the_table_shows_pairs_and_fits_100_columns() -> None:
    many = Counter(dict.fromkeys(CARRIED, 998))
    many[Carried("broker to broker", 1, 3, True, "COMPLETED")] = 12345
    lines = shown(many).splitlines()
    rows = {line[:21].strip(): line[21:].split() for line in lines}
    assert rows["broker to broker"] == [*["0/0"] * 2, "998/12k", *["0/0"] * 5, "998/0", "0/0"]
    assert rows["offload"] == ["0", "0", "998", *"0" * 7]
    assert f"12 of {len(list(cells()))} cells" in lines[0]


def test_a_narrow_table_hides_no_number() -> None:
    many = Counter(dict.fromkeys(CARRIED, 998))
    assert "…" not in "".join(line[22:] for line in shown(many, 60).splitlines()[1:])
