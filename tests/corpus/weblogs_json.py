# mypy: disable-error-code="no-any-return"
"""Lines of a web server's JSON log and of a content delivery network, as dicts."""

from __future__ import annotations

import logging
import re
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import documents
from .helpers import deep_get, documented

logger = logging.getLogger(__name__)

Line = dict[str, Any]

RETRY_CODES = (429, 502, 503, 504)
COUNTRIES = {"DE": "eu", "FR": "eu", "US": "us", "CN": "cn"}
BLOCKED_ACTIONS = {"block", "challenge"}
SUSPICIOUS = ("union select", "<script", "${jndi:")
PATH_ID = r"/users/(\d+)/orders"
DEBUG = False
seen_hosts: set[str] = set()


class Slow(FIFOFilter):
    """Slow answers, in milliseconds as the log has them."""

    threshold: ClassVar[int] = 1_000
    ignored: ClassVar[tuple[str, ...]] = ("/health", "/ready")

    @staticmethod
    def milliseconds(line: Line) -> float:
        return float(line["request_time"]) * 1_000

    def enqueue(self, event: Event) -> None:
        line = event.content
        if line["path"] in self.ignored:
            return
        if self.milliseconds(line) > self.threshold:
            super().enqueue(event)


class VerySlow(Slow):
    threshold = 5_000


class SlowAndBig(Slow):
    """Skips the step between: asks the base of all filters."""

    def enqueue(self, event: Event) -> None:
        line = event.content
        if line["bytes"] > 1_000_000 and self.milliseconds(line) > self.threshold:
            FIFOFilter.enqueue(self, event)


class Sampled(FIFOFilter):
    """Writes errors to the standard error, forwards each tenth line of the others."""

    def __init__(self, rate: int = 10) -> None:
        super().__init__()
        self.rate = rate
        self.number = 0

    def enqueue(self, event: Event) -> None:
        status = event.content.get("status", 0)
        if status == 204 or status == 304:
            return
        self.number += 1
        if self.number % self.rate == 0:
            super().enqueue(event)


class Windowed(FIFOFilter):
    """Refused logins of an address, from the third in a minute on."""

    def __init__(self, limit: int = 3, seconds: float = 60.0) -> None:
        super().__init__()
        self.limit = limit
        self.seconds = seconds
        self._times: dict[str, deque[float]] = defaultdict(deque)

    def enqueue(self, event: Event) -> None:
        line = event.content
        if line.get("path") != "/login" or line.get("status") not in (401, 403):
            return
        times = self._times[str(line.get("client"))]
        now = line["time"]
        times.append(now)
        while times and now - times[0] > self.seconds:
            times.popleft()
        if len(times) >= self.limit:
            super().enqueue(event)


class Translated(FIFOFilter):
    """Brings lines of the old format to the new one; others pass."""

    def enqueue(self, event: Event) -> None:
        line = event.content
        match line:
            case {"version": 1, "status": status}:
                super().enqueue(event.replace({"version": 2, "http": {"status": status}}))
            case {"version": 2}:
                super().enqueue(event)
            case _:
                logger.warning("unknown format")


class Traced(FIFOFilter):
    """Tells about each line when it is asked to; forwards what failed."""

    def enqueue(self, event: Event) -> None:
        line = event.content
        if DEBUG:
            print(line, file=sys.stderr)
        if line.get("status", 200) >= 500:
            super().enqueue(event)


class Metered(FIFOFilter):
    """Counts by region, and forwards the lines of one."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region
        self.counts: dict[str, int] = {}

    def enqueue(self, event: Event) -> None:
        country = deep_get(event.content, "geo", "country", default="??")
        region = COUNTRIES.get(country, "other")
        try:
            if region == self.region:
                super().enqueue(event)
        finally:
            self.counts[region] = self.counts.get(region, 0) + 1


def should_retry(line: Line) -> bool:
    return line.get("status") in RETRY_CODES and line.get("attempt", 1) < 3


def attack(line: Line) -> bool:
    query = line.get("query") or ""
    lowered = query.lower()
    return any(pattern in lowered for pattern in SUSPICIOUS)


def blocked_abroad(line: Line) -> bool:
    if deep_get(line, "waf", "action") not in BLOCKED_ACTIONS:
        return False
    return deep_get(line, "geo", "country", default="DE") not in ("DE", "FR")


def order_path(line: Line) -> bool:
    return re.match(PATH_ID, line.get("path", "")) is not None


def european(line: Line) -> bool:
    country = line.get("geo", {}).get("country")
    return country in COUNTRIES and COUNTRIES[country] == "eu"


def cached_error(line: Line) -> bool:
    return all([line["status"] >= 400, line["cache"] == "HIT"])


def any_sign(line: Line) -> bool:
    return any(
        [
            line.get("waf") is None,
            deep_get(line, "waf", "score", default=0) >= 50,
            line.get("client", "").startswith("185."),
        ]
    )


def numeric_status(line: Line) -> bool:
    """Some servers write the status as text."""
    status = line.get("status")
    if isinstance(status, str):
        status = int(status)
    return status is not None and status >= 500


def bad_line(line: Line) -> bool:
    if "status" not in line:
        raise KeyError("a line without a status")
    return not isinstance(line["status"], int)


def ratio(line: Line) -> bool:
    sent, received = line["bytes"], line["received"]
    return sent / received > 100 if received else sent > 0


@documented
def from_agent(line: Line) -> bool:
    agent = deep_get(line, "headers", "user-agent", default="")
    return len(agent) < 5 or agent[:4].lower() == "curl"


def with_header(line: Line, header: str, values: tuple[str, ...]) -> bool:
    headers: Mapping[str, str] = line.get("headers") or {}
    return headers.get(header) in values


def new_host(line: Line) -> bool:
    """A host that was not seen before; tests are not remembered."""
    host = line.get("host", "")
    if host.endswith(".test") or host in seen_hosts:
        return False
    seen_hosts.add(host)
    return True


def at_least(field: str, minimum: float) -> Callable[[Line], bool]:
    return lambda line: float(line.get(field, 0)) >= minimum


lines = documents(
    {
        "version": (1, 2, 3),
        "host": ("shop", "blog", "a.test", ""),
        "path": ("/login", "/health", "/ready", "/users/17/orders", "/users/x/orders", ""),
        "query": (None, "", "id=1", "id=1 UNION SELECT 1", "<SCRIPT>", "x=${jndi:ldap}"),
        "status": (200, 200, 204, 304, 401, 403, 429, 499, 500, 503, "500", "200", "-", None),
        "attempt": (1, 2, 3, 4),
        "bytes": (0, 99, 101, 1_000_000, 1_000_001, 5_000_000),
        "received": (0, 1, 50),
        "request_time": (0.2, 1.0, 1.001, "0.9", "5.1", 7, "-"),
        "cache": ("HIT", "MISS", None),
        "client": ("185.1.1.1", "8.8.8.8", "10.0.0.1"),
        "time": (0.0, 10.0, 59.0, 60.0, 61.0, 100.0),
        "geo": {"country": ("DE", "FR", "US", "CN", "XX", None)},
        "waf": {"action": ("allow", "block", "challenge", None), "score": (0, 49, 50, 90)},
        "headers": {
            "user-agent": ("", "curl/8", "CURL/7", "x", "Mozilla/5.0", "Mozilla/4.0", "Opera/9"),
            "accept": ("*/*", "text/html"),
        },
    }
)
sane_lines = documents(
    {
        "host": ("shop", "blog", "a.test"),
        "path": ("/login", "/health", "/"),
        "status": (200, 401, 403, 503, 500, 499),
        "client": ("185.1.1.1", "8.8.8.8"),
        "time": (0.0, 10.0, 59.0, 60.0, 61.0, 100.0),
    }
)

CASES: list[Case] = [
    Case(
        Slow,
        "content['path'] NOT IN ('/health', '/ready')"
        " AND float(content['request_time']) * 1000 > 1000",
        True, lines, None,
        ("class-constant", "staticmethod", "helper-method", "conversion", "dict-item"),
    ),
    Case(
        VerySlow,
        "content['path'] NOT IN ('/health', '/ready')"
        " AND float(content['request_time']) * 1000 > 5000",
        True, lines, None, ("class-constant", "super-chain", "staticmethod", "dict-item"),
    ),
    Case(
        SlowAndBig,
        "content['bytes'] > 1000000 AND float(content['request_time']) * 1000 > 1000",
        True, lines, None, ("base-call", "class-constant", "conversion", "dict-item"),
    ),
    Case(
        Sampled,
        "NOT (get(content, 'status', 0) = 204 OR get(content, 'status', 0) = 304)",
        False, lines, None, ("state-counter", "dict-get", "early-return", "default-argument"),
    ),
    Case(
        Windowed,
        "NOT (get(content, 'path', NULL) != '/login'"
        " OR get(content, 'status', NULL) NOT IN (401, 403))",
        False, sane_lines, None,
        ("state-rate", "while", "dict-get", "not-in", "default-argument", "conversion"),
    ),
    Case(Translated, "TRUE", False, lines, None, ("match", "transform", "logging")),
    Case(
        Traced, "get(content, 'status', 200) >= 500", True, lines, None,
        ("io", "global", "dict-get", "comparison"),
    ),
    Case(
        Metered, "TRUE", False, lines, None,
        ("finally", "try", "state-counter", "deep-get", "in-dict", "parameter"), args=("eu",),
    ),
    Case(
        should_retry,
        "get(content, 'status', NULL) IN (429, 502, 503, 504) AND get(content, 'attempt', 1) < 3",
        True, lines, None, ("dict-get", "in-tuple", "module-constant"),
    ),
    Case(
        attack,
        "contains(lower(CASE WHEN get(content, 'query', NULL) THEN get(content, 'query', NULL)"
        " ELSE '' END), 'union select')"
        " OR contains(lower(CASE WHEN get(content, 'query', NULL) THEN get(content, 'query', NULL)"
        " ELSE '' END), '<script')"
        " OR contains(lower(CASE WHEN get(content, 'query', NULL) THEN get(content, 'query', NULL)"
        " ELSE '' END), '${jndi:')",
        True, lines, None, ("any-all-gen", "truthiness", "case-change", "substring", "dict-get"),
    ),
    Case(
        blocked_abroad,
        "deep_get(content, 'waf', 'action', NULL) IN ('block', 'challenge')"
        " AND deep_get(content, 'geo', 'country', 'DE') NOT IN ('DE', 'FR')",
        True, lines, None, ("deep-get", "imported-helper", "in-set", "not-in", "early-return"),
    ),
    Case(
        order_path, "match(get(content, 'path', ''), '/users/(\\d+)/orders')", True, lines, None,
        ("regex", "dict-get", "module-constant", "is-none"),
    ),
    Case(
        european,
        "CASE WHEN contains(content, 'geo') THEN get(content['geo'], 'country', NULL)"
        " ELSE NULL END IN ('DE', 'FR')",
        True, lines, None, ("dict-get", "in-dict", "local"),
    ),
    Case(
        cached_error,
        "DEFINED(content['status'] >= 400) AND DEFINED(content['cache'])"
        " AND content['status'] >= 400 AND content['cache'] = 'HIT'",
        True, lines, None, ("any-all-list", "dict-item"),
    ),
    Case(
        any_sign,
        "DEFINED(deep_get(content, 'waf', 'score', 0) >= 50)"
        " AND DEFINED(startswith(get(content, 'client', ''), '185.'))"
        " AND (get(content, 'waf', NULL) IS NULL OR deep_get(content, 'waf', 'score', 0) >= 50"
        " OR startswith(get(content, 'client', ''), '185.'))",
        True, lines, None, ("any-all-list", "deep-get", "dict-get", "startswith-endswith"),
    ),
    Case(
        numeric_status,
        "isinstance(get(content, 'status', NULL), 'str')"
        " AND int(get(content, 'status', NULL)) >= 500"
        " OR NOT isinstance(get(content, 'status', NULL), 'str')"
        " AND get(content, 'status', NULL) IS NOT NULL AND get(content, 'status', NULL) >= 500",
        True, lines, None, ("isinstance", "conversion", "dict-get", "is-none", "local"),
    ),
    Case(
        bad_line,
        "NOT contains(content, 'status') OR NOT isinstance(content['status'], 'int')",
        False, lines, None, ("raise", "isinstance", "not-in", "dict-item"),
    ),
    Case(
        ratio,
        "DEFINED(content['bytes']) AND CASE WHEN content['received']"
        " THEN content['bytes'] / content['received'] > 100 ELSE content['bytes'] > 0 END",
        True, lines, None, ("ternary", "unpacking", "dict-item", "arithmetic", "truthiness"),
    ),
    Case(
        from_agent,
        "len(deep_get(content, 'headers', 'user-agent', '')) < 5"
        " OR startswith(lower(deep_get(content, 'headers', 'user-agent', '')), 'curl')",
        True, lines, None, ("decorator", "deep-get", "len", "substring", "case-change"),
    ),
    Case(
        partial(with_header, header="accept", values=("text/html", "text/plain")),
        "CASE WHEN get(content, 'headers', NULL) THEN get(get(content, 'headers', NULL),"
        " 'accept', NULL) ELSE NULL END IN ('text/html', 'text/plain')",
        True, lines, None, ("partial", "dict-get", "truthiness", "in-tuple"),
    ),
    Case(
        new_host, "NOT endswith(get(content, 'host', ''), '.test')", False, sane_lines, None,
        ("state-dedupe", "global", "dict-get", "startswith-endswith", "boolean"),
    ),
    Case(
        at_least("request_time", 5), "float(get(content, 'request_time', 0)) >= 5",
        True, lines, None, ("closure", "lambda", "conversion", "dict-get"),
    ),
    Case(
        lambda line: line["geo"]["country"] == "DE" and line["waf"]["score"] > 49,
        "content['geo']['country'] = 'DE' AND content['waf']['score'] > 49", True, lines, None,
        ("lambda", "dict-item", "comparison"),
    ),
    Case(
        lambda line: "curl" in line.get("headers", {}).get("user-agent", "").lower(),
        "contains(lower(CASE WHEN contains(content, 'headers')"
        " THEN get(content['headers'], 'user-agent', '') ELSE '' END), 'curl')",
        True, lines, None, ("lambda", "dict-get", "substring", "case-change"),
    ),
]  # fmt: skip
