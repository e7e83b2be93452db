"""Events without a type: pickles in a column, their large buffers beside them, not copied."""

from __future__ import annotations

import io
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from activebroker.core.errors import EventRefused
from activebroker.events.columns.kinds import Misfit, sketch

_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})


class Untyped:
    """The codec of contents that are any picklable objects.

    A content is one pickle (protocol 5) and the buffers that it kept out of band; a numpy array
    is read back as a read-only view of the batch.
    """

    signature = "any"
    schema = pa.schema(
        [
            pa.field("$content", pa.large_binary(), nullable=False),
            pa.field(
                "$buffers",
                pa.list_(pa.field("item", pa.large_binary(), nullable=False)),
                nullable=False,
            ),
        ]
    )

    def fits(self, content: Any) -> bool:
        """Whether the content surely can be pickled."""
        return content.__class__ in _ATOMS

    def fit(self, content: Any) -> Any:
        """Return the content; raise `Misfit` with the reason if it cannot be pickled."""
        _pickle(content)
        return content

    def encode(self, contents: list[Any]) -> list[pa.Array]:
        """Pickle the contents; raises `EventRefused` with the reason for one that cannot be."""
        pickles: list[bytes] = []
        buffers: list[memoryview] = []
        offsets = [0]
        for content in contents:
            try:
                data, parts = _pickle(content)
            except Misfit as misfit:
                raise EventRefused(misfit.text) from misfit
            pickles.append(data)
            buffers += parts
            offsets.append(len(buffers))
        beside = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()),
            pa.array(buffers, pa.large_binary()),
            type=self.schema.field(1).type,
        )
        return [pa.array(pickles, pa.large_binary()), beside]

    def decode(self, columns: list[pa.Array], rows: int) -> list[Any]:
        """Unpickle; raises what unpickling raises, for want of a class say."""
        return [
            pickle.loads(data, buffers=beside)
            for data, beside in zip(*_parts(columns), strict=True)
        ]

    def sketch(self, columns: list[pa.Array]) -> str:
        """What shows of the first row, with stand-ins for the classes that are not here."""
        (data, *_), (beside, *_) = _parts(columns)
        try:
            return sketch(_Sketcher(io.BytesIO(data), buffers=beside).load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a class's __setstate__ may raise
            return f"a pickle of {len(data):,} bytes ({type(error).__name__})"


class _Sketcher(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return type(name, (_StandIn,), {})


class _StandIn:
    """Takes whatever a pickle gives to a class."""

    def __init__(self, *args: object, **_: object) -> None:
        self.__dict__.update({f"_{i}": each for i, each in enumerate(args)})

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={sketch(value)}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def _pickle(content: Any) -> tuple[bytes, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
        return data, [buffer.raw() for buffer in buffers]
    except Exception as error:  # whatever a class's own __reduce__ may raise
        reason = f"{type(error).__name__}: {error}"
        raise Misfit.of("an object that can be pickled", content, reason) from error


def _parts(columns: list[pa.Array]) -> tuple[list[memoryview], list[list[memoryview]]]:
    """The pickle of each row, and the buffers beside it."""
    buffers = _slices(columns[1].values)
    bounds = pairwise(columns[1].offsets.to_pylist())
    return _slices(columns[0]), [buffers[a:b] for a, b in bounds]


def _slices(array: pa.Array) -> list[memoryview]:
    """The values of a large_binary array as views of its buffer."""
    _, offsets, data = array.buffers()
    if not len(array):
        return []
    bounds = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset).tolist()
    view = memoryview(data if data is not None else b"")
    return [view[a:b] for a, b in pairwise(bounds)]
