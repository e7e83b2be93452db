"""One writer a log: a lock on a file in its directory, which ends with the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from activebroker.core.errors import LogInUse

_NAME = "lock"


class Lock:
    """Raises LogInUse, naming the process that has it."""

    def __init__(self, directory: Path) -> None:
        path = directory / _NAME
        path.touch()
        self._file = path.open("r+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate()
            self._file.write(str(os.getpid()).encode())
        except BlockingIOError:
            pid = self._file.read().decode("ascii", "replace")
            self._file.close()
            raise LogInUse(
                f"The log in {directory} is open to write in process {pid or 'unknown'}. Close it "
                "there, or use another directory."
            ) from None
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()
