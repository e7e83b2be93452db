"""A predicate as the WHERE clause of a SQL query. Needs the extra `sql`."""

from predicate_extract.backends.sql.conditions import DIALECTS, Where, to_sql, where

__all__ = ["DIALECTS", "Where", "to_sql", "where"]
