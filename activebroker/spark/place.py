"""Spark as a place for filters on channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from activebroker.core.errors import InvalidName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkPlace:
    """Tasks of a Spark application as brokers: `channel.derive(Heavy, at=SparkPlace(tasks=2))`.

    Each broker takes one of the application's slots (a core, unless `spark.task.cpus` says
    otherwise) for as long as the fabric of the program is open. Equal places are one place: filters
    that go there take its brokers in turn.

    `session` is the program's own session; without it, the active one, or else a small local one
    that ends with the program. `tasks` is the number of brokers.

    Raises InvalidName.
    """

    session: SparkSession | None = None
    tasks: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.tasks, bool) or not isinstance(self.tasks, int) or self.tasks < 1:
            raise InvalidName(
                f"SparkPlace(tasks=…): expected a number of brokers from 1 on, got {self.tasks!r}."
            )
        if self.session is not None and not hasattr(self.session, "createDataFrame"):
            raise InvalidName(
                f"SparkPlace(session=…): expected a SparkSession, got {self.session!r}."
            )
