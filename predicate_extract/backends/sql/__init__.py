"""A predicate as the WHERE clause of a SQL query. Needs the extra `sql`."""

from predicate_extract.backends.sql.conditions import DIALECTS, to_sql

__all__ = ["DIALECTS", "to_sql"]
