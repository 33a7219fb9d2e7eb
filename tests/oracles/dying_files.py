"""A process that dies at a write: operations on local files, counted, of which one and all behind it do not come back.

with pytest.MonkeyPatch.context() as patched:
    dying = Dying(3, "before").over(patched)
    ...
"""

from __future__ import annotations

from typing import Any

import pytest

from faulty_files import Stopped
from headwater.state.files import LocalFiles


class Dying:
    """A process that dies before or after its nth write: what it does from then on has no effect."""

    def __init__(self, write: int, where: str):
        self.write, self.where, self.count, self.dead = write, where, 0, False

    def __call__(self, real: Any) -> Any:
        def call(*given: Any) -> Any:
            self.count += 1
            self._at("before")
            out = real(*given)
            self._at("after")
            return out

        return call

    def _at(self, where: str) -> None:
        self.dead = self.dead or (where == self.where and self.count == self.write)
        if self.dead:
            raise Stopped

    def over(self, patched: pytest.MonkeyPatch) -> Dying:
        """Itself, with the operations of local files patched."""
        for name in ("write", "put_if_absent", "delete"):
            patched.setattr(LocalFiles, name, self(getattr(LocalFiles, name)))
        return self
