"""What each consumer must get, computed with pandas from the file: none of our code is used here,
but for the model's constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from activebroker.cli.demo.filters import CRUISE, MILES_OF_CLIMB, SLOW, STEPS
from activebroker.cli.demo.flights import data_file

Floats = npt.NDArray[np.float64]


def flights(months: int) -> pd.DataFrame:
    """All flights in each supplier's order, with `supplier` and `seq`."""
    frame = pd.read_csv(data_file())
    frame = frame[frame["month"] <= months].sort_values(["time_hour", "minute"], kind="stable")
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    frame["supplier"] = frame["origin"]
    frame["seq"] = frame.groupby("origin").cumcount()
    return frame


def late_delta(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.query("carrier == 'DL' and dep_delay > 60")


def off_the_mean(frame: pd.DataFrame, deviations: float = 2.0, warm_up: int = 30) -> pd.DataFrame:
    departed = frame[frame["dep_delay"].notna()]
    delays = departed.groupby(["origin", "dest"])["dep_delay"]
    # Each flight is compared with those before it on its route.
    mean = delays.transform(lambda route: route.expanding().mean().shift())
    deviation = delays.transform(lambda route: route.expanding().std().shift())
    far = (departed["dep_delay"] - mean).abs() > deviations * deviation
    return departed[(delays.cumcount() >= warm_up) & far]


def strong_wind(frame: pd.DataFrame, miles: int = 2000, strong: float = 40.0) -> pd.DataFrame:
    long = frame[(frame["distance"] >= miles) & frame["air_time"].notna()].copy()
    wind = _wind(long["distance"].to_numpy(np.float64), long["air_time"].to_numpy(np.float64))
    long["wind"] = wind.round(1)
    columns = ["carrier", "flight", "origin", "dest", "distance", "air_time", "wind"]
    return long.loc[long["wind"].abs() > strong, ["supplier", "seq", *columns]]


def _wind(distance: Floats, minutes: Floats) -> Floats:
    """Newton's method on all flights at once, from a wind that is surely too low."""
    where = (np.arange(STEPS) + 0.5) / STEPS * distance[:, None]
    share = np.minimum(1.0, np.minimum(where, distance[:, None] - where) / MILES_OF_CLIMB)
    speed = SLOW + (CRUISE - SLOW) * share
    wind = 60.0 * distance / minutes - CRUISE
    for _ in range(12):
        pace = 1.0 / (speed + wind[:, None])
        over = 60.0 * distance * pace.mean(axis=1) - minutes
        wind += over / (60.0 * distance * (pace**2).mean(axis=1))
    return wind


@dataclass(frozen=True, slots=True)
class Verdict:
    """How what came compares with what was expected."""

    expected: int
    got: int
    in_order: bool
    expected_checksum: int
    got_checksum: int

    @property
    def good(self) -> bool:
        return (
            self.in_order
            and self.expected == self.got
            and self.expected_checksum == self.got_checksum
        )


def compare(expected: pd.DataFrame, got: pd.DataFrame) -> Verdict:
    """Counts, order (each supplier's sequence numbers rise) and a checksum of all values."""
    steps = got.groupby("supplier")["seq"].diff().dropna() if len(got) else pd.Series([1])
    return Verdict(
        expected=len(expected),
        got=len(got),
        in_order=bool((steps > 0).all()),
        expected_checksum=_checksum(expected, expected),
        got_checksum=_checksum(got, expected),
    )


def _checksum(frame: pd.DataFrame, like: pd.DataFrame) -> int:
    """A sum of hashes of rows, so that the suppliers' interleaving does not matter."""
    if frame.empty:
        return 0
    columns = sorted(like.columns)
    same = frame[columns].astype(like.dtypes[columns].to_dict())
    hashes = pd.util.hash_pandas_object(same, index=False)
    return int(hashes.sum())
