"""Transports carry a node's frames: between machines, between processes, and within one."""

from activebroker.transport.base import Arrival, Outgoing, Transport
from activebroker.transport.complaints import Complaints
from activebroker.transport.local import LocalHub, LocalTransport
from activebroker.transport.zeromq import (
    Claim,
    Hello,
    Told,
    ZeroMQTransport,
    generate_key,
    host_of,
    probe,
)

__all__ = [
    "Arrival",
    "Claim",
    "Complaints",
    "Hello",
    "LocalHub",
    "LocalTransport",
    "Outgoing",
    "Told",
    "Transport",
    "ZeroMQTransport",
    "generate_key",
    "host_of",
    "probe",
]
