"""One filter over years of flights as a DataFrame, in SQL, live on Spark, and moved to a broker.

It needs the extras `spark` and `demo`. The years are copies of 2013.
"""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import activebroker as ab
from activebroker.cli.demo.flights import Flight, days
from activebroker.fabric import serve
from activebroker.spark import SparkPlace, apply, session, udf

YEARS = range(2004, 2014)


class LongDelay(ab.FIFOFilter):
    def enqueue(self, event):
        flight = event.content
        if flight.dep_delay is not None and flight.dep_delay > 120 and flight.dest != "SFO":
            super().enqueue(event)


def write_history(flights: list[pa.Table], folder: str) -> None:
    year = pa.concat_tables(flights)
    place = year.schema.get_field_index("year")
    for number in YEARS:
        column = pa.array([number] * year.num_rows, pa.int64())
        pq.write_table(year.set_column(place, "year", column), Path(folder, f"{number}.parquet"))


def in_batch(folder: str) -> list[int]:
    """How many of the history's flights were long delayed: as a DataFrame, and in SQL."""
    spark = session()
    history = spark.read.parquet(folder)
    delayed = apply(history, LongDelay)
    history.createOrReplaceTempView("history")
    spark.udf.register("long_delay", udf(LongDelay, Flight))
    query = "SELECT count(*) AS n FROM history WHERE long_delay(dep_delay, dest)"
    return [delayed.count(), spark.sql(query).first()["n"]]


def live(flights: list[pa.Table], address: str, key: str) -> int:
    """The same of a year, day by day: first in a Spark task, then at the broker `atlanta`."""
    with ab.connect(address, key) as fabric:
        channel = fabric.channel("flights", Flight)
        delayed = channel.derive(LongDelay, at=SparkPlace(session()))
        with channel.supplier("EWR") as airport, delayed.subscribe() as events:
            for number, day in enumerate(flights):
                if number == len(flights) // 2:
                    delayed.move(to="atlanta")
                airport.publish_batch(day)
            channel.close()
            return sum(1 for _ in events)


def main(months: int = 12) -> list[int]:
    flights = days("EWR", months)
    key = ab.generate_key()
    hub = serve("hub", "tcp://127.0.0.1:*", key)
    atlanta = serve("atlanta", "tcp://127.0.0.1:*", key, join_address=hub.transport.address)
    try:
        with tempfile.TemporaryDirectory() as folder:
            write_history(flights, folder)
            got = [*in_batch(folder), live(flights, hub.transport.address, key)]
    finally:
        atlanta.stop()
        hub.stop()
    print(f"{len(YEARS)} years as a DataFrame and in SQL, and one of them live: {got}")
    return got


if __name__ == "__main__":
    main()
