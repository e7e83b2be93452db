# mypy: disable-error-code="no-any-return"
"""Detections on the audit trail of a cloud account."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, ClassVar

from activebroker import Event, FIFOFilter

from .case import Case
from .helpers import Record, deep_get, documented, is_assumed_role, is_private, normalized, severity
from .security_trails import trails

logger = logging.getLogger("detections.cloud")

Trail = dict[str, Any]

READ_ONLY_PREFIXES = ("Get", "List", "Describe")
TRAIL_CHANGES = frozenset({"StopLogging", "DeleteTrail", "UpdateTrail"})
DENIED = {"AccessDenied", "UnauthorizedOperation", "Client.UnauthorizedOperation"}
REGIONS = ("eu-central-1", "eu-west-1")
DISCOVERY = {
    "s3.amazonaws.com": ("ListBuckets", "GetBucketAcl"),
    "iam.amazonaws.com": ("ListUsers", "GetAccountSummary"),
}
PUBLIC_GRANTEES = (
    "http://acs.amazonaws.com/groups/global/AllUsers",
    "http://acs.amazonaws.com/groups/global/AuthenticatedUsers",
)
ROLE_NAME = re.compile(r"assumed-role/(deploy|ci)-[a-z]+/")
AUTOMATION = re.compile(r"^(aws-sdk|Boto3|terraform)", re.I)
OPEN_WORLD = "0.0.0.0/0"
ADMIN_PORTS = [22, 3389]
ACCOUNT_IDS = {"111111111111": "production", "222222222222": "staging"}


def succeeded(event: Trail) -> bool:
    return not event.get("errorCode") and not event.get("errorMessage")


def is_read_only(event: Trail) -> bool:
    return str(event.get("eventName", "")).startswith(READ_ONLY_PREFIXES)


def identity(event: Trail, key: str, default: str = "") -> Any:
    return deep_get(event, "userIdentity", key, default=default)


def root_login(event: Trail) -> bool:
    if event.get("eventName") != "ConsoleLogin":
        return False
    if identity(event, "type") != "Root":
        return False
    return deep_get(event, "responseElements", "ConsoleLogin") == "Success"


def login_without_mfa(event: Trail) -> bool:
    if event.get("eventName") != "ConsoleLogin":
        return False
    used = deep_get(event, "additionalEventData", "MFAUsed", default="No")
    session = deep_get(
        event, "userIdentity", "sessionContext", "attributes", "mfaAuthenticated", default="false"
    )
    return used == "No" and session != "true" and not is_assumed_role(identity(event, "arn"))


def root_activity(event: Trail) -> bool:
    return all(
        (
            identity(event, "type") == "Root",
            identity(event, "invokedBy") == "",
            event.get("eventType") != "AwsServiceEvent",
        )
    )


@severity("critical")
def trail_stopped(event: Trail) -> bool:
    return event["eventName"] in TRAIL_CHANGES and succeeded(event)


def denied(event: Trail) -> bool:
    if is_read_only(event):
        return False
    return event.get("errorCode") in DENIED or "denied" in str(event.get("errorMessage")).lower()


def unused_region(event: Trail) -> bool:
    region = event.get("awsRegion", "us-east-1")
    return region not in REGIONS and region != "us-east-1" and not is_read_only(event)


def discovery(event: Trail) -> bool:
    names = DISCOVERY.get(event.get("eventSource", ""), ())
    return event.get("eventName") in names


def public_bucket(event: Trail) -> bool:
    if event["eventName"] not in ("PutBucketAcl", "CreateBucket"):
        return False
    grantee = event["requestParameters"]["grantee"]
    return grantee in PUBLIC_GRANTEES


def open_security_group(event: Trail) -> bool:
    if event.get("eventName") != "AuthorizeSecurityGroupIngress":
        return False
    request = event.get("requestParameters") or {}
    if request.get("cidr") != OPEN_WORLD:
        return False
    return any(
        request.get("fromPort", 0) <= port <= request.get("toPort", 0) for port in ADMIN_PORTS
    )


def open_to_anyone(event: Trail) -> bool:
    """A policy is text in the request: it has to be read to be judged."""
    if event.get("eventName") != "PutBucketPolicy" or not succeeded(event):
        return False
    policy = json.loads(event["requestParameters"]["policy"])
    return any(statement.get("Principal") == "*" for statement in policy["Statement"])


def key_for_other(event: Trail) -> bool:
    """Someone makes an access key for another user."""
    if event.get("eventName") != "CreateAccessKey":
        return False
    owner = deep_get(event, "requestParameters", "userName")
    return owner is not None and owner != identity(event, "userName")


def deploy_role_by_hand(event: Trail) -> bool:
    arn = identity(event, "arn")
    agent = event.get("userAgent") or ""
    return ROLE_NAME.search(arn) is not None and not AUTOMATION.match(agent)


def large_instance(event: Trail) -> bool:
    kind = deep_get(event, "requestParameters", "instanceType", default="")
    count = deep_get(event, "requestParameters", "count", default=1)
    if not kind.endswith("xlarge"):
        return False
    return count >= 10 or (kind[:1] in "pg" and count > 1)


@documented
def deletion_by_night(event: Trail) -> bool:
    if not event["eventName"].startswith("Delete"):
        return False
    at: datetime = event["eventTime"]
    return at.hour < 6 and at >= datetime(2024, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=512)
def stage_of(account: str) -> str:
    return ACCOUNT_IDS.get(account, "unknown")


def foreign_account(event: Trail) -> bool:
    return stage_of(str(event.get("recipientAccountId"))) == "unknown"


def production_change(event: Record) -> bool:
    account = event.deep_get("recipientAccountId", default="")
    if account not in ACCOUNT_IDS or ACCOUNT_IDS[account] != "production":
        return False
    return not event.deep_get("readOnly", default=False)


def internal_with_mfa(event: Record) -> bool:
    flag = event.deep_get("userIdentity", "sessionContext", "attributes", "mfaAuthenticated")
    match flag:
        case "true" | True:
            return is_private(event.deep_get("sourceIPAddress", default=""))
        case None | "false":
            return False
    return event.get("eventType") == "AwsConsoleSignIn"


def tagged(event: Record) -> bool:
    tags = event.deep_get("requestParameters", "tags", default=[])
    return "critical" in tags and len(tags) >= 2


def user_type(event: Record) -> bool:
    kind = event.deep_get("userIdentity", "type", default="?")
    return any([kind == "IAMUser" and event.get("errorCode") is None, kind == "Root"])


def named_like(pattern: str) -> Callable[[Trail], bool]:
    """A rule for one kind of user names."""
    compiled = re.compile(pattern)

    def rule(event: Trail) -> bool:
        return compiled.fullmatch(identity(event, "userName")) is not None

    return rule


def by_service(event: Trail, service: str, *, changes_only: bool) -> bool:
    if event.get("eventSource") != service + ".amazonaws.com":
        return False
    return not (changes_only and is_read_only(event))


class Rule(FIFOFilter):
    """A detection as a class: what it is about, and whether an event is one."""

    names: ClassVar[tuple[str, ...]] = ()
    quiet: ClassVar[bool] = True

    def matches(self, trail: Trail) -> bool:
        return trail.get("eventName") in self.names

    def title(self, trail: Trail) -> str:
        return f"{trail.get('eventName')} by {identity(trail, 'userName', '?')}"

    def enqueue(self, event: Event) -> None:
        if self.matches(event.content):
            if not self.quiet:
                logger.warning(self.title(event.content))
            super().enqueue(event)


class SnapshotShared(Rule):
    names = ("ModifySnapshotAttribute", "ModifyImageAttribute")

    def matches(self, trail: Trail) -> bool:
        return super().matches(trail) and succeeded(trail)


class KeyDeleted(Rule):
    names = ("DeleteAccessKey", "ScheduleKeyDeletion")
    quiet = False


class FailedLogins(FIFOFilter):
    """The fifth failed login of a user in a row."""

    LIMIT = 5

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, int] = {}

    def enqueue(self, event: Event) -> None:
        trail = event.content
        if trail.get("eventName") != "ConsoleLogin":
            return
        user = normalized(str(identity(trail, "userName")))
        if deep_get(trail, "responseElements", "ConsoleLogin") == "Success":
            self.failures.pop(user, None)
            return
        self.failures[user] = self.failures.get(user, 0) + 1
        if self.failures[user] == self.LIMIT:
            super().enqueue(event)


class Redacted(FIFOFilter):
    """Numbers all events, and removes what is secret from those that leave the account."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def enqueue(self, event: Event) -> None:
        self.number += 1
        if is_read_only(event.content):
            return
        trail = {**event.content, "number": self.number}
        trail.pop("requestParameters", None)
        super().enqueue(event.replace(trail))


NAME = "get(content, 'eventName', NULL)"
SUCCEEDED = "NOT get(content, 'errorCode', NULL) AND NOT get(content, 'errorMessage', NULL)"
READ_ONLY = (
    "(startswith(str(get(content, 'eventName', '')), 'Get')"
    " OR startswith(str(get(content, 'eventName', '')), 'List')"
    " OR startswith(str(get(content, 'eventName', '')), 'Describe'))"
)
ARN = "deep_get(content, 'userIdentity', 'arn', '')"
AGENT = "CASE WHEN get(content, 'userAgent', NULL) THEN get(content, 'userAgent', NULL) ELSE '' END"
TYPE = "deep_get(content, 'userIdentity', 'type', '?')"
REQUEST = "get(content, 'requestParameters', NULL)"
KIND = "deep_get(content, 'requestParameters', 'instanceType', '')"
COUNT = "deep_get(content, 'requestParameters', 'count', 1)"
TAGS = "deep_get(content, 'requestParameters', 'tags', NULL)"
MFA = "deep_get(content, 'userIdentity', 'sessionContext', 'attributes', 'mfaAuthenticated', NULL)"
WITH_MFA = f"({MFA} = 'true' OR isinstance({MFA}, 'bool') AND {MFA})"
ADDRESS = "deep_get(content, 'sourceIPAddress', '')"

CASES: list[Case] = [
    Case(
        root_login,
        f"{NAME} = 'ConsoleLogin' AND deep_get(content, 'userIdentity', 'type', '') = 'Root'"
        " AND deep_get(content, 'responseElements', 'ConsoleLogin', NULL) = 'Success'",
        True, trails("ConsoleLogin"), None,
        ("early-return", "helper-function", "deep-get", "default-argument"),
    ),
    Case(
        login_without_mfa,
        f"{NAME} = 'ConsoleLogin'"
        " AND deep_get(content, 'additionalEventData', 'MFAUsed', 'No') = 'No'"
        " AND deep_get(content, 'userIdentity', 'sessionContext', 'attributes',"
        " 'mfaAuthenticated', 'false') != 'true'"
        f" AND NOT match({ARN}, '^arn:aws:sts::\\d{{12}}:assumed-role/')",
        True, trails("ConsoleLogin"), None,
        ("early-return", "deep-get", "imported-helper", "regex-precompiled", "helper-function"),
    ),
    Case(
        root_activity,
        "deep_get(content, 'userIdentity', 'type', '') = 'Root'"
        " AND deep_get(content, 'userIdentity', 'invokedBy', '') = ''"
        " AND get(content, 'eventType', NULL) != 'AwsServiceEvent'",
        True, trails(), None, ("any-all-list", "helper-function", "deep-get", "dict-get"),
    ),
    Case(
        trail_stopped,
        "content['eventName'] IN ('DeleteTrail', 'StopLogging', 'UpdateTrail')"
        f" AND {SUCCEEDED}",
        True, trails("StopLogging", "UpdateTrail"), None,
        ("decorator", "dict-item", "in-set", "helper-function", "truthiness"),
    ),
    Case(
        denied,
        f"NOT {READ_ONLY} AND (get(content, 'errorCode', NULL) IN ('AccessDenied',"
        " 'Client.UnauthorizedOperation', 'UnauthorizedOperation')"
        " OR contains(lower(str(get(content, 'errorMessage', NULL))), 'denied'))",
        True, trails(), None,
        ("helper-function", "in-set", "conversion", "case-change", "substring", "early-return"),
    ),
    Case(
        unused_region,
        "get(content, 'awsRegion', 'us-east-1') NOT IN ('eu-central-1', 'eu-west-1')"
        f" AND get(content, 'awsRegion', 'us-east-1') != 'us-east-1' AND NOT {READ_ONLY}",
        True, trails(), None, ("not-in", "dict-get", "helper-function", "module-constant"),
    ),
    Case(
        discovery,
        "get(content, 'eventSource', '') = 's3.amazonaws.com'"
        f" AND {NAME} IN ('ListBuckets', 'GetBucketAcl')"
        " OR get(content, 'eventSource', '') = 'iam.amazonaws.com'"
        f" AND {NAME} IN ('ListUsers', 'GetAccountSummary')",
        True, trails(), None, ("in-dict", "dict-get", "in-tuple", "module-constant"),
    ),
    Case(
        public_bucket,
        "content['eventName'] IN ('PutBucketAcl', 'CreateBucket')"
        " AND content['requestParameters']['grantee'] IN"
        " ('http://acs.amazonaws.com/groups/global/AllUsers',"
        " 'http://acs.amazonaws.com/groups/global/AuthenticatedUsers')",
        True, trails("PutBucketAcl", "CreateBucket"), None,
        ("dict-item", "in-literal", "in-tuple", "early-return"),
    ),
    Case(
        open_security_group,
        f"{NAME} = 'AuthorizeSecurityGroupIngress' AND {REQUEST}"
        f" AND get({REQUEST}, 'cidr', NULL) = '0.0.0.0/0'"
        f" AND (get({REQUEST}, 'fromPort', 0) <= 22 AND 22 <= get({REQUEST}, 'toPort', 0)"
        f" OR get({REQUEST}, 'fromPort', 0) <= 3389 AND 3389 <= get({REQUEST}, 'toPort', 0))",
        True, trails("AuthorizeSecurityGroupIngress"), None,
        ("any-all-gen", "chain", "dict-get", "truthiness", "early-return"),
    ),
    Case(
        open_to_anyone, f"NOT ({NAME} != 'PutBucketPolicy' OR NOT ({SUCCEEDED}))",
        False, trails("PutBucketPolicy"), None,
        ("unknown-call", "helper-function", "early-return", "dict-item"),
    ),
    Case(
        key_for_other,
        f"{NAME} = 'CreateAccessKey'"
        " AND deep_get(content, 'requestParameters', 'userName', NULL) IS NOT NULL"
        " AND deep_get(content, 'requestParameters', 'userName', NULL)"
        " != deep_get(content, 'userIdentity', 'userName', '')",
        True, trails("CreateAccessKey"), None,
        ("deep-get", "is-none", "field-with-field", "early-return"),
    ),
    Case(
        deploy_role_by_hand,
        f"search({ARN}, 'assumed-role/(deploy|ci)-[a-z]+/')"
        f" AND NOT match({AGENT}, '(?i)^(aws-sdk|Boto3|terraform)')",
        True, trails(), None, ("regex-precompiled", "deep-get", "truthiness", "is-none"),
    ),
    Case(
        large_instance,
        f"endswith({KIND}, 'xlarge') AND ({COUNT} >= 10"
        f" OR (startswith({KIND}, 'p') OR startswith({KIND}, 'g')) AND {COUNT} > 1)",
        True, trails(), None, ("deep-get", "startswith-endswith", "substring", "early-return"),
    ),
    Case(
        deletion_by_night,
        "startswith(content['eventName'], 'Delete') AND hour(content['eventTime']) < 6"
        " AND content['eventTime'] >= TIMESTAMP '2024-01-01 00:00:00+00:00'",
        True, trails("DeleteTrail", "DeleteUser"), None,
        ("decorator", "datetime-aware", "datetime-part", "dict-item", "startswith-endswith"),
    ),
    Case(
        foreign_account,
        "NOT str(get(content, 'recipientAccountId', NULL)) = '111111111111'"
        " AND NOT str(get(content, 'recipientAccountId', NULL)) = '222222222222'",
        True, trails(), None, ("lru-cache", "in-dict", "conversion", "helper-function"),
    ),
    Case(
        production_change,
        "deep_get(content, 'recipientAccountId', '') = '111111111111'"
        " AND NOT deep_get(content, 'readOnly', FALSE)",
        True, trails(record=True), None,
        ("deep-get-method", "in-dict", "early-return", "not-in"),
    ),
    Case(
        internal_with_mfa,
        f"{WITH_MFA} AND (startswith({ADDRESS}, '10.')"
        f" OR startswith({ADDRESS}, '192.168.') OR startswith({ADDRESS}, '127.'))"
        f" OR NOT {WITH_MFA} AND NOT ({MFA} IS NULL OR {MFA} = 'false')"
        " AND get(content, 'eventType', NULL) = 'AwsConsoleSignIn'",
        True, trails(record=True), None, ("match", "deep-get-method", "imported-helper"),
    ),
    Case(
        tagged, f"{TAGS} IS NOT NULL AND contains({TAGS}, 'critical') AND len({TAGS}) >= 2",
        True, trails(record=True), None, ("deep-get-method", "len", "substring", "local"),
    ),
    Case(
        user_type,
        f"{TYPE} = 'IAMUser' AND get(content, 'errorCode', NULL) IS NULL OR {TYPE} = 'Root'",
        True, trails(record=True), None,
        ("deep-get-method", "any-all-list", "is-none", "local"),
    ),
    Case(
        named_like(r"svc-[a-z]+"),
        "fullmatch(deep_get(content, 'userIdentity', 'userName', ''), 'svc-[a-z]+')",
        True, trails(), None, ("closure", "regex-precompiled", "helper-function", "deep-get"),
    ),
    Case(
        partial(by_service, service="iam", changes_only=True),
        f"get(content, 'eventSource', NULL) = 'iam.amazonaws.com' AND NOT {READ_ONLY}",
        True, trails(), None, ("partial", "concatenation", "helper-function", "boolean"),
    ),
    Case(
        SnapshotShared,
        f"{NAME} IN ('ModifySnapshotAttribute', 'ModifyImageAttribute') AND {SUCCEEDED}",
        True, trails("ModifySnapshotAttribute", "ModifyImageAttribute"), None,
        ("super-chain", "class-constant", "helper-method", "in-tuple", "global"),
    ),
    Case(
        KeyDeleted, f"{NAME} IN ('DeleteAccessKey', 'ScheduleKeyDeletion')", False, trails(), None,
        ("super-chain", "class-constant", "logging", "f-string", "helper-method"),
    ),
    Case(
        FailedLogins, f"{NAME} = 'ConsoleLogin'", False, trails("ConsoleLogin"), None,
        ("state-counter", "early-return", "imported-helper", "class-constant", "deep-get"),
    ),
    Case(
        Redacted, "TRUE", False, trails(), None,
        ("transform", "state-counter", "helper-function"),
    ),
    Case(
        lambda e: e["userIdentity"]["type"] == "Root" or e["sourceIPAddress"].startswith("203."),
        "content['userIdentity']['type'] = 'Root'"
        " OR startswith(content['sourceIPAddress'], '203.')",
        True, trails(), None, ("lambda", "dict-item", "startswith-endswith"),
    ),
]  # fmt: skip
