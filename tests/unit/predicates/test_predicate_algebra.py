"""The tree means what Python means; simplifying, covering and sending keep the meaning."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies_for_tests import (
    conditions,
    conditions_on_calls,
    contents,
    evaluate_python,
    numbers,
    trees,
)

from predicate_extract import (
    FALSE,
    TRUE,
    And,
    Call,
    Compare,
    Const,
    Defined,
    Field,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    PredicateFormatError,
    Truthy,
)
from predicate_extract.algebra.simplify import choice, conjunction, disjunction, negation

NAME, PRICE = Field(("name",)), Field(("price",))
IS_IBM = Compare("==", NAME, Const("IBM"))
DEAR = Compare(">", PRICE, Const(100))

samples = st.lists(contents, min_size=8, max_size=8)


@pytest.fixture(autouse=True)
def _literals_may_be_odd():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        yield


@given(trees(), samples)
def test_evaluation_is_that_of_python(predicate, some):
    for content in some:
        assert predicate.evaluate(content) is evaluate_python(predicate, content)


@given(conditions_on_calls(), samples)
def test_a_function_is_that_of_python_or_left_to_it(predicate, some):
    for content in some:
        answer = predicate.evaluate(content)
        assert answer is None or answer is evaluate_python(predicate, content)


@given(trees() | conditions_on_calls())
def test_text_comes_back(predicate):
    assert Predicate.parse(str(predicate)) == predicate


@pytest.mark.parametrize("value", [0, 5, -5, 2.5, -0.0, math.inf, math.nan, True, None, "a"])
def test_a_negated_constant_is_not_a_negative_one(value):
    for term in (Const(value), Call("neg", (Const(value),)), Call("-", (NAME, Const(value)))):
        predicate = Compare("==", Call("neg", (term,)), term)
        assert Predicate.parse(str(predicate)) == predicate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a field, a constant or a function, got the end"),
        ("price >", "got the end"),
        ("price > 1 price", "the end, AND or OR, got 'price' at column 11"),
        ("price ! 1", "Expected a predicate, got '! 1'"),
        ("size(name) > 3", "no function 'size'"),
        ("name IN (price)", "IN takes constants"),
        ("name[price] = 1", "not the key"),
        ("day = DATE '2024-13-01'", "cannot be read"),
        ("(" * 5000, "nested too deeply|Expected"),
    ],
)
def test_what_is_no_text_of_a_predicate_says_what_was_expected(text, message):
    with pytest.raises(PredicateFormatError, match=message):
        Predicate.parse(text)


def rebuilt(predicate: Predicate) -> Predicate:
    """The same condition, built by the simplifying constructors."""
    match predicate:
        case And(parts):
            return conjunction(*map(rebuilt, parts))
        case Or(parts):
            return disjunction(*map(rebuilt, parts))
        case Not(part):
            return negation(rebuilt(part))
        case _:
            return predicate


@given(trees(), samples)
def test_simplification_keeps_true_false_and_raised(predicate, some):
    simple = rebuilt(predicate)
    for content in some:
        assert simple.evaluate(content) is predicate.evaluate(content)


@given(trees(), trees(), trees(), samples)
def test_choice_is_if_then_else(test, then, otherwise, some):
    chosen = choice(rebuilt(test), rebuilt(then), rebuilt(otherwise))
    for content in some:
        decided = test.evaluate(content)
        expected = None
        if decided is not None:
            expected = (then if decided else otherwise).evaluate(content)
        assert chosen.evaluate(content) is expected


@given(trees(), trees(), samples)
def test_a_covering_predicate_matches_all_that_the_covered_one_matches(wide, narrow, some):
    if wide.covers(narrow):
        for content in some:
            assert wide.matches(content) or not narrow.matches(content)


@given(conditions((Field(("a",)),)), conditions((Field(("a",)),)), st.booleans(), samples)
def test_conditions_on_one_field_cover_soundly(wide, narrow, opposite, some):
    if opposite:
        wide, narrow = negation(wide), negation(narrow)
    if wide.covers(narrow):
        for content in some:
            assert wide.matches(content) or not narrow.matches(content)


FLOATS = pa.schema([pa.field(name, pa.float64(), nullable=False) for name in "abc"])
floats = st.fixed_dictionaries(
    dict.fromkeys("abc", numbers.filter(lambda n: isinstance(n, float)))
).map(lambda fields: SimpleNamespace(**fields))


@given(trees(), trees(), trees(), st.lists(floats, min_size=8, max_size=8))
def test_what_a_schema_rules_out_is_known_and_no_more(a, b, c, some):
    """Parts behind one that cannot raise count as well."""
    for wide, narrow in ((a, b), (a, conjunction(b, a, c)), (disjunction(a, c), conjunction(b, a))):
        if wide.covers(narrow, FLOATS):
            for content in some:
                assert wide.matches(content) or not narrow.matches(content)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (TRUE, DEAR),
        (DEAR, FALSE),
        (DEAR, DEAR),
        (IS_IBM | DEAR, IS_IBM),
        (IS_IBM | DEAR, DEAR & IS_IBM),
        (Compare(">", PRICE, Const(50)), DEAR),
        (Compare(">", PRICE, Const(50)), DEAR & IS_IBM),
        (Compare(">=", PRICE, Const(100.0)), DEAR),
        (Compare("!=", PRICE, Const(7)), DEAR),
        (In(NAME, (Const("IBM"), Const("SUN"))), IS_IBM),
        (Compare("<", NAME, Const("J")), In(NAME, (Const("IBM"), Const("HP")))),
        (~DEAR, ~Compare(">", PRICE, Const(50))),
    ],
)
def test_what_is_covered(wide, narrow):
    assert wide.covers(narrow)


def test_a_condition_that_may_raise_hides_the_ones_after_it():
    """An event without a name makes the second one raise, whatever its price is."""
    assert not DEAR.covers(IS_IBM & DEAR)


@given(trees() | conditions_on_calls())
def test_json_comes_back(predicate):
    assert Predicate.from_json(predicate.to_json()) == predicate
    assert hash(Predicate.from_json(predicate.to_json().encode())) == hash(predicate)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
)


@given(
    json_values
    | json_values.map(lambda value: {"version": 1, "predicate": value})
    | st.tuples(
        st.sampled_from(["and", "not", "in", "compare", "null", "defined"]), json_values
    ).map(lambda pair: {"version": 1, "predicate": [*pair, ["const", 3]]})
)
def test_what_is_no_predicate_is_refused(value):
    with pytest.raises(PredicateFormatError):
        Predicate.from_json(json.dumps(value))


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(PredicateFormatError):
        Predicate.from_json(text)


def test_another_version_is_refused_by_its_number():
    with pytest.raises(PredicateFormatError, match="version 1"):
        Predicate.from_json('{"version": 1, "predicate": ["always", true]}')


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (IS_IBM | DEAR, "name = 'IBM' OR price > 100"),
        (IS_IBM | (~IS_IBM & DEAR), "name = 'IBM' OR price > 100"),
        ((IS_IBM | DEAR) & ~DEAR, "(name = 'IBM' OR price > 100) AND NOT price > 100"),
        (~IS_IBM, "name != 'IBM'"),
        (~(IS_IBM & DEAR), "name != 'IBM' OR NOT price > 100"),
        (Not(IsNull(NAME)), "name IS NOT NULL"),
        (Not(In(NAME, (Const("it's"),))), "name NOT IN ('it''s')"),
        (Truthy(Field(("route", "open"))) & IS_IBM, "route.open AND name = 'IBM'"),
        (Defined(PRICE) & IS_IBM, "DEFINED(price) AND name = 'IBM'"),
        (Defined(PRICE) & (IS_IBM | DEAR), "DEFINED(price) AND (name = 'IBM' OR price > 100)"),
        (Defined(PRICE) & DEAR, "price > 100"),
    ],
)
def test_it_reads_like_sql(predicate, text):
    assert str(predicate) == text


def test_matches_takes_a_row_or_an_object():
    predicate = IS_IBM | DEAR
    assert predicate.matches({"name": "IBM", "price": 1})
    assert not predicate.matches(SimpleNamespace(name="SUN", price=100))
    assert predicate.matches({"name": "SUN", "price": None}), "ordering None raises"
    assert predicate.evaluate({"name": "SUN", "price": 1}) is None, "a dict has no attribute name"


def test_constants_of_different_types_differ():
    assert len({Const(1), Const(1.0), Const(True), Const(0.0), Const(-0.0)}) == 5
    assert Const(float("nan")) == Const(float("nan"))


@given(trees())
def test_a_hash_is_remembered_and_stays_in_its_process(predicate):
    """Text has another hash in each process."""
    for term in _all_of(predicate):
        assert hash(term) == hash(term) == term._hash
    copies = list(_all_of(pickle.loads(pickle.dumps(predicate))))
    assert not any(hasattr(each, "_hash") for each in copies)
    assert [*map(hash, copies)] == [*map(hash, _all_of(predicate))]


def _all_of(term):
    yield term
    for operand in term.operands():
        yield from _all_of(operand)
