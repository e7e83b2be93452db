"""The event object: header, replacement, equality, pickling."""

import pickle
from datetime import UTC, datetime

from activebroker.events import Event

EVENT = Event({"price": 3}, "Quote", "NYSE", 7, 1_500_000_000_123_456_789)


def test_replace_keeps_the_header():
    replaced = EVENT.replace("other")
    assert replaced == Event("other", "Quote", "NYSE", 7, 1_500_000_000_123_456_789)
    assert EVENT.content == {"price": 3}


def test_datetime_is_aware_and_exact_to_the_microsecond():
    assert EVENT.datetime == datetime(2017, 7, 14, 2, 40, 0, 123456, tzinfo=UTC)


def test_equality_looks_at_header_and_content():
    assert EVENT.replace({"price": 3}) == EVENT
    assert EVENT.replace({"price": 4}) != EVENT
    assert Event({"price": 3}, "Quote", "NYSE", 8, EVENT.time) != EVENT
    assert EVENT != "event"


def test_events_with_unhashable_contents_can_be_set_members():
    assert len({EVENT, EVENT.replace({"price": 3})}) == 1


def test_pickles():
    assert pickle.loads(pickle.dumps(EVENT)) == EVENT


def test_repr_shows_content_and_header():
    assert repr(EVENT) == (
        "Event({'price': 3}, type='Quote', supplier='NYSE', seq=7, time=1500000000123456789)"
    )
