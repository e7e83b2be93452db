"""What decoding a message raises where the bytes are none."""

from __future__ import annotations

import msgspec

# Text that is not UTF-8 has an error of its own, and so has what is nested too deeply.
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
