# mypy: disable-error-code="no-any-return"
"""Detections on logins and source hosting, over the nested dicts that their APIs send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

from activebroker import Event, FIFOFilter

from .case import Case
from .drawing import Pool, documents, lists
from .helpers import Record, deep_get, is_private, severity

Alert = dict[str, Any]

ADMIN_ROLES = frozenset({"SUPER_ADMIN", "ORG_ADMIN", "APP_ADMIN"})
FAILED = "FAILURE"
LOGIN_EVENTS = {"user.session.start", "user.authentication.sso"}
MFA_CHANGES = (
    "user.mfa.factor.deactivate",
    "user.mfa.factor.reset_all",
    "user.mfa.factor.suspend",
)
BRANCH_ACTIONS = {
    "protected_branch.destroy": "removed",
    "protected_branch.policy_override": "overridden",
    "protected_branch.rejected_ref_update": "refused",
}
TRUSTED_DOMAINS = ("example.com", "example.org")
HOME_COUNTRY = "Germany"
SCORE_LIMIT = 70


class Rule(Protocol):
    def __call__(self, event: Alert) -> bool: ...


def is_login(event: Alert) -> bool:
    return event.get("eventType") in LOGIN_EVENTS


def actor_domain(event: Alert) -> str:
    """What stands after the name of the actor, in lower case."""
    return str(deep_get(event, "actor", "alternateId", default="")).lower()


def only_failures(rule: Rule) -> Rule:
    """Leaves to a rule what has failed."""

    @wraps(rule)
    def guarded(event: Alert) -> bool:
        if deep_get(event, "outcome", "result") != FAILED:
            return False
        return rule(event)

    return guarded


# Logins.


def admin_role_assigned(event: Alert) -> bool:
    if event.get("eventType") != "user.account.privilege.grant":
        return False
    if deep_get(event, "outcome", "result", default="") != "SUCCESS":
        return False
    role = deep_get(event, "debugContext", "role", default="").upper()
    return role in ADMIN_ROLES


def mfa_disabled(event: Alert) -> bool:
    return event.get("eventType", "") in MFA_CHANGES and event["outcome"]["result"] == "SUCCESS"


def login_from_abroad(event: Alert) -> bool:
    if not is_login(event):
        return False
    country = deep_get(event, "client", "geo", "country")
    if country is None:
        return False
    return country != HOME_COUNTRY and not is_private(event.get("client", {}).get("ip", ""))


@only_failures
def password_guessing(event: Alert) -> bool:
    return is_login(event) and deep_get(event, "outcome", "reason") == "INVALID_CREDENTIALS"


@severity("high")
def support_access(event: Alert) -> bool:
    return all(
        [
            event.get("eventType", "").startswith("user.session."),
            actor_domain(event).endswith("@vendor.example"),
            deep_get(event, "outcome", "result") != FAILED,
        ]
    )


def outside_actor(event: Alert) -> bool:
    actor = actor_domain(event)
    if not actor or "@" not in actor:
        return False
    return not any(actor.endswith("@" + domain) for domain in TRUSTED_DOMAINS)


def high_risk(event: Alert) -> bool:
    score = deep_get(event, "debugContext", "score", default=0)
    if not isinstance(score, int | float):
        return False
    return score >= SCORE_LIMIT


def impossible_client(event: Alert) -> bool:
    client = event.get("client") or {}
    match client:
        case {"device": "Unknown", "ip": str(ip)}:
            return not ip.startswith("10.")
        case {"device": "Server"}:
            return is_login(event)
        case _:
            return False


def session_in_shadow(event: Record) -> bool:
    if event.deep_get("actor", "type", default="User") == "SystemPrincipal":
        return False
    return (
        event.deep_get("client", "geo", "country", default="") == ""
        and event.deep_get("client", "device", default="Unknown") == "Unknown"
    )


def api_token_created(event: Record) -> bool:
    if (kind := event.deep_get("eventType")) is None:
        return False
    return kind == "system.api_token.create" and event.deep_get("actor", "type") != "Robot"


def reset_by_other(event: Record) -> bool:
    """Someone else than the owner has changed a password."""
    actor = event.deep_get("actor", "alternateId", default="")
    target = event.deep_get("target", "alternateId", default="")
    return event.get("eventType") == "user.account.reset_password" and actor != target != ""


# Source hosting.


def branch_protection(event: Alert) -> bool:
    return event.get("action") in BRANCH_ACTIONS and not event.get("is_dependabot", False)


def branch_policy_overridden(event: Alert) -> bool:
    return BRANCH_ACTIONS.get(event.get("action", ""), "").startswith("over")


def repository_public(event: Alert) -> bool:
    if event.get("action") != "repo.access":
        return False
    before, after = event.get("previous_visibility"), event.get("visibility")
    return before in ("private", "internal") and after == "public"


def secret_scanning_off(event: Alert) -> bool:
    action = event.get("action", "")
    return action.startswith("secret_scanning") and action.endswith((".disable", ".delete"))


def many_keys(event: Alert) -> bool:
    keys = event.get("keys") or []
    return len(keys) > 2 or "deploy" in keys


def clone_by_stranger(event: Alert, known: frozenset[str] = frozenset({"ci-bot", "ann"})) -> bool:
    if event["action"] != "git.clone":
        return False
    return event["user"] not in known or bool(event.get("programmatic"))


class Context(FIFOFilter):
    """Looks the actor up in the directory first, and adds what is known to the alert."""

    def __init__(self, lookup: Callable[[str], str | None]) -> None:
        super().__init__()
        self.lookup = lookup

    def enqueue(self, event: Event) -> None:
        department = self.lookup(actor_domain(event.content))
        if department is None or high_risk(event.content):
            super().enqueue(event.replace({**event.content, "department": department}))


class Audited(FIFOFilter):
    """Counts what kinds of events there are; changes of factors are forwarded."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()

    def enqueue(self, event: Event) -> None:
        kind = event.content.get("eventType", "?")
        self.kinds[kind] += 1
        if mfa_disabled(event.content):
            super().enqueue(event)


logins: dict[str, Pool] = {
    "eventType": (
        "user.session.start", "user.session.end", "user.authentication.sso",
        "user.account.privilege.grant", "user.mfa.factor.reset_all", "system.api_token.create",
        "user.account.reset_password",
    ),
    "outcome": {
        "result": ("SUCCESS", "FAILURE", "FAILURE", "ALLOW"),
        "reason": ("INVALID_CREDENTIALS", "LOCKED_OUT", None),
    },
    "actor": {
        "alternateId": ("ann@example.com", "Eve@Vendor.example", "bob@mail.test", "system", None),
        "type": ("User", "SystemPrincipal", "Robot"),
    },
    "target": {"alternateId": ("ann@example.com", "", "bob@mail.test", None)},
    "client": {
        "ip": ("10.0.0.1", "203.0.113.9", "192.168.4.4", None),
        "device": ("Computer", "Unknown", "Server"),
        "geo": {"country": ("Germany", "France", None, "")},
    },
    "debugContext": {
        "role": ("Super_Admin", "APP_ADMIN", "READ_ONLY"),
        "score": (0, 69, 70, 71.5, "90", True, None),
    },
}  # fmt: skip
hosting = documents(
    {
        "action": (
            "protected_branch.destroy", "protected_branch.policy_override", "repo.access",
            "secret_scanning.disable", "secret_scanning_alert.delete", "git.clone", "repo.create",
        ),
        "previous_visibility": ("private", "internal", "public"),
        "visibility": ("private", "public", "public"),
        "is_dependabot": (True, False, None),
        "keys": lists(("deploy", "read", "write"), 4),
        "user": ("ann", "ci-bot", "eve"),
        "programmatic": (True, False, None, 0),
    }
)  # fmt: skip
sessions = documents(logins)
records = documents(logins, record=True)

ACTOR = "lower(str(deep_get(content, 'actor', 'alternateId', '')))"
IS_LOGIN = "get(content, 'eventType', NULL) IN ('user.authentication.sso', 'user.session.start')"

CASES: list[Case] = [
    Case(
        admin_role_assigned,
        "get(content, 'eventType', NULL) = 'user.account.privilege.grant'"
        " AND deep_get(content, 'outcome', 'result', '') = 'SUCCESS'"
        " AND upper(deep_get(content, 'debugContext', 'role', ''))"
        " IN ('SUPER_ADMIN', 'ORG_ADMIN', 'APP_ADMIN')",
        True, documents(logins | {"eventType": ("user.account.privilege.grant", "x")}), None,
        ("early-return", "deep-get", "dict-get", "case-change", "in-set"),
    ),
    Case(
        mfa_disabled,
        "get(content, 'eventType', '') IN ('user.mfa.factor.deactivate',"
        " 'user.mfa.factor.reset_all', 'user.mfa.factor.suspend')"
        " AND content['outcome']['result'] = 'SUCCESS'",
        True, documents(logins | {"eventType": (*MFA_CHANGES, "x", None)}), None,
        ("dict-get", "dict-item", "in-tuple", "module-constant"),
    ),
    Case(
        login_from_abroad,
        f"{IS_LOGIN} AND deep_get(content, 'client', 'geo', 'country', NULL) IS NOT NULL"
        " AND deep_get(content, 'client', 'geo', 'country', NULL) != 'Germany'"
        " AND NOT (startswith(get(content['client'], 'ip', ''), '10.')"
        " OR startswith(get(content['client'], 'ip', ''), '192.168.')"
        " OR startswith(get(content['client'], 'ip', ''), '127.'))",
        True, sessions, None,
        ("helper-function", "imported-helper", "deep-get", "dict-get", "early-return", "is-none"),
    ),
    Case(
        password_guessing,
        f"deep_get(content, 'outcome', 'result', NULL) = 'FAILURE' AND {IS_LOGIN}"
        " AND deep_get(content, 'outcome', 'reason', NULL) = 'INVALID_CREDENTIALS'",
        True, sessions, None, ("decorator", "helper-function", "deep-get", "in-set"),
    ),
    Case(
        support_access,
        "startswith(get(content, 'eventType', ''), 'user.session.')"
        f" AND endswith({ACTOR}, '@vendor.example')"
        " AND deep_get(content, 'outcome', 'result', NULL) != 'FAILURE'",
        True, documents(logins | {"actor": {"alternateId": ("x", "Eve@VENDOR.example")}}), None,
        ("any-all-list", "decorator", "startswith-endswith", "helper-function", "deep-get"),
    ),
    Case(
        outside_actor,
        f"NOT (NOT {ACTOR} OR NOT contains({ACTOR}, '@'))"
        f" AND NOT (endswith({ACTOR}, '@example.com') OR endswith({ACTOR}, '@example.org'))",
        True, sessions, None,
        ("helper-function", "any-all-gen", "concatenation", "truthiness", "not-in", "conversion"),
    ),
    Case(
        high_risk,
        "isinstance(deep_get(content, 'debugContext', 'score', 0), 'int', 'float')"
        " AND deep_get(content, 'debugContext', 'score', 0) >= 70",
        True, sessions, None, ("isinstance", "deep-get", "early-return", "module-constant"),
    ),
    Case(
        impossible_client,
        "deep_get(content, 'client', 'device', NULL) = 'Unknown'"
        " AND isinstance(deep_get(content, 'client', 'ip', NULL), 'str')"
        " AND NOT startswith(deep_get(content, 'client', 'ip', NULL), '10.')"
        f" OR deep_get(content, 'client', 'device', NULL) = 'Server' AND {IS_LOGIN}",
        True, sessions, None, ("match", "dict-get", "truthiness", "helper-function"),
    ),
    Case(
        session_in_shadow,
        "deep_get(content, 'actor', 'type', 'User') != 'SystemPrincipal'"
        " AND deep_get(content, 'client', 'geo', 'country', '') = ''"
        " AND deep_get(content, 'client', 'device', 'Unknown') = 'Unknown'",
        True, records, None, ("deep-get-method", "early-return", "boolean"),
    ),
    Case(
        api_token_created,
        "deep_get(content, 'eventType', NULL) IS NOT NULL"
        " AND deep_get(content, 'eventType', NULL) = 'system.api_token.create'"
        " AND deep_get(content, 'actor', 'type', NULL) != 'Robot'",
        True, records, None, ("deep-get-method", "walrus", "is-none", "early-return"),
    ),
    Case(
        reset_by_other,
        "get(content, 'eventType', NULL) = 'user.account.reset_password'"
        " AND deep_get(content, 'actor', 'alternateId', '')"
        " != deep_get(content, 'target', 'alternateId', '')"
        " AND deep_get(content, 'target', 'alternateId', '') != ''",
        True, records, None, ("deep-get-method", "chain", "field-with-field", "local"),
    ),
    Case(
        branch_protection,
        "get(content, 'action', NULL) IN ('protected_branch.destroy',"
        " 'protected_branch.policy_override', 'protected_branch.rejected_ref_update')"
        " AND NOT get(content, 'is_dependabot', FALSE)",
        True, hosting, None, ("in-dict", "dict-get", "truthiness"),
    ),
    Case(
        branch_policy_overridden,
        "get(content, 'action', '') = 'protected_branch.policy_override'", True, hosting, None,
        ("in-dict", "startswith-endswith", "dict-get", "module-constant"),
    ),
    Case(
        repository_public,
        "get(content, 'action', NULL) = 'repo.access'"
        " AND get(content, 'previous_visibility', NULL) IN ('private', 'internal')"
        " AND get(content, 'visibility', NULL) = 'public'",
        True, hosting, None, ("unpacking", "early-return", "in-literal", "dict-get"),
    ),
    Case(
        secret_scanning_off,
        "startswith(get(content, 'action', ''), 'secret_scanning')"
        " AND (endswith(get(content, 'action', ''), '.disable')"
        " OR endswith(get(content, 'action', ''), '.delete'))",
        True, hosting, None, ("startswith-endswith", "dict-get", "local"),
    ),
    Case(
        Context, "TRUE", False, sessions, None,
        ("unknown-call", "transform", "helper-function", "parameter", "is-none"),
        args=({"ann@example.com": "sales", "system": "it"}.get,),
    ),
    Case(
        Audited, "TRUE", False, documents(logins | {"eventType": (*MFA_CHANGES, "x")}), None,
        ("state-counter", "helper-function", "dict-get"),
    ),
    Case(
        many_keys,
        "get(content, 'keys', NULL) AND (len(get(content, 'keys', NULL)) > 2"
        " OR contains(get(content, 'keys', NULL), 'deploy'))",
        True, hosting, None, ("truthiness", "len", "dict-get", "substring"),
    ),
    Case(
        clone_by_stranger,
        "content['action'] = 'git.clone' AND (content['user'] NOT IN ('ann', 'ci-bot')"
        " OR get(content, 'programmatic', NULL))",
        True, hosting, None, ("dict-item", "default-argument", "not-in", "early-return"),
    ),
]  # fmt: skip
