"""A run as a sequence diagram: a lane for each host, time downwards; as text, and as a page.

`lines` makes from a history what both draw: a message is one line where nothing else happens at
its two hosts between its departure and its arrival, else one line for each; runs of events are
folded into one.
"""

from __future__ import annotations

import html
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from activebroker.simulation.outcome import Happening, Outcome

FOLDED = 3  # events messages in a row that are still shown one by one
EVERYWHERE = "network"  # the place of what happens to all
_EVENTS = re.compile(r"events? of (?P<supplier>\S+)( (?P<first>\d+)(\.\.(?P<last>\d+))?)?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diagram.

    `kind` is that of the happening, or "pass" (a message that leaves and arrives), or "fold" (many
    happenings, at no place in particular). `until`: when what begins here ends.
    """

    at: float
    kind: str
    place: str
    what: str
    other: str = ""
    until: float | None = None
    move: int | None = None


def story(outcome: Outcome, move: int | None = None, width: int = 160) -> str:
    """The diagram as text, of one move or of the whole run; `width` columns at most.

    `o-->` a message (`o..>` it leaves, `...>` it arrives, `o--x` it is dropped, `o::>` it leaves
    twice), `#` a step of a user, `!` a fault, `*` a change of state, `=` events at a consumer.
    `#20` after a line is the number of its move.
    """
    shown = list(lines(outcome.history, move))
    lanes = Lanes(_places(shown))
    header = f"{'seconds':>10}  {lanes.header()}"
    return "\n".join([header, *(f"{_text(line, lanes)[:width].rstrip()}" for line in shown)])


def lines(history: Sequence[Happening], move: int | None = None) -> Iterator[Line]:
    """What a diagram shows, in the order of time."""
    chosen = _of(history, move)
    start = next((index for index, each in enumerate(chosen) if each.kind == "step"), 0)
    if move is None and start > FOLDED:
        joining, chosen = chosen[:start], chosen[start:]
        what = f"the hosts join, in {sum(each.kind == 'send' for each in joining)} messages"
        yield Line(joining[0].at, "fold", "", what, until=joining[-1].at)
    ends = _ends(chosen)
    merged = {end for end, at_once in ends.values() if at_once}
    for are_events, group in groupby(
        enumerate(chosen), key=lambda each: _EVENTS.search(each[1].what) is not None
    ):
        run = list(group)
        if are_events and len(run) > FOLDED:
            happenings = [happening for _, happening in run]
            first, last = happenings[0], happenings[-1]
            yield Line(first.at, "fold", "", _summary(happenings), until=last.at)
            continue
        for index, each in run:
            if index in merged:
                continue
            end, at_once = ends.get(index, (index, False))
            kind = chosen[end].kind if at_once else each.kind
            until = chosen[end].at if end != index else None
            yield Line(
                each.at,
                "pass" if at_once and kind == "arrive" else kind,
                each.place,
                each.what,
                each.other,
                until,
                each.move,
            )


def _of(history: Sequence[Happening], move: int | None) -> list[Happening]:
    """What concerns a move: its own happenings, and from the first to the last of them those
    of no move."""
    if move is None:
        return list(history)
    own = [index for index, each in enumerate(history) if each.move == move]
    if not own:
        return []
    between = history[own[0] : own[-1] + 1]
    return [each for each in between if each.move in (None, move)]


def _ends(history: Sequence[Happening]) -> dict[int, tuple[int, bool]]:
    """By the index of a departure: that of its arrival or loss, and whether nothing comes between
    at the two places."""
    under_way: dict[tuple[str, str, str], deque[int]] = {}
    latest: dict[str, int] = {}  # by place, the last happening there
    found: dict[int, tuple[int, bool]] = {}
    for index, each in enumerate(history):
        waiting = under_way.setdefault((each.place, each.other, each.what), deque())
        if each.kind in ("send", "repeat"):
            waiting.append(index)
        elif each.kind in ("arrive", "drop") and waiting:
            # One that is dropped as it is sent is not the one that was sent first.
            at_start = each.kind == "drop" and waiting[-1] == index - 1
            sent = waiting.pop() if at_start else waiting.popleft()
            places = each.place, each.other
            found[sent] = index, all(latest.get(place, -1) <= sent for place in places)
        for place in (each.place, each.other):
            latest[place] = index
    return found


def _summary(run: Iterable[Happening]) -> str:
    """What a run of happenings with events comes to."""
    ranges: dict[str, tuple[int, int]] = {}
    routes: Counter[str] = Counter()
    for each in run:
        routes[f"{_VERBS.get(each.kind, each.kind)} {_route(each)}"] += 1
        match = _EVENTS.search(each.what)
        if match is not None and match["first"] is not None:
            first = int(match["first"])
            last = int(match["last"] or first)
            low, high = ranges.get(match["supplier"], (first, last))
            ranges[match["supplier"]] = min(low, first), max(high, last)
    events = ", ".join(f"{supplier} {low}..{high}" for supplier, (low, high) in ranges.items())
    counts = ", ".join(f"{route} x{count}" for route, count in routes.items())
    return f"events of {events}: {counts}"


_VERBS = {
    "send": "sent",
    "arrive": "arrived",
    "drop": "dropped",
    "repeat": "repeated",
    "see": "seen by",
}


def _route(happening: Happening) -> str:
    return f"{happening.place}>{happening.other}" if happening.other else happening.place


def _places(shown: Iterable[Line]) -> list[str]:
    places = (place for line in shown for place in (line.place, line.other))
    return [place for place in dict.fromkeys(places) if place not in ("", EVERYWHERE)]


# --- as text --------------------------------------------------------------------------------------

MARKS = {"step": "#", "fault": "!", "state": "*", "see": "="}
ARROWS = {  # begin, shaft, end
    "pass": ("o", "-", ">"),
    "send": ("o", ".", ">"),
    "arrive": (".", ".", ">"),
    "drop": ("o", "-", "x"),
    "repeat": ("o", ":", ">"),
}


class Lanes:
    """The columns of a text diagram."""

    def __init__(self, places: Sequence[str]) -> None:
        self.width = max((len(place) + 2 for place in places), default=0)
        self.width = max(self.width, 8)
        self.places = {place: index * self.width + 3 for index, place in enumerate(places)}

    def header(self) -> str:
        return "".join(place.ljust(self.width) for place in self.places)

    def row(self) -> list[str]:
        row = [" "] * (self.width * len(self.places))
        for column in self.places.values():
            row[column] = "|"
        return row

    def marks(self, places: Iterable[str], mark: str) -> str:
        row = self.row()
        for place in places:
            row[self.places[place]] = mark
        return "".join(row)

    def arrow(self, place: str, other: str, kind: str) -> str:
        begin, shaft, end = ARROWS[kind]
        row = self.row()
        here, there = self.places[place], self.places[other]
        right = there > here
        for column in range(min(here, there) + 1, max(here, there)):
            row[column] = shaft
        row[here] = begin
        row[there - 1 if right else there + 1] = end if right or end != ">" else "<"
        return "".join(row)


def _text(line: Line, lanes: Lanes) -> str:
    if line.kind == "fold":
        drawn = lanes.marks(lanes.places, ":")
    elif line.other in lanes.places and line.kind in ARROWS and line.other != line.place:
        drawn = lanes.arrow(line.place, line.other, line.kind)
    else:
        drawn = lanes.marks(_concerned(line, lanes.places), MARKS.get(line.kind, "?"))
    return f"{line.at:10.4f}  {drawn} {_label(line)}"


def _concerned(line: Line, places: Iterable[str]) -> list[str]:
    """Where something happens that is no message."""
    return [place for place in places if place in (line.place, line.other)] or list(places)


def _label(line: Line) -> str:
    """What is written beside a line; `#` is the number of a move."""
    number = f" #{line.move}" if line.move is not None else ""
    return _words(line) + number


def _words(line: Line) -> str:
    match line.kind:
        case "fault":
            return f"FAULT {line.what}"
        case "see":
            return f"sees {line.what}"
        case "drop":
            return f"{line.what} (dropped)"
        case "arrive":
            return f"{line.what} (arrives)"
        case "pass" | "send" | "repeat":
            again = "again, " if line.kind == "repeat" else ""
            if line.until is None:
                return f"{line.what} ({again}never arrives)"
            return f"{line.what} ({again}+{(line.until - line.at) * 1000:.1f} ms)"
        case "fold":
            return f"{line.what}, until {line.until:.4f}"
        case _:
            return line.what


# --- as a page ------------------------------------------------------------------------------------

LANE, ROW, LEFT = 150, 22, 150  # pixels: between lanes, between lines, before the first lane
SHORT = 16  # pixels before the lane, where the arrow of what does not arrive ends
COLOURS = {
    "step": "#1a73e8", "fault": "#d93025", "state": "#188038", "see": "#9334e6", "fold": "#80868b",
    "pass": "#202124", "send": "#202124", "arrive": "#202124", "drop": "#d93025",
    "repeat": "#e37400",
}  # fmt: skip
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 13px/1.4 system-ui, sans-serif; margin: 1em; }}
svg {{ display: block; font: 12px ui-monospace, monospace; }}
.lanes {{ offset: sticky; top: 0; background: white; border-bottom: 1px solid #dadce0; }}
pre {{ white-space: pre-wrap; color: #d93025; }}
</style></head><body><h1>{title}</h1>
{violations}
{head}
{body}
</body></html>
"""


def page(outcome: Outcome, move: int | None = None) -> str:
    """The diagram as an HTML page of its own, without scripts, of one move or of all."""
    shown = list(lines(outcome.history, move))
    x = {place: LEFT + index * LANE for index, place in enumerate(_places(shown))}
    labels = LEFT + (len(x) - 1) * LANE + 40
    width = labels + 8 * max((len(_label(line)) for line in shown), default=0)
    names = "".join(
        f'<text x="{at}" y="18" text-anchor="middle" font-weight="bold">{html.escape(place)}</text>'
        for place, at in x.items()
    )
    about = f"move {move}" if move is not None else "the whole run"
    return _PAGE.format(
        title=f"Seed {outcome.scenario.seed}, {about}",
        violations="".join(f"<pre>{html.escape(each)}</pre>" for each in outcome.violations),
        head=f'<svg class="lanes" width="{width}" height="26">{names}</svg>',
        body="\n".join(_drawing(shown, x, labels, width)),
    )


def _drawing(shown: Sequence[Line], x: dict[str, int], labels: int, width: int) -> Iterator[str]:
    height = ROW * (len(shown) + 1)
    yield f'<svg width="{width}" height="{height}">'
    for at in x.values():
        yield f'<line x1="{at}" y1="0" x2="{at}" y2="{height}" stroke="#dadce0"/>'
    departures: dict[tuple[str, str, str], deque[int]] = {}
    for number, line in enumerate(shown, start=1):
        y, colour = number * ROW, COLOURS.get(line.kind, "#202124")
        key = line.place, line.other, line.what
        yield f'<text x="0" y="{y + 4}" fill="#5f6368">{line.at:.4f}</text>'
        text = html.escape(_label(line))
        yield f'<text x="{labels}" y="{y + 4}" fill="{colour}">{text}</text>'
        if line.kind == "fold":
            yield (
                f'<rect x="{LEFT - 8}" y="{y - 3}" width="{(len(x) - 1) * LANE + 16}" height="6" '
                f'rx="3" fill="#dadce0"/>'
            )
        elif line.other not in x or line.other == line.place or line.kind not in ARROWS:
            for place in _concerned(line, x):
                yield f'<circle cx="{x[place]}" cy="{y}" r="5" fill="{colour}"/>'
        elif line.kind in ("send", "repeat") and line.until is not None:
            departures.setdefault(key, deque()).append(y)
            yield f'<circle cx="{x[line.place]}" cy="{y}" r="2.5" fill="{colour}"/>'
        else:
            started = departures.get(key) if line.kind == "arrive" else None
            begin = started.popleft() if started else y
            yield from _arrow(x[line.place], begin, x[line.other], y, line.kind, colour)
    yield "</svg>"


def _arrow(x1: float, y1: float, x2: float, y2: float, kind: str, colour: str) -> Iterator[str]:
    """An arrow; of what does not arrive it stops short."""
    if kind in ("drop", "send"):
        x2 += SHORT if x1 > x2 else -SHORT
    dash = ' stroke-dasharray="2 4"' if kind == "send" else ""
    yield f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}"{dash}/>'
    if kind == "drop":
        yield f'<path d="M{x2 - 4} {y2 - 4}l8 8m-8 0l8 -8" stroke="{colour}"/>'
        return
    back = -8 if x2 > x1 else 8
    yield f'<path d="M{x2} {y2}l{back} -4v8z" fill="{colour}"/>'
