"""The corpus: what the analysis finds in realistic filters is sound, honest, and sharp.

Each case is run for real on drawn events, and compared with the predicate and with the one that was
written by hand.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from activebroker import Event
from activebroker.events import EventType
from predicate_extract import TRUE, Extraction, Predicate, extract
from predicate_extract.backends.columns import mask
from tests.corpus.case import Case
from tests.corpus.check import Runner, all_cases
from tests.corpus.expected import evaluate

CASES = tuple(all_cases())
EVENTS = 60
# What a reader knows beyond the code: that a table's keys stay the same, and what an argument is.
WEAKER = {"telemetry.Leaderboard('Neo', 'ann')", "trading_orders.above_reference"}


def extraction(case: Case) -> Extraction:
    if case.typed is None:
        return extract(case.target, *case.args)
    schema = EventType.of(case.typed).schema
    return extract(case.target, *case.args, schema=schema, content=case.typed)


def wrong(case: Case) -> list[str]:
    """What contradicts the extraction, or is weaker than a reader's predicate."""
    found = extraction(case)
    rng, runner = Random(case.name), Runner(case)
    complaints: dict[str, None] = {}
    for seq in range(EVENTS):
        event = Event(case.events(rng), "corpus", "corpus", seq, seq)
        value = found.predicate.evaluate(event.content)
        outcome = runner.run(event)
        if value is False and outcome.seen:
            complaints["unsound"] = None
        if found.exact and value is True and not outcome.is_plain(event):
            complaints["not exact"] = None
        if value is not False and evaluate(case.expected, event.content) is False:
            complaints["weaker"] = None
    return list(complaints)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    assert wrong(case) == (["weaker"] if case.name in WEAKER else [])
    found = extraction(case)
    assert found.exact == (not found.reasons)
    assert Predicate.parse(str(found.predicate)) == found.predicate
    assert Predicate.from_json(found.predicate.to_json()) == found.predicate


TYPED = tuple(case for case in CASES if case.typed is not None)


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case.name)
def test_columns_answer_as_the_contents_do(case: Case) -> None:
    """On the columns of a batch, each row is true, false or raised as its content is; or left to
    the filter."""
    assert case.typed is not None
    rng, type = Random(case.name), EventType.of(case.typed)
    contents = [type.check(case.events(rng), "corpus") for _ in range(EVENTS)]
    predicate = extraction(case).predicate
    found = mask(predicate, pa.record_batch(type.codec.encode(contents), schema=type.schema))
    for index, content in enumerate(contents):
        expected = predicate.evaluate(content)
        if found.raised is None or not found.raised[index]:
            assert bool(found.true[index]) is expected, content


def test_most_cases_have_a_predicate_and_an_exact_one() -> None:
    found = [extraction(case) for case in CASES]
    assert len(found) >= 150
    assert sum(each.predicate != TRUE for each in found) >= 0.9 * len(found)
    assert sum(each.exact for each in found) >= 0.75 * len(found)
