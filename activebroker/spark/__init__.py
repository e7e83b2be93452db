"""Spark as a place for filters, and filters for Spark's own DataFrames.

Importing this package does not import pyspark: an install without it gets `MissingExtra`, with what
to do, from the first call that needs it.
"""

from activebroker.spark.apply import apply
from activebroker.spark.java import java_home
from activebroker.spark.place import SparkPlace
from activebroker.spark.runner import SparkRunner
from activebroker.spark.session import session, stop
from activebroker.spark.transpile import transpile_udfs
from activebroker.spark.udf import udf

__all__ = [
    "SparkPlace",
    "SparkRunner",
    "apply",
    "java_home",
    "session",
    "stop",
    "transpile_udfs",
    "udf",
]
