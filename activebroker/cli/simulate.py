"""`activebroker simulate 3pd`: moves of filters in virtual time, for many seeds or one."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from activebroker.cli.console import console
from activebroker.core.errors import MissingExtra, with_extra

if TYPE_CHECKING:
    from activebroker.simulation.outcome import Outcome
    from activebroker.simulation.pool import Failure, Tally
    from activebroker.simulation.scenario import Scenario

FAILED, INTERRUPTED = 1, 130  # exit codes
SEEDS = 1000
ENDLESS = sys.maxsize // 2
SHOWN = 20  # seeds of a kind, and lines of a violation
_KEEP = (
    """(printf '{{"why": "WHAT WAS WRONG", "scenario": '; tr -d '\\n' < {}; echo '}}')"""
    " >> tests/unit/simulation/regressions.jsonl"
)

simulate = typer.Typer(name="simulate", add_completion=False, no_args_is_help=True)


@simulate.callback()
def _simulate() -> None:
    """Run the real nodes in virtual time, on a network that fails."""


@simulate.command("3pd")
def third_party_derivation(
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help=f"How many; {SEEDS:,} unless --minutes limits them."),
    ] = None,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; one a core by default.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.01, help="End after this time.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Run this seed only, and print its story.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run the scenario in a JSON file instead.")
    ] = None,
    move: Annotated[
        int | None, typer.Option(help="With --seed or --replay: the story of this one only.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the story as a page, too.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="PATH", help="Write the results as JSON, too.")
    ] = None,
) -> None:
    """Move filters while events flow and hosts and network fail; check what consumers see.

    Each seed is a scenario of its own: hosts, suppliers, consumers, moves and faults. The exit code
    is 1 where a consumer saw anything that the contract of a move forbids.
    """
    _need_simpy()
    single = seed is not None or replay is not None
    if seed is not None and replay is not None:
        raise typer.BadParameter("--seed and --replay exclude each other.")
    if single and (seeds is not None or minutes is not None):
        raise typer.BadParameter("--seeds and --minutes do not go with --seed or --replay.")
    if move is not None and not single:
        raise typer.BadParameter("--move needs --seed or --replay.")
    for path in (html, as_json):
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"There is no directory {path.parent}.")
        if path is not None and path.is_dir():
            raise typer.BadParameter(f"{path} is a directory; expected a file to write.")
    out = console()
    if single:
        good = _one(out, seed, replay, move, html, as_json)
    else:
        limit = seeds or (SEEDS if minutes is None else ENDLESS)
        good = _many(out, range(first, first + limit), jobs, minutes, html, as_json)
    if not good:
        raise typer.Exit(FAILED)


def _need_simpy() -> None:
    try:
        import simpy  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"The simulator needs SimPy. {with_extra('simulation')}") from error


# --- one seed -------------------------------------------------------------------------------------


def _one(
    out: Console,
    seed: int | None,
    replay: Path | None,
    move: int | None,
    html: Path | None,
    as_json: Path | None,
) -> bool:
    from activebroker.simulation.drawing import draw
    from activebroker.simulation.run import hush, run
    from activebroker.simulation.shrink import load

    hush()

    scenario = load(replay) if replay is not None else draw(seed or 0)
    outcome = run(scenario)
    _tell_story(out, outcome, move, html)
    typer.echo()
    _show_violations(outcome.violations, limit=None)
    typer.echo(f"Seed {scenario.seed}, trace {outcome.trace_hash}: {_verdict(outcome)}")
    if as_json is not None:
        _write_json(
            as_json,
            {
                "scenario": scenario,
                "violations": outcome.violations,
                "trace_hash": outcome.trace_hash,
                "counts": outcome.counts,
                "covered": _cells(outcome.covered),
                "carried": _cells(outcome.carried),
                "history": outcome.history,
            },
        )
    return not outcome.violations


def _tell_story(out: Console, outcome: Outcome, move: int | None, html: Path | None) -> None:
    from activebroker.simulation.diagram import page, story

    typer.echo(story(outcome, move, max(out.width, 80)))
    if html is not None:
        html.write_text(page(outcome, move), encoding="utf-8")


def _verdict(outcome: Outcome) -> str:
    found = len(outcome.violations)
    return "the contract is kept." if not found else f"{found} violations."


# --- many seeds -----------------------------------------------------------------------------------


def _many(
    out: Console,
    seeds: range,
    jobs: int | None,
    minutes: float | None,
    html: Path | None,
    as_json: Path | None,
) -> bool:
    from activebroker.simulation.coverage import coverage_table, missing, unforeseen
    from activebroker.simulation.kinds import kinds_table
    from activebroker.simulation.kinds import unforeseen as of_no_kind
    from activebroker.simulation.pool import Tally, run_pool

    jobs = jobs or os.cpu_count() or 1
    total, interrupted = Tally(), False
    began = monotonic()
    try:
        with _progress(out, seeds) as (progress, task), closing(run_pool(seeds, jobs)) as tallies:
            for tally in tallies:
                total.add(tally)
                spent = monotonic() - began
                progress.update(
                    task,
                    completed=total.seeds,
                    rate=total.seeds / spent,
                    failing=len(total.failures),
                )
                for failure in tally.failures:
                    progress.console.print(f"seed {failure.seed} fails", style="red")
                if minutes is not None and spent >= minutes * 60:
                    break
    except KeyboardInterrupt:
        interrupted = True
    spent = monotonic() - began
    out.print(_counts_table(total.counts), coverage_table(total.covered))
    if strange := unforeseen(total.covered):
        out.print(f"Not foreseen in coverage.py: {strange}", style="red", markup=False)
    out.print(kinds_table(total.carried))
    if other := of_no_kind(total.carried):
        out.print(f"Not foreseen in kinds.py: {other}", style="red", markup=False)
    found = _show_findings(total)
    typer.echo(
        f"{total.seeds:,} seeds in {spent:.1f} s, {total.seeds / spent:.1f} seeds/s in {jobs} "
        f"processes{', interrupted' if interrupted else ''}: {found}"
    )
    shrunk = None
    if total.failures and not interrupted:
        shrunk = _explain(out, min(failure.seed for failure in total.failures), html)
    if as_json is not None:
        _write_json(
            as_json,
            {
                "first": seeds.start,
                "seeds": total.seeds,
                "seconds": spent,
                "seeds_per_second": total.seeds / spent,
                "jobs": jobs,
                "interrupted": interrupted,
                "counts": total.counts,
                "covered": _cells(total.covered),
                "missing": missing(total.covered),
                "carried": _cells(total.carried),
                "failures": total.failures,
                "deaths": [str(death) for death in total.deaths],
                "shrunk": shrunk,
            },
        )
    if interrupted and total.clean:
        raise typer.Exit(INTERRUPTED)
    return total.clean


@contextmanager
def _progress(out: Console, seeds: range) -> Iterator[tuple[Progress, TaskID]]:
    columns = (
        BarColumn(),
        TextColumn("{task.completed:,} seeds"),
        TextColumn("{task.fields[rate]:.0f}/s"),
        TextColumn("{task.fields[failing]} failing"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        known = len(seeds) if len(seeds) < ENDLESS else None
        yield progress, progress.add_task("seeds", total=known, rate=0.0, failing=0)


def _show_findings(total: Tally) -> str:
    """Print what failed, one seed of each kind in full; return it in a few words."""
    from activebroker.simulation.shrink import kind

    for death in total.deaths:
        typer.secho(str(death), fg="red")
    by_kind: dict[str, list[Failure]] = {}
    for failure in sorted(total.failures, key=lambda failure: failure.seed):
        by_kind.setdefault(kind(failure.violations[0]), []).append(failure)
    for what, failures in by_kind.items():
        seeds = " ".join(str(each.seed) for each in failures[:SHOWN])
        more = " ..." if len(failures) > SHOWN else ""
        typer.secho(f"\n{what}, {len(failures)} seeds: {seeds}{more}", bold=True)
        typer.echo(f"activebroker simulate 3pd --seed {failures[0].seed}")
        _show_violations(failures[0].violations, limit=SHOWN)
    if total.clean:
        return "the contract is kept."
    return (
        f"{len(total.failures)} seeds broke the contract, {len(total.deaths)} worker processes "
        "were lost."
    )


def _show_violations(violations: tuple[str, ...], limit: int | None) -> None:
    for violation in violations:
        shown = violation.splitlines()[:limit]
        typer.secho("  " + "\n    ".join(shown), fg="red")


def _explain(out: Console, seed: int, html: Path | None) -> Scenario:
    """Shrink a failing seed's scenario, keep it in a file, and tell its story."""
    from activebroker.simulation.drawing import draw
    from activebroker.simulation.run import run
    from activebroker.simulation.shrink import save, shrink

    scenario = draw(seed)
    with out.status(f"making the scenario of seed {seed} small"):
        shrunk = shrink(scenario, lambda each: run(each, record=False))
    path = Path(f"simulate-3pd-{seed}.json")
    try:
        save(shrunk, path)
    except OSError as error:  # it is told all the same
        typer.secho(f"The scenario of seed {seed} cannot be kept: {error}", fg="red", err=True)
    typer.echo(
        f"\nSeed {seed}, shrunk from {len(scenario.steps)} steps and {len(scenario.faults)} faults "
        f"to {len(shrunk.steps)} and {len(shrunk.faults)}:  "
        f"activebroker simulate 3pd --replay {path}\n"
        f"To keep it with those that every test run plays:  {_KEEP.format(path)}\n"
    )
    outcome = run(shrunk)
    _tell_story(out, outcome, None, html)
    _show_violations(outcome.violations, limit=SHOWN)
    return shrunk


# --- results --------------------------------------------------------------------------------------


def _counts_table(counts: Counter[str]) -> Table:
    table = Table(title="Runs", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("what happened")
    table.add_column("times", justify="right")
    for what, times in sorted(counts.items()):
        table.add_row(what, f"{times:,}")
    return table


def _cells(covered: Counter[Any]) -> list[tuple[Any, ...]]:
    return [(*cell, times) for cell, times in sorted(covered.items())]


def _write_json(path: Path, result: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
