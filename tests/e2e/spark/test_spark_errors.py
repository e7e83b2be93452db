"""What a user is shown of a filter that raises on Spark: the filter's own error, and its code.

Without postponed annotations: the classes travel to processes that lack this module, where names in
annotations could not be looked up.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from activebroker import Event, Fabric, FIFOFilter
from activebroker.spark import apply, udf

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),  # the first one starts Spark, slow on a busy machine
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@dataclass(frozen=True)
class Tick:
    number: int
    name: str


COLUMNS = "number long not null, name string not null"


def number_of(name: str) -> int:
    return {"a": 1}[name.swapcase().swapcase()]  # here it raises, and Spark cannot tell


class Mask(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.number and number_of(event.content.name):
            super().enqueue(event)


class Whole(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        number_of(event.content.name)
        super().enqueue(event.replace(event.content))


class Inverse(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if 1 / event.content.number > 0:
            super().enqueue(event)


class Dear(FIFOFilter):
    def enqueue(self, event: Event) -> None:
        if event.content.number > 3 and event.content.name == "a":
            super().enqueue(event)


@pytest.fixture
def ticks(spark: Any) -> Any:
    return spark.createDataFrame([(1, "a"), (7, "b")], COLUMNS).coalesce(1)


def streamed(df: Any, filter: object, folder: Path) -> None:
    spark = df.sparkSession
    df.write.parquet(f"{folder}/ticks")
    stream = spark.readStream.schema(df.schema).parquet(f"{folder}/ticks")
    query = apply(stream, filter, event_type=Tick).writeStream.format("noop").start()
    query.awaitTermination(60)


def in_sql(df: Any, filter: object, folder: Path) -> None:
    df.sparkSession.udf.register("wanted", udf(filter, Tick))
    df.createOrReplaceTempView("ticks")
    df.sparkSession.sql("SELECT * FROM ticks WHERE wanted(number, name)").collect()


def collected(df: Any, filter: object, folder: Path) -> None:
    apply(df, filter, event_type=Tick).collect()


def written(df: Any, filter: object, folder: Path) -> None:
    apply(df, filter, event_type=Tick).write.parquet(f"{folder}/result")


@pytest.mark.parametrize(
    ("run", "filter"),
    [
        (collected, Mask),
        (collected, Whole),
        (written, Mask),
        (in_sql, Mask),
        (streamed, Mask),
    ],
)
def test_the_error_is_led_by_the_filters_own(
    ticks: Any, tmp_path: Path, run: Callable[..., None], filter: type
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        run(ticks, filter, tmp_path)
    text = str(caught.value)
    first = (
        rf"FilterStopped: Filter {filter.__name__} raised KeyError: 'b', on row \d of its "
        r"partition: \w+\(number=7, name='b'\)"
    )
    raised = re.search(
        rf"An exception was thrown from the Python worker: ?\n?activebroker[.\w]*\.{first}\n"
        rf"Traceback \(most recent call last\):\n"
        rf'  File "{re.escape(__file__)}", line {line_of(filter.enqueue, "number_of")}, in enqueue',
        text,
    )
    assert raised, text
    rest = text[raised.start() :]
    assert "# here it raises" in rest and "on_error='skip'" in rest
    assert "pyspark" not in rest and "/activebroker/" not in rest and "\tat " not in rest


def line_of(function: Callable[..., object], part: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if part in line)


@pytest.mark.parametrize(
    ("filter", "row", "error"),
    [
        (Inverse, (0, "a"), 'ZeroDivisionError: division by zero on the row {"number":0}'),
        (
            Dear,
            (None, "a"),
            "TypeError: '>' not supported between instances of 'NoneType' and 'int' on the row "
            '{"number":null,"name":"a"}',
        ),
    ],
)
def test_so_is_one_that_spark_itself_raises(
    spark: Any, tmp_path: Path, filter: type, row: tuple[Any, ...], error: str
) -> None:
    from pyspark.errors import PySparkException

    df = spark.createDataFrame([row], "number int, name string")
    line = inspect.getsourcelines(filter.enqueue)[1]
    with pytest.raises(PySparkException) as caught:
        apply(df, filter).collect()
    assert str(caught.value).startswith(
        f"[USER_RAISED_EXCEPTION] Filter {filter.__name__} raises {error}, "
        f'File "{__file__}", line {line}. To drop such rows'
    )


def test_a_micro_batch_tells_the_same_of_its_events() -> None:
    with Fabric() as fabric:
        ticks = fabric.channel("ticks", Tick)
        derived = ticks.derive(Mask, at="spark")
        with derived.subscribe(timeout=120) as events, ticks.supplier("NYSE") as nyse:
            nyse.publish_batch([Tick(1, "a"), Tick(7, "b")])
            ticks.close()
            assert [event.content.number for event in events] == [1]
        (failure,) = derived.errors
        assert (failure.error, failure.content) == ("KeyError: 'b'", "Tick(number=7, name='b')")
        assert failure.traceback.splitlines()[1].endswith(
            f'"{__file__}", line {line_of(Mask.enqueue, "number_of")}, in enqueue'
        )


def test_a_function_of_sql_says_which_arguments_it_takes(spark: Any, ticks: Any) -> None:
    from pyspark.errors import PythonException

    wrong = ticks.filter(udf(Mask, Tick)("name"))
    with pytest.raises(PythonException, match=r"Mask\(number, name\) was called with 1 "):
        wrong.collect()
