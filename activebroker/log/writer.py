"""The log of a channel on disk, open to write."""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from activebroker.core.errors import Closed, LogUnavailable, ProtocolError
from activebroker.events import Batch, EventType, TypeRegistry, describe
from activebroker.log.committed import Committed, CommittedFile
from activebroker.log.disk import make_directory, sync_directory
from activebroker.log.frames import EARLIEST, MOST_NAME
from activebroker.log.lock import Lock
from activebroker.log.records import NOWHERE, Offsets, Record
from activebroker.log.recovery import End, check_empty, recover
from activebroker.log.segments import UNFINISHED, Header, create, numbers, path_of, read_header
from activebroker.log.tail import Tail
from activebroker.log.versions import check_version

SEGMENT_BYTES = 64 << 20


class Log:
    """The events of one channel, in the order in which they were appended.

    An event's *position* is the number of events that were appended before it since the log began.
    Get a log with `open`. It is for one thread; each reader has a `Reader` of its own. After a
    failed write it refuses all but `close`: opened again, it has at least what was committed.
    """

    _committed: Committed
    _first: Header  # of the oldest segment
    _offsets: Offsets  # of what is committed
    _tail: Tail

    def __init__(
        self,
        path: Path,
        type: EventType,
        segment_bytes: int,
        keep_bytes: int | None,
        keep_seconds: float | None,
        clock: Callable[[], int],
    ) -> None:
        self.path = path
        self.type = type
        self._segment_bytes = segment_bytes
        self._keep_bytes = keep_bytes
        self._keep_ns = None if keep_seconds is None else round(keep_seconds * 1e9)
        self._clock = clock
        self._registry = TypeRegistry()
        self._versions = [describe(type)]  # of the type
        self._admitted: set[str] = set()  # the fingerprints of types that were checked
        self._moved: Offsets = {}  # of what is appended, and not committed
        self._failure: BaseException | None = None
        self._files: list[Lock | CommittedFile] = []
        self._closed = False
        _open_logs.add(self)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        type: EventType,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        keep_bytes: int | None = None,
        keep_seconds: float | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> Log:
        """Open the log in a directory, or begin one there.

        A new segment begins where one has `segment_bytes`. For the other two see `retain`.

        Raises LogInUse where another has it open to write, ChannelTypeConflict unless `type` is a
        version of the log's event type, LogDamaged where its end is not as it was committed, and
        LogUnavailable where the directory cannot be written.
        """
        log = cls(Path(path), type, segment_bytes, keep_bytes, keep_seconds, clock)
        try:
            with log._or_broken("opened"):
                log._open()
        except BaseException:
            log._release()
            raise
        return log

    def _open(self) -> None:
        make_directory(self.path)
        self._files.append(Lock(self.path))
        for unfinished in self.path.glob(f"*{UNFINISHED}"):
            unfinished.unlink()
        if present := numbers(self.path):
            end = recover(self.path, present, self.type.name)
            check_version(self.path, end.versions, self.type)
            self._versions += [each for each in end.versions if each not in self._versions]
            self._offsets = end.offsets
            self._first = read_header(self.path, present[0])
        else:
            check_empty(self.path)
            self._offsets = {}
            end = self._create(0, 0, 0, EARLIEST)
            self._first = end.header
        self._tail = Tail(self.path, end)
        self._note = CommittedFile(self.path)
        self._files.append(self._note)
        sync_directory(self.path)
        self._tell_committed(sync=True)

    @property
    def first(self) -> int:
        """The position of the first event that is left."""
        return self._first.position

    @property
    def next(self) -> int:
        """The position that the next event gets."""
        return self._tail.position

    @property
    def committed(self) -> int:
        """The position after the last event that is committed."""
        return self._committed.position

    @property
    def offsets(self) -> Offsets:
        """How far each supplier has come, by what is committed."""
        return dict(self._offsets)

    def append(self, records: Sequence[Record]) -> list[int]:
        """Append records, and return the position of each one's first event. They are durable after
        `commit`.

        Raises ProtocolError where a record does not go beyond its supplier's offset, and
        ChannelTypeConflict where it is of another type; then none is appended.
        """
        self._check_usable()
        self._check(records)
        positions = []
        with self._or_broken("written"):
            for record in records:
                if self._tail.size >= self._segment_bytes and self._tail.size > self._tail.begin:
                    self._begin_segment()
                positions.append(self._tail.position)
                self._tail.append(record)
                self._moved[record.supplier] = record.upto
        return positions

    def commit(self) -> int:
        """Make durable all that was appended, with one fsync, and return the position after it."""
        self._check_usable()
        if self._tail.size > self._tail.committed:
            with self._or_broken("committed"):
                self._commit()
        return self._committed.position

    def retain(self) -> int:
        """Drop what need not be kept, and return `first`.

        Whole segments are dropped, the oldest first: where all that is newer has `keep_bytes`, or
        where all their events were appended `keep_seconds` ago. The one that is written stays; if
        it was begun that long ago, a new one takes its place. All this happens with each new
        segment, too: call it where few events come.
        """
        self._check_usable()
        with self._or_broken("shortened"):
            if self._tail.size > self._tail.begin and self._is_old(self._tail.header.created):
                self._begin_segment()
            self._drop()
        return self.first

    def close(self) -> None:
        """Commit, unless the log has failed, and let others write it."""
        if self._closed:
            return
        try:
            if self._failure is None:
                self.commit()
                with self._or_broken("closed"):
                    self._tell_committed(sync=True)
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        self._closed = True
        if hasattr(self, "_tail"):
            self._tail.close()
        while self._files:
            self._files.pop().close()

    def _check_usable(self) -> None:
        if self._closed:
            raise Closed(f"The log in {self.path} was closed.")
        if self._failure is not None:
            raise LogUnavailable(
                f"The log in {self.path} has failed: {self._failure} Close it and open it again: "
                "what was committed is there."
            ) from self._failure

    @contextmanager
    def _or_broken(self, what: str) -> Iterator[None]:
        """Around what changes files: after a failure nobody knows what they hold."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            if not isinstance(error, OSError) or isinstance(error, LogUnavailable):
                raise
            raise LogUnavailable(
                f"The log in {self.path} could not be {what}: {error}. What was not committed is "
                "not stored. See to the disk, then open the log again."
            ) from error

    def _check(self, records: Sequence[Record]) -> None:
        moved: Offsets = {}
        for record in records:
            name, batch = record.supplier, record.batch
            last = moved.get(name) or self._moved.get(name) or self._offsets.get(name, NOWHERE)
            if record.upto <= last:
                raise ProtocolError(
                    f"the log in {self.path} has supplier {name!r} up to {last}, its record goes "
                    f"up to {record.upto} only"
                )
            if len(name.encode()) > MOST_NAME:
                raise ProtocolError(f"the name of a supplier has {len(name):,} characters")
            if batch is not None:
                if record.ended or batch.supplier != name:
                    raise ProtocolError(
                        f"a record of {name!r} has a batch of {batch.supplier!r}, or is the end of "
                        "its stream and has a batch"
                    )
                if batch.type.fingerprint not in self._admitted:
                    self._admit(batch)
            moved[name] = record.upto

    def _admit(self, batch: Batch) -> None:
        """Let events of a type in that is new here: a subtype, or another version."""
        own, type = self.type, batch.type
        if not type.is_a(own):
            as_own = self._registry.conform(batch.slice(0, 0), own).type
            if type.name == own.name or not as_own.is_a(own):
                check_version(self.path, self._versions, type)
                self._versions.append(describe(type))
        self._admitted.add(type.fingerprint)

    def _commit(self) -> None:
        self._tail.commit()
        self._offsets |= self._moved
        self._moved.clear()
        self._tell_committed()

    def _tell_committed(self, sync: bool = False) -> None:
        tail = self._tail
        self._committed = Committed(tail.header.number, tail.committed, tail.position)
        self._note.write(self._committed, sync)

    def _begin_segment(self) -> None:
        """Go on in a new segment, and drop what need not be kept."""
        self._commit()
        old = self._tail
        end = self._create(
            old.header.number + 1, old.position, old.header.bytes_before + old.size, old.latest
        )
        old.close()
        self._tail = Tail(self.path, end)
        self._tell_committed(sync=True)
        self._drop()

    def _create(self, number: int, position: int, bytes_before: int, latest: int) -> End:
        header = Header(
            number,
            position,
            bytes_before,
            created=self._clock(),
            latest=latest,
            salt=secrets.randbits(64),
            versions=tuple(self._versions),
            offsets=self._offsets,
        )
        begin = create(self.path, header)
        return End(header, begin, begin, position)

    def _is_old(self, time: int) -> bool:
        return self._keep_ns is not None and time <= self._clock() - self._keep_ns

    def _drop(self) -> None:
        """Each segment is gone from the disk before the next one goes: so none is ever missing
        between others, unless it was lost."""
        end = self._tail.header.bytes_before + self._tail.committed
        while self._first.number < self._tail.header.number:
            following = read_header(self.path, self._first.number + 1)
            kept = end - following.bytes_before
            if not self._is_old(following.created) and (
                self._keep_bytes is None or kept < self._keep_bytes
            ):
                return
            path_of(self.path, self._first.number).unlink()
            sync_directory(self.path)
            self._first = following


# A child that was forked has its parent's files, and so the lock.
_open_logs: weakref.WeakSet[Log] = weakref.WeakSet()


def _forked() -> None:
    for log in list(_open_logs):
        log._release()


os.register_at_fork(after_in_child=_forked)
