# mypy: disable-error-code="no-any-return"
"""Detections on processes of hosts and their connections, over the dicts of an endpoint agent."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import Pool, documents
from .helpers import Record, deep_get, documented, is_private, matches_any

logger = logging.getLogger("detections")

Alert = dict[str, Any]
Rule = Callable[[Alert], bool]

OFFICE_APPS = ["winword.exe", "excel.exe", "outlook.exe"]
SHELLS = {"cmd.exe", "powershell.exe", "bash", "sh"}
ENCODED = re.compile(r"-e(nc(odedcommand)?)?\s+[A-Za-z0-9+/=]{16,}", re.IGNORECASE)
LOLBINS = {"certutil.exe": "-urlcache", "bitsadmin.exe": "/transfer", "mshta.exe": "http"}
PORTS = {22: "ssh", 23: "telnet", 3389: "rdp"}
EPHEMERAL = range(49_152, 65_536)


def office_spawns_shell(event: Alert) -> bool:
    parent = deep_get(event, "process", "parent", "name", default="").lower()
    child = deep_get(event, "process", "name", default="").lower()
    return parent in OFFICE_APPS and child in SHELLS


def encoded_command(event: Alert) -> bool:
    command = deep_get(event, "process", "command_line", default="")
    return bool(ENCODED.search(command))


def living_off_the_land(event: Alert) -> bool:
    name = deep_get(event, "process", "name", default="")
    command = deep_get(event, "process", "command_line", default="").lower()
    for binary, argument in LOLBINS.items():
        if name == binary and argument in command:
            return True
    return False


def cleared_logs(event: Alert) -> bool:
    process = event.get("process")
    if not isinstance(process, dict):
        return False
    return matches_any(process["command_line"], ("wevtutil cl", "clear-eventlog"))


def suspicious_path(event: Alert, roots: tuple[str, ...], strict: bool = True) -> bool:
    path = deep_get(event, "process", "path", default="")
    if strict and not path.endswith(".exe"):
        return False
    return any(path.lower().startswith(root) for root in roots)


def elevated(event: Alert) -> bool:
    user = event["process"]["user"]
    return user["uid"] == 0 and user.get("name") != "root"


@documented
def deep_tree(event: Alert) -> bool:
    return event["process"]["parent"]["name"] == "bash" if event.get("depth", 0) > 3 else False


class FirstSeen(FIFOFilter):
    """Processes that run for the first time under a user; services are not remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[tuple[str, str]] = set()

    def enqueue(self, event: Event) -> None:
        alert = event.content
        user = deep_get(alert, "process", "user", "name")
        if user is None or user.startswith("svc-"):
            return
        pair = (user, deep_get(alert, "process", "name", default="?"))
        if pair in self.known:
            return
        self.known.add(pair)
        super().enqueue(event)


class Triage(FIFOFilter):
    """Runs rules over each alert; a rule that fails is logged, and the alert kept."""

    def __init__(self, *rules: Rule) -> None:
        super().__init__()
        self.rules = rules

    def enqueue(self, event: Event) -> None:
        for rule in self.rules:
            try:
                found = rule(event.content)
            except (KeyError, TypeError):
                logger.exception("a rule has failed")
                found = True
            if found:
                super().enqueue(event)
                return


class Beacon(FIFOFilter):
    """Connections of one process that come at even intervals."""

    def __init__(self, process: str, jitter: float = 1.0) -> None:
        super().__init__()
        self.process = process
        self.jitter = jitter
        self.times: deque[float] = deque(maxlen=3)

    def enqueue(self, event: Event) -> None:
        alert = event.content
        if alert.get("kind") != "connection" or deep_get(alert, "process", "name") != self.process:
            return
        self.times.append(alert["time"])
        if len(self.times) == 3:
            first, second, third = self.times
            if abs((third - second) - (second - first)) <= self.jitter:
                super().enqueue(event)


class Enriched(FIFOFilter):
    """Adds the service's name to connections with a known port; the rest is left out."""

    def enqueue(self, event: Event) -> None:
        alert = event.content
        port = deep_get(alert, "network", "port")
        if port in PORTS:
            super().enqueue(event.replace({**alert, "service": PORTS[port]}))


class AlertsOnly(FIFOFilter):
    """Everything that is not of the agent itself."""

    def enqueue(self, event: Event) -> None:
        if event.content.get("kind") == "heartbeat":
            return None
        return FIFOFilter.enqueue(self, event)


class OutboundAlerts(AlertsOnly):
    def enqueue(self, event: Event) -> None:
        direction = event.content.get("direction", "in")
        if direction == "out":
            super().enqueue(event)


class Tree(FIFOFilter):
    """Keeps whose child each process is; grandchildren of an office application go on."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: dict[str, str] = {}

    def enqueue(self, event: Event) -> None:
        name = str(deep_get(event.content, "process", "name", default="?"))
        parent = str(deep_get(event.content, "process", "parent", "name", default="?"))
        self.parents[name] = parent
        if self.parents.get(parent, "").lower() in OFFICE_APPS:
            super().enqueue(event)


def remote_desktop(event: Record) -> bool:
    port = event.deep_get("network", "port", default=0)
    if PORTS.get(port) not in {"rdp", "telnet"}:
        return False
    address = event.deep_get("network", "address", default="10.")
    return not is_private(address)


def high_port(event: Record) -> bool:
    return (
        event.get("direction") == "out"
        and event.deep_get("network", "port", default=-1) in EPHEMERAL
        and event.deep_get("network", "bytes", default=0) // 1024 >= 64
    )


def exfiltration(event: Alert, factor: int = 10) -> bool:
    network = event["network"]
    sent, received = network["bytes"], network.get("received", 0)
    return sent > max(received * factor, 50_000)


def long_name(event: Alert) -> bool:
    name: Any = deep_get(event, "process", "name", default="")
    try:
        stem = name.strip()
    except AttributeError:
        return False
    return len(stem) != len(name) or len(stem) > 14


def renamed(event: Alert) -> bool:
    name = event["process"]["name"]
    original = event["process"].get("original", name)
    return name.casefold() != original.casefold()


def from_shell(event: Alert) -> bool:
    parent = event["process"]["parent"]["name"] or "?"
    return f"{parent}>{event['process']['name']}" in ("bash>bash", "excel.exe>cmd.exe")


def negligible(event: Alert) -> bool:
    """What is thrown away at once, said the other way round."""
    kept = event.get("kind") in ("process", "connection") and event.get("depth", 0) >= 1
    return not kept


shape: dict[str, Pool] = {
        "process": {
            "original": ("cmd.exe", "powershell.exe", "bash", "VI"),
            "name": ("cmd.exe", "PowerShell.exe", "certutil.exe", "mshta.exe", "bash", "vi", " vi"),
            "command_line": (
                "powershell -EncodedCommand SQBFAFgAIAAoAE4AZQB3AC0A", "x -enc AAAA", "mshta http://x",
                "certutil -URLCache -f http://x", "wevtutil cl System", "Clear-EventLog", "",
            ),
            "path": ("C:\\Users\\Public\\a.exe", "c:\\temp\\b.EXE", "c:\\temp\\c.exe", "/bin/sh"),
            "parent": {"name": ("WINWORD.EXE", "excel.exe", "bash", "explorer.exe")},
            "user": {"uid": (0, 0, 1000), "name": ("root", "ann", "svc-backup", None)},
        },
        "depth": (1, 3, 4, 9),
        "kind": ("process", "connection", "connection", "heartbeat"),
        "direction": ("in", "out"),
        "network": {
            "port": (22, 23, 443, 3389, 49_151, 49_152, 65_535),
            "address": ("10.9.9.9", "203.0.113.5", "127.0.0.1"),
            "bytes": (0, 49_999, 50_001, 65_535, 65_536, 1_000_000),
            "received": (0, 100, 5_000, 99_999),
        },
        "time": (0.0, 10.0, 20.0, 20.5, 30.0),
}  # fmt: skip
evenly: dict[str, Pool] = shape | {
    "kind": ("connection", "connection", "process"),
    "process": {"name": ("bash", "bash", "vi")},
}
processes = documents(shape)
records = documents(shape, record=True)

COMMAND = "deep_get(content, 'process', 'command_line', '')"
PATH = "deep_get(content, 'process', 'path', '')"
ELEVATED = (
    "content['process']['user']['uid'] = 0"
    " AND get(content['process']['user'], 'name', NULL) != 'root'"
)
DEEP_TREE = "get(content, 'depth', 0) > 3 AND content['process']['parent']['name'] = 'bash'"
NAME = "deep_get(content, 'process', 'name', '')"
PORT = "deep_get(content, 'network', 'port', 0)"
ADDRESS = "deep_get(content, 'network', 'address', '10.')"
PARENT = "content['process']['parent']['name']"

CASES: list[Case] = [
    Case(
        office_spawns_shell,
        "DEFINED(lower(deep_get(content, 'process', 'parent', 'name', '')))"
        " AND DEFINED(lower(deep_get(content, 'process', 'name', '')))"
        " AND lower(deep_get(content, 'process', 'parent', 'name', ''))"
        " IN ('winword.exe', 'excel.exe', 'outlook.exe')"
        " AND lower(deep_get(content, 'process', 'name', ''))"
        " IN ('bash', 'cmd.exe', 'powershell.exe', 'sh')",
        True, processes, None, ("deep-get", "case-change", "local", "in-set", "module-constant"),
    ),
    Case(
        encoded_command,
        f"search({COMMAND}, '(?i)-e(nc(odedcommand)?)?\\s+[A-Za-z0-9+/=]{{16,}}')",
        True, processes, None, ("regex-precompiled", "deep-get", "conversion"),
    ),
    Case(
        living_off_the_land,
        f"DEFINED(lower({COMMAND})) AND (deep_get(content, 'process', 'name', '') = 'certutil.exe'"
        f" AND contains(lower({COMMAND}), '-urlcache')"
        " OR deep_get(content, 'process', 'name', '') = 'bitsadmin.exe'"
        f" AND contains(lower({COMMAND}), '/transfer')"
        " OR deep_get(content, 'process', 'name', '') = 'mshta.exe'"
        f" AND contains(lower({COMMAND}), 'http'))",
        True, processes, None, ("for-constants", "deep-get", "substring", "case-change"),
    ),
    Case(
        cleared_logs,
        "isinstance(get(content, 'process', NULL), 'dict')"
        " AND (contains(lower(content['process']['command_line']), 'wevtutil cl')"
        " OR contains(lower(content['process']['command_line']), 'clear-eventlog'))",
        True, processes, None, ("isinstance", "dict-item", "imported-helper", "early-return"),
    ),
    Case(
        partial(suspicious_path, roots=("c:\\users\\public", "c:\\temp")),
        f"endswith({PATH}, '.exe') AND (startswith(lower({PATH}), 'c:\\users\\public')"
        f" OR startswith(lower({PATH}), 'c:\\temp'))",
        True, processes, None,
        ("partial", "deep-get", "default-argument", "any-all-gen", "startswith-endswith"),
    ),
    Case(elevated, ELEVATED, True, processes, None, ("dict-item", "dict-get", "local")),
    Case(deep_tree, DEEP_TREE, True, processes, None, ("ternary", "decorator", "dict-item")),
    Case(
        FirstSeen,
        "NOT (deep_get(content, 'process', 'user', 'name', NULL) IS NULL"
        " OR startswith(deep_get(content, 'process', 'user', 'name', NULL), 'svc-'))",
        False, processes, None, ("state-dedupe", "deep-get", "early-return", "is-none"),
    ),
    Case(
        Triage, f"{ELEVATED} OR {DEEP_TREE}", False, processes, None,
        ("try", "for-constants", "parameter", "logging", "helper-function"),
        args=(elevated, deep_tree),
    ),
    Case(
        Beacon,
        "NOT (get(content, 'kind', NULL) != 'connection'"
        " OR deep_get(content, 'process', 'name', NULL) != 'bash')",
        False, documents(evenly), None,
        ("state-rate", "unpacking", "abs", "deep-get", "parameter", "early-return"),
        args=("bash",),
    ),
    Case(
        Enriched, "deep_get(content, 'network', 'port', NULL) IN (22, 23, 3389)",
        False, processes, None, ("transform", "in-dict", "deep-get", "local"),
    ),
    Case(
        OutboundAlerts,
        "get(content, 'direction', 'in') = 'out' AND NOT get(content, 'kind', NULL) = 'heartbeat'",
        True, processes, None, ("super-chain", "base-call", "dict-get", "early-return"),
    ),
    Case(
        Tree, "TRUE", False, processes, None,
        ("state-change", "deep-get", "case-change", "conversion"),
    ),
    Case(
        remote_desktop,
        f"{PORT} IN (23, 3389) AND NOT (startswith({ADDRESS}, '10.')"
        f" OR startswith({ADDRESS}, '192.168.') OR startswith({ADDRESS}, '127.'))",
        True, records, None, ("deep-get-method", "in-dict", "imported-helper", "not-in"),
    ),
    Case(
        high_port,
        "get(content, 'direction', NULL) = 'out'"
        " AND isinstance(deep_get(content, 'network', 'port', -1), 'int', 'float')"
        " AND deep_get(content, 'network', 'port', -1) >= 49152"
        " AND deep_get(content, 'network', 'port', -1) < 65536"
        " AND deep_get(content, 'network', 'port', -1) % 1 = 0"
        " AND deep_get(content, 'network', 'bytes', 0) // 1024 >= 64",
        True, records, None, ("deep-get-method", "in-range", "arithmetic", "module-constant"),
    ),
    Case(
        exfiltration,
        "content['network']['bytes']"
        " > max(get(content['network'], 'received', 0) * 10, 50000)",
        True, processes, None, ("dict-item", "min-max", "unpacking", "default-argument"),
    ),
    Case(
        long_name,
        f"len(strip({NAME})) != len({NAME}) OR len(strip({NAME})) > 14",
        False, processes, None, ("try", "strip", "len", "deep-get"),
    ),
    Case(
        renamed,
        "casefold(content['process']['name'])"
        " != casefold(get(content['process'], 'original', content['process']['name']))",
        True, processes, None, ("dict-item", "dict-get", "case-change", "field-with-field"),
    ),
    Case(
        from_shell,
        f"str(CASE WHEN {PARENT} THEN {PARENT} ELSE '?' END) + '>'"
        " + str(content['process']['name']) IN ('bash>bash', 'excel.exe>cmd.exe')",
        True, processes, None, ("f-string", "dict-item", "in-tuple", "truthiness"),
    ),
    Case(
        negligible,
        "NOT (get(content, 'kind', NULL) IN ('process', 'connection')"
        " AND get(content, 'depth', 0) >= 1)",
        True, processes, None, ("boolean", "dict-get", "local", "in-tuple"),
    ),
]  # fmt: skip
