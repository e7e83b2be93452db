"""Many rules over one untyped stream of nested dicts, beside one plain Python loop over them.

    uv run python benchmarks/many_rules.py [--rules 300] [--at broker] [--json FILE]

Every rule is a channel derived from one stream, with a subscription that counts what it gets.
What arrives is compared with what the loop finds. The index over predicates is another matter:
here each event is looked at by each rule.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

import activebroker as ab

Rule = Callable[[dict[str, Any]], object]
ACTIONS = ("login", "logout", "create", "delete", "grant", "revoke", "read", "write")
PATIENCE = 120.0


def rule(number: int) -> Rule:
    """One of six kinds of rules, as detection engineers write them."""
    action, limit = ACTIONS[number % len(ACTIONS)], 50 + number % 50
    name, prefix = f"user{number}", f"10.{number % 256}."

    def by_name(event: dict[str, Any]) -> object:
        return event.get("action") == action and event.get("actor", {}).get("name") == name

    def by_address(event: dict[str, Any]) -> object:
        return event.get("ip", "").startswith(prefix) and event["score"] > limit

    def by_role(event: dict[str, Any]) -> object:
        return event["action"] in ("grant", "revoke") and event["actor"]["role"] == name

    def by_count(event: dict[str, Any]) -> object:
        return event.get("score", 0) >= limit and event.get("action") == action

    def by_tag(event: dict[str, Any]) -> object:
        if event.get("action") != action:
            return False
        return name in event.get("tags", [])

    def by_agent(event: dict[str, Any]) -> object:
        return len(set(event["agent"])) > limit  # which the analysis leaves to Python

    return (by_name, by_address, by_role, by_count, by_tag, by_agent)[number % 6]


def event(draw: random.Random) -> dict[str, Any]:
    number = draw.randrange(1000)
    return {
        "action": draw.choice(ACTIONS),
        "actor": {"name": f"user{number}", "role": f"user{draw.randrange(1000)}"},
        "ip": f"10.{draw.randrange(256)}.0.1",
        "score": draw.randrange(100),
        "tags": [f"user{draw.randrange(1000)}" for _ in range(3)],
        "agent": "Mozilla/5.0 (X11; Linux x86_64)",
    }


def loop(rules: list[Rule], events: list[dict[str, Any]]) -> tuple[list[int], float]:
    """What each rule finds, and the events a second of a plain loop."""
    found = [0] * len(rules)
    begin = time.perf_counter()
    for each in events:
        for number, rule in enumerate(rules):
            if rule(each):
                found[number] += 1
    return found, len(events) / (time.perf_counter() - begin)


def run(rules: list[Rule], events: list[dict[str, Any]], at: str) -> tuple[list[int], Any]:
    process = psutil.Process()
    with ab.Fabric(brokers=["broker"]) as fabric:
        channel = fabric.channel("events", object)
        counts = [0] * len(rules)

        def counting(number: int) -> Callable[[ab.Event], object]:
            def count(event: ab.Event) -> None:
                counts[number] += 1

            return count

        begin = time.perf_counter()
        derived = [channel.derive(each, at=at) for each in rules]
        subscriptions = [each.subscribe(counting(number)) for number, each in enumerate(derived)]
        setup = time.perf_counter() - begin
        with channel.supplier("source") as source:
            begin = time.perf_counter()
            for first in range(0, len(events), 1000):
                source.publish_batch(events[first : first + 1000])
            threads, memory = process.num_threads(), process.memory_info().rss
            channel.close()
            for each in subscriptions:
                each.join(PATIENCE)
            took = time.perf_counter() - begin
        figures = {
            "derive and subscribe, ms each": setup / len(rules) * 1e3,
            "events/s": len(events) / took,
            "threads": max(threads, process.num_threads()),
            "MB": max(memory, process.memory_info().rss) / 1e6,
        }
    return counts, figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=300)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--at", default="supplier")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw = random.Random(7)
    rules = [rule(number) for number in range(options.rules)]
    events = [event(draw) for _ in range(options.events)]
    expected, plain = loop(rules, events)
    counts, figures = run(rules, events, options.at)
    assert counts == expected, "a rule got other events than the loop finds"
    plain = (plain + loop(rules, events)[1]) / 2  # before and after: the machine may have changed
    figures["plain loop, events/s"] = plain
    figures["times slower"] = plain / figures["events/s"]
    table = Table(title=f"{options.rules} rules at {options.at!r}, {options.events:,} events")
    table.add_column("figure")
    table.add_column("", justify="right")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:,.1f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
