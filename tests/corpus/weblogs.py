# mypy: disable-error-code="no-any-return"
"""Requests of a web server, as parsed from its access log."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import NAN, contents, maybe
from .helpers import documented, is_private, matches_any, normalized
from .weblogs_events import STATIC, Cache, Request, Upstream

logger = logging.getLogger(__name__)

SCANNERS = ("sqlmap", "nikto", "masscan")
SLOW = 2.0
ADMIN_PATHS = {"/admin", "/wp-admin", "/phpmyadmin"}
HEALTH_CHECKS = frozenset({"/healthz", "/readyz", "/metrics"})
TRAVERSAL = re.compile(r"\.\./|%2e%2e/", re.IGNORECASE)
API_VERSION = re.compile(r"/api/v(\d+)/")
BOTS = re.compile("bot|crawl|spider", re.I)
RELEASE = datetime(2024, 9, 1, 12, tzinfo=UTC)
BUDGETS = {"GET": 0.5, "POST": 1.5, "PUT": 1.5}


class Errors(FIFOFilter):
    """Server errors that are no probes."""

    def enqueue(self, event: Event) -> None:
        if event.content.path in HEALTH_CHECKS:
            return
        if event.content.failed:
            super().enqueue(event)


class SlowRequests(FIFOFilter):
    def __init__(self, limit: float = SLOW, *, include_static: bool = False) -> None:
        super().__init__()
        self.limit = limit
        self.include_static = include_static

    def enqueue(self, event: Event) -> None:
        request = event.content
        if request.is_static and not self.include_static:
            return
        if request.duration > self.limit:
            super().enqueue(event)


def client_error(request: Request) -> bool:
    return 400 <= request.status < 500 and request.status not in (401, 404)


def scanner(request: Request) -> bool:
    return request.agent is not None and matches_any(request.agent, SCANNERS)


def traversal(request: Request) -> bool:
    return bool(TRAVERSAL.search(request.path) or TRAVERSAL.search(request.query))


def bot(request: Request) -> bool:
    if not request.agent:
        return True
    return BOTS.search(request.agent) is not None


def old_api(request: Request) -> bool:
    return API_VERSION.match(request.path) is not None and not request.path.startswith("/api/v3/")


def admin_from_outside(request: Request) -> bool:
    if is_private(request.client):
        return False
    return request.path.rstrip("/") in ADMIN_PATHS


def foreign_referer(request: Request) -> bool:
    referer = request.referer
    if referer is None or referer == "-":
        return False
    return not referer.startswith(f"https://{request.host}/")


def hot_link(request: Request) -> bool:
    return (
        request.is_static
        and request.referer is not None
        and request.host not in request.referer
        and request.size > 100_000
    )


def over_budget(request: Request) -> bool:
    budget = BUDGETS.get(request.method, 5.0)
    if request.cache is Cache.HIT:
        budget = 0.1
    return request.duration > budget


def missed_cache(request: Request) -> bool:
    match request.cache, request.method:
        case Cache.MISS, "GET" | "HEAD":
            return request.status == 200
        case Cache.BYPASS, "GET":
            return request.user is None
    return False


def retried(request: Any) -> bool:
    return request.upstream.retries > 0 or request.upstream.duration > request.duration * 0.9


def upstream_share(request: Request) -> bool:
    upstream = request.upstream
    if upstream is None or upstream.duration is None or request.duration == 0:
        return False
    return round(upstream.duration / request.duration, 2) >= 0.9


def shop(request: Request) -> bool:
    return request.url.lower().startswith("shop.example/cart")


def after_release(request: Request) -> bool:
    return RELEASE <= request.at < RELEASE + timedelta(minutes=30) and request.status > 399


def in_the_night(request: Request) -> bool:
    hour = request.at.hour
    return hour in (22, 23) or hour in range(5)


def long_query(request: Request) -> bool:
    if (length := len(request.query)) > 20:
        return True
    return length > 10 and "=" not in request.query


def login_failure(request: Request) -> bool:
    is_login = request.method == "POST" and request.path == "/login"
    refused = request.status in {401, 403}
    return is_login and refused and not is_private(request.client)


@lru_cache(maxsize=1_024)
def kind_of(path: str) -> str:
    if path.startswith("/api/"):
        return "api"
    return "static" if path.endswith(STATIC) else "page"


def api_without_user(request: Request) -> bool:
    return kind_of(request.path) == "api" and request.user is None


def large(request: Request, kinds: tuple[str, ...], limit: int = 1 << 20) -> bool:
    return request.size >= limit and kind_of(request.path) in kinds


@documented
def impostor(request: Request) -> bool:
    """Says that it is a browser, asks like a script."""
    agent = normalized(request.agent)
    return agent.startswith("mozilla/") and request.referer is None and request.method == "PUT"


def named(*users: str) -> Callable[[Request], bool]:
    wanted = frozenset(users)

    def rule(request: Request) -> bool:
        return request.user in wanted

    return rule


class FirstVisits(FIFOFilter):
    """The first page that a user asks for; forgets the oldest users."""

    def __init__(self, capacity: int = 100) -> None:
        super().__init__()
        self.capacity = capacity
        self.users: OrderedDict[str, int] = OrderedDict()

    def enqueue(self, event: Event) -> None:
        request = event.content
        if request.user is None or request.status != 200:
            return
        if request.user in self.users:
            self.users[request.user] += 1
            return
        self.users[request.user] = 1
        while len(self.users) > self.capacity:
            self.users.popitem(last=False)
        super().enqueue(event)


class ErrorRate(FIFOFilter):
    """Errors while more than a part of the requests of a host fail: counts them all."""

    def __init__(self, host: str, share: float) -> None:
        super().__init__()
        self.host = host
        self.share = share
        self.requests = 0
        self.errors = 0

    def enqueue(self, event: Event) -> None:
        request = event.content
        if request.host != self.host:
            return
        self.requests += 1
        if not request.failed:
            return
        self.errors += 1
        if self.errors / self.requests > self.share:
            super().enqueue(event)


class Diary(FIFOFilter):
    """Logs each request at the lowest level before anything else."""

    def enqueue(self, event: Event) -> None:
        request = event.content
        logger.debug("%s %s", request.method, request.path)
        if request.method == "GET" and request.status == 200:
            return
        super().enqueue(event)


class Located(FIFOFilter):
    """Requests from some countries, by the tables of a library."""

    def __init__(self, country_of: Callable[[str], str | None], *countries: str) -> None:
        super().__init__()
        self.country_of = country_of
        self.countries = countries

    def enqueue(self, event: Event) -> None:
        country = self.country_of(event.content.client)
        if country in self.countries and not event.content.failed:
            super().enqueue(event)


class Anonymous(FIFOFilter):
    """Takes the client out of what it forwards."""

    def enqueue(self, event: Event) -> None:
        request = event.content
        if request.method not in ("GET", "POST"):
            return
        super().enqueue(event.replace(replace(request, client="0.0.0.0", user=None)))


requests = contents(
    Request,
    method=("GET", "POST", "PUT", "HEAD"),
    host=("shop.example", "Shop.Example", "blog.example"),
    path=(
        "/", "/login", "/healthz", "/admin/", "/admin", "/cart/1", "/api/v1/x", "/api/v3/x",
        "/a/%2E%2E/b", "/logo.PNG", "/app.js", "/api/app.css", "",
    ),
    query=("", "q=1", "file=../../etc/passwd", "abcdefghijk", "abcdefghij=", "x" * 21),
    status=(200, 301, 399, 400, 401, 403, 404, 499, 500, 503),
    size=(0, 512, 100_000, 100_001, 1 << 20, 5_000_000),
    duration=(0.0, 0.1, 0.11, 0.5, 0.51, 1.6, 2.0, 2.1, 5.1, NAN),
    client=("10.1.2.3", "192.168.0.9", "8.8.8.8", "100.64.0.1"),
    agent=(None, "", "Mozilla/5.0 X", "mozilla/4.0", "Googlebot/2.1", "SQLMap/1.7", "curl/8"),
    referer=(None, "-", "https://shop.example/", "https://evil.example/shop.example", "http://x"),
    user=(None, None, "ann", "bob", "eve"),
    cache=tuple(Cache),
    upstream=maybe(
        contents(
            Upstream,
            name=("a", "b"),
            duration=(None, 0.0, 0.1, 0.45, 1.9),
            retries=(0, 0, 1),
        )()
    ),
    at=(
        RELEASE - timedelta(seconds=1),
        RELEASE,
        RELEASE + timedelta(minutes=29),
        RELEASE + timedelta(minutes=30),
        RELEASE + timedelta(hours=10),
        RELEASE + timedelta(hours=16, minutes=59),
        RELEASE + timedelta(hours=17),
    ),
)  # fmt: skip

CASES: list[Case] = [
    Case(
        Errors, "path NOT IN ('/healthz', '/metrics', '/readyz') AND status >= 500",
        True, requests(), Request, ("in-set", "event-property", "early-return"),
    ),
    Case(
        SlowRequests,
        "NOT (endswith(lower(path), '.css') OR endswith(lower(path), '.js')"
        " OR endswith(lower(path), '.png') OR endswith(lower(path), '.woff2')) AND duration > 2.0",
        True, requests(), Request,
        ("parameter", "default-argument", "event-property", "startswith-endswith", "case-change"),
    ),
    Case(
        client_error, "400 <= status AND status < 500 AND status NOT IN (401, 404)",
        True, requests(), Request, ("chain", "not-in", "in-literal"),
    ),
    Case(
        scanner,
        "agent IS NOT NULL AND (contains(lower(agent), 'sqlmap') OR contains(lower(agent), 'nikto')"
        " OR contains(lower(agent), 'masscan'))",
        True, requests(), Request, ("imported-helper", "any-all-gen", "is-none", "substring"),
    ),
    Case(
        traversal,
        "search(path, '(?i)\\.\\./|%2e%2e/') OR search(query, '(?i)\\.\\./|%2e%2e/')",
        True, requests(), Request, ("regex-precompiled", "boolean", "conversion"),
    ),
    Case(
        bot, "NOT agent OR search(agent, '(?i)bot|crawl|spider')", True, requests(), Request,
        ("truthiness", "early-return", "regex-precompiled", "is-none"),
    ),
    Case(
        old_api, "match(path, '/api/v(\\d+)/') AND NOT startswith(path, '/api/v3/')",
        True, requests(), Request, ("regex-precompiled", "startswith-endswith"),
    ),
    Case(
        admin_from_outside,
        "NOT (startswith(client, '10.') OR startswith(client, '192.168.')"
        " OR startswith(client, '127.'))"
        " AND rstrip(path, '/') IN ('/admin', '/phpmyadmin', '/wp-admin')",
        True, requests(), Request,
        ("imported-helper", "in-set", "strip", "startswith-endswith", "module-constant"),
    ),
    Case(
        foreign_referer,
        "NOT (referer IS NULL OR referer = '-')"
        " AND NOT startswith(referer, 'https://' + host + '/')",
        True, requests(), Request, ("f-string", "is-none", "early-return", "local"),
    ),
    Case(
        hot_link,
        "(endswith(lower(path), '.css') OR endswith(lower(path), '.js')"
        " OR endswith(lower(path), '.png') OR endswith(lower(path), '.woff2'))"
        " AND referer IS NOT NULL AND NOT contains(referer, host) AND size > 100000",
        True, requests(), Request,
        ("event-property", "not-in", "substring", "field-with-field", "boolean"),
    ),
    Case(
        over_budget,
        "duration > CASE WHEN cache = 'HIT' THEN 0.1 ELSE CASE WHEN method = 'GET' THEN 0.5"
        " ELSE CASE WHEN method IN ('POST', 'PUT') THEN 1.5 ELSE 5.0 END END END",
        True, requests(), Request, ("in-dict", "enum", "local", "module-constant"),
    ),
    Case(
        missed_cache,
        "cache = 'MISS' AND method IN ('GET', 'HEAD') AND status = 200"
        " OR cache = 'BYPASS' AND method = 'GET' AND user IS NULL",
        True, requests(), Request, ("match", "enum", "is-none"),
    ),
    Case(
        retried, "upstream.retries > 0 OR upstream.duration > duration * 0.9",
        True, requests(), Request, ("nested-dataclass", "arithmetic", "field-with-field"),
    ),
    Case(
        upstream_share,
        "NOT (upstream IS NULL OR upstream.duration IS NULL OR duration = 0)"
        " AND round(upstream.duration / duration, 2) >= 0.9",
        True, requests(), Request,
        ("nested-dataclass", "is-none", "round", "early-return", "arithmetic"),
    ),
    Case(
        shop, "startswith(lower(host + path), 'shop.example/cart')", True, requests(), Request,
        ("event-property", "concatenation", "case-change", "startswith-endswith"),
    ),
    Case(
        after_release,
        "TIMESTAMP '2024-09-01 12:00:00+00:00' <= at"
        " AND at < TIMESTAMP '2024-09-01 12:30:00+00:00' AND status > 399",
        True, requests(), Request, ("datetime-aware", "chain", "timedelta", "module-constant"),
    ),
    Case(
        in_the_night, "hour(at) IN (22, 23) OR hour(at) >= 0 AND hour(at) < 5",
        True, requests(), Request, ("datetime-part", "in-tuple", "in-range", "local"),
    ),
    Case(
        long_query, "len(query) > 20 OR len(query) > 10 AND NOT contains(query, '=')",
        True, requests(), Request, ("walrus", "len", "substring", "early-return", "not-in"),
    ),
    Case(
        login_failure,
        "method = 'POST' AND path = '/login' AND status IN (401, 403)"
        " AND NOT (startswith(client, '10.') OR startswith(client, '192.168.')"
        " OR startswith(client, '127.'))",
        True, requests(path=("/login", "/"), status=(401, 403, 200)), Request,
        ("local", "in-literal", "imported-helper", "boolean"),
    ),
    Case(
        api_without_user, "startswith(path, '/api/') AND user IS NULL", True, requests(), Request,
        ("lru-cache", "helper-function", "early-return", "is-none"),
    ),
    Case(
        partial(large, kinds=("static", "api")),
        "size >= 1048576 AND (startswith(path, '/api/') OR endswith(path, '.css')"
        " OR endswith(path, '.js') OR endswith(path, '.png') OR endswith(path, '.woff2'))",
        True, requests(), Request,
        ("partial", "lru-cache", "helper-function", "default-argument", "ternary"),
    ),
    Case(
        impostor,
        "startswith(lower(strip(CASE WHEN agent THEN agent ELSE '' END)), 'mozilla/')"
        " AND referer IS NULL AND method = 'PUT'",
        True, requests(method=("PUT", "GET")), Request,
        ("decorator", "imported-helper", "case-change", "strip", "is-none"),
    ),
    Case(
        named("ann", "eve"), "user IN ('ann', 'eve')", True, requests(), Request,
        ("closure", "in-set"),
    ),
    Case(
        FirstVisits, "NOT (user IS NULL OR status != 200)", False, requests(), Request,
        ("state-dedupe", "while", "early-return", "default-argument"),
    ),
    Case(
        ErrorRate, "host = 'shop.example'", False, requests(), Request,
        ("state-rate", "parameter", "event-property", "early-return"), args=("shop.example", 0.15),
    ),
    Case(Diary, "TRUE", False, requests(), Request, ("logging", "early-return", "boolean")),
    Case(
        Located, "TRUE", False, requests(), Request,
        ("unknown-call", "parameter", "event-property", "local"),
        args=({"8.8.8.8": "us", "10.1.2.3": "de"}.get, "us", "fr"),
    ),
    Case(
        Anonymous, "method IN ('GET', 'POST')", False, requests(), Request,
        ("transform", "not-in", "early-return"),
    ),
    Case(
        lambda request: request.status // 100 == 5 or (request.user or "-").upper() == "EVE",
        "status // 100 = 5 OR upper(CASE WHEN user THEN user ELSE '-' END) = 'EVE'",
        True, requests(), Request, ("lambda", "arithmetic", "truthiness", "case-change"),
    ),
]  # fmt: skip
