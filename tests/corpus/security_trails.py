"""Drawn events of a cloud account's audit trail."""

from __future__ import annotations

from datetime import UTC, datetime

from .drawing import Draw, Pool, documents, lists

shape: dict[str, Pool] = {
    "eventName": (
        "ConsoleLogin", "StopLogging", "DeleteTrail", "PutBucketAcl", "CreateAccessKey",
        "ListUsers", "GetBucketAcl", "ModifySnapshotAttribute", "DeleteAccessKey", "RunInstances",
    ),
    "eventSource": ("s3.amazonaws.com", "iam.amazonaws.com", "ec2.amazonaws.com"),
    "eventType": ("AwsApiCall", "AwsServiceEvent", "AwsConsoleSignIn"),
    "eventTime": (
        datetime(2023, 12, 31, 5, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 5, 59, tzinfo=UTC),
        datetime(2024, 1, 1, 6, tzinfo=UTC),
    ),
    "errorCode": (None, None, "", "AccessDenied", "UnauthorizedOperation", "NoSuchEntity"),
    "errorMessage": (None, None, "Access DENIED to ann", "no such user"),
    "awsRegion": ("eu-west-1", "us-east-1", "ap-south-1"),
    "sourceIPAddress": ("10.0.0.1", "203.0.113.1", "192.168.0.1"),
    "userAgent": ("Boto3/1.34", "TERRAFORM/1.7", "console.amazonaws.com", None),
    "recipientAccountId": ("111111111111", "222222222222", "333333333333"),
    "readOnly": (True, False),
    "userIdentity": {
        "type": ("Root", "Root", "IAMUser", "AssumedRole"),
        "userName": ("ann", "bob", "svc-deploy", "svc-ci2", None),
        "arn": (
            "arn:aws:sts::111111111111:assumed-role/deploy-web/i-1",
            "arn:aws:sts::111111111111:assumed-role/admin/ann",
            "arn:aws:iam::111111111111:user/ann",
        ),
        "invokedBy": ("", None, "autoscaling.amazonaws.com"),
        "sessionContext": {"attributes": {"mfaAuthenticated": ("true", "false", True, None)}},
    },
    "requestParameters": {
        "userName": ("ann", "bob", None),
        "grantee": (
            "http://acs.amazonaws.com/groups/global/AllUsers",
            "http://acs.amazonaws.com/groups/global/AuthenticatedUsers", "owner",
        ),
        "cidr": ("0.0.0.0/0", "10.0.0.0/8"),
        "fromPort": (0, 22, 23, 443),
        "toPort": (21, 22, 3388, 3389, 65_535),
        "policy": (
            '{"Statement": [{"Principal": "*"}]}', '{"Statement": []}', "{}", "none",
        ),
        "instanceType": ("t3.micro", "p4.24xlarge", "m5.xlarge", "g5.xlarge"),
        "count": (1, 2, 9, 10),
        "tags": lists(("critical", "web", "test"), 4),
    },
    "responseElements": {"ConsoleLogin": ("Success", "Failure")},
    "additionalEventData": {"MFAUsed": ("Yes", "No")},
}  # fmt: skip


def trails(*names: str, record: bool = False) -> Draw:
    """Events of the trail, most of them with one of these names."""
    several: dict[str, Pool] = {"eventName": (*names, *names, "ListUsers")} if names else {}
    return documents(shape | several, record=record)
