"""Requests, as parsed from the access log of a web server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated

from activebroker import Zone

STATIC = (".css", ".js", ".png", ".woff2")


class Cache(Enum):
    HIT = "HIT"
    MISS = "MISS"
    BYPASS = "BYPASS"


@dataclass(frozen=True)
class Upstream:
    name: str
    duration: float | None
    retries: int


@dataclass(frozen=True)
class Request:
    method: str
    host: str
    path: str
    query: str
    status: int
    size: int
    duration: float
    client: str
    agent: str | None
    referer: str | None
    user: str | None
    cache: Cache
    upstream: Upstream | None
    at: Annotated[datetime, Zone("UTC")]

    @property
    def failed(self) -> bool:
        return self.status >= 500

    @property
    def is_static(self) -> bool:
        return self.path.lower().endswith(STATIC)

    @property
    def url(self) -> str:
        return self.host + self.path
