"""How much of real filters three extractors understand: ours, Spark's and Polars'.

The filters are those of the test corpus. Ours gets each as it is. Spark's transpiler of UDFs and
Polars' suggestions for `map_elements` get it as a function of columns (column_forms.py), written in
their favour; what cannot be written so counts as *no form*. Every answer is checked on 300 events
against the filter that is run for real. Ours is *found* if the predicate is not TRUE, *exact* if
it says so and is; *wrong* if it misses an event, or is called exact and is not. Theirs is *right*
if it forwards what the filter forwards, and *none* if they leave the function to Python.

    uv run --group bench python benchmarks/extraction.py [--json PATH] [--plot PATH]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from inspect import getsource
from pathlib import Path
from typing import Any

from column_forms import form
from corpus_runs import extractor, holds, milliseconds, play, spread_of
from extraction_peers import Answer, Peer, ask_polars, spark
from form_columns import NoForm
from report import run
from tables import Figures, write

from predicate_extract import TRUE
from tests.corpus.case import Case
from tests.corpus.check import all_cases

PEERS = ("Spark", "Polars")
VERDICTS = ("right", "wrong", "none")


@dataclass(frozen=True)
class Judged:
    """What each extractor made of one case. `form` is the function that the peers got, or why there
    is none; without it they were not asked."""

    name: str
    constructs: tuple[str, ...]
    predicate: str
    exact: bool
    wrong: bool
    milliseconds: float
    form: str
    answers: dict[str, Answer]

    @property
    def counts(self) -> Iterable[str]:
        """The columns of the table that this case counts in."""
        yield "cases"
        if self.wrong:
            yield "wrong"
        elif self.predicate != str(TRUE):
            yield "found"
            if self.exact:
                yield "exact"
        if not self.answers:
            yield "no form"
        for peer, answer in self.answers.items():
            yield f"{peer} {answer.verdict}"


COLUMNS = (
    *("cases", "found", "exact", "wrong", "no form"),
    *(f"{peer} {verdict}" for peer in PEERS for verdict in VERDICTS),
)


def measure() -> list[Judged]:
    with spark() as ask_spark:
        return [judge(case, {"Spark": ask_spark, "Polars": ask_polars}) for case in all_cases()]


def judge(case: Case, peers: dict[str, Peer]) -> Judged:
    played = play(case)
    extract = extractor(case)
    found = extract()
    try:
        asked = form(case, played)
    except NoForm as reason:
        text, answers = str(reason), {}
    else:
        text = getsource(asked.rule)
        answers = {name: ask(asked) for name, ask in peers.items()}
    return Judged(
        name=case.name,
        constructs=case.constructs,
        predicate=str(found.predicate),
        exact=found.exact,
        wrong=not holds(found, played),
        milliseconds=milliseconds(extract),
        form=text,
        answers=answers,
    )


# --- what was found -----------------------------------------------------------------------------


def show(found: list[Judged]) -> dict[str, Any]:
    for table in tables(found):
        table.show()
    return {
        "total": dict(count(found)),
        "only NaN": {peer: only_nan(found, peer) for peer in PEERS},
        "milliseconds": {name: spread_of(times) for name, times in timings(found).items()},
        "cases": [asdict(judged) for judged in found],
    }


def tables(found: list[Judged]) -> list[Figures]:
    return [by_construct(found), without_form(found), times(found)]


def count(found: Iterable[Judged]) -> Counter[str]:
    """In which columns the cases count."""
    return Counter(column for judged in found for column in judged.counts)


def by_construct(found: Sequence[Judged]) -> Figures:
    constructs = sorted({construct for judged in found for construct in judged.constructs})
    rows = [row(construct, having(found, construct)) for construct in constructs]
    nan = ", ".join(f"{only_nan(found, peer)} of {peer}'s" for peer in PEERS)
    title = f"cases by construct (wrong only where there is a NaN: {nan})"
    asked = [judged for judged in found if judged.answers]
    totals = [row("those with a form", asked), row("all", found)]
    return Figures(title, ("construct", *COLUMNS), [*rows, *totals])


def having(found: Iterable[Judged], construct: str) -> list[Judged]:
    return [judged for judged in found if construct in judged.constructs]


def row(name: str, found: Iterable[Judged]) -> tuple[str, ...]:
    counts = count(found)
    return (name, *(str(counts[column]) for column in COLUMNS))


def only_nan(found: Iterable[Judged], peer: str) -> int:
    return sum(judged.answers[peer].only_nan for judged in found if judged.answers)


def without_form(found: Iterable[Judged]) -> Figures:
    """Why cases have no form, without the names of what they do there."""
    reasons = Counter(judged.form.split(":")[0] for judged in found if not judged.answers)
    rows = [(reason, str(cases)) for reason, cases in reasons.most_common()]
    return Figures("why a filter has no form", ("the filter", "cases"), rows)


def timings(found: Sequence[Judged]) -> dict[str, list[float]]:
    theirs = {
        peer: [judged.answers[peer].milliseconds for judged in found if judged.answers]
        for peer in PEERS
    }
    return {"ours": [judged.milliseconds for judged in found], **theirs}


def times(found: Sequence[Judged]) -> Figures:
    rows = []
    for name, each in timings(found).items():
        spread = spread_of(each)
        figures = (f"{spread['median']:.3f}", f"{spread['p95']:.3f}")
        rows.append((name, str(len(each)), *figures))
    title = "milliseconds a filter (of CPU; with Spark, elapsed)"
    return Figures(title, ("", "asked", "median", "95th percentile"), rows)


def plot(found: list[Judged], path: Path) -> None:
    write(tables(found), path)


if __name__ == "__main__":
    run(__doc__, "extraction.md", measure, show, plot)
