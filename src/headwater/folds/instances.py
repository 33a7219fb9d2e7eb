"""Instances: the streams that a transformer is run over at once, a frame, a key or both each; and what nodes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.folds.batch import Batch, Told
from headwater.state.keys import Ints

GOES_ON = -1
"""The end of an instance that does not end in a run."""


@dataclass(frozen=True)
class Instances:
    """The instances that a node is run over: first values, states (None at the beginning), and the places where they end."""

    x: Sequence[Any]
    state: Sequence[Any]
    end: Ints

    def __len__(self) -> int:
        return len(self.x)

    def some(self, at: Sequence[int]) -> Instances:
        """Some of them."""
        return Instances(
            [self.x[i] for i in at], [self.state[i] for i in at], self.end[np.array(at, np.int64)]
        )


@dataclass
class Ran:
    """What instances have after a run: the final value of one that ends, the state of one that goes on."""

    finals: list[Any]
    states: list[Any]


class Node(ABC):
    """A transformer as it runs over batches."""

    @abstractmethod
    def run(self, given: Batch, at: Instances, told: Told) -> Ran:
        """Runs all instances over their rows."""


def together(f: Any, given: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
    """f of many arguments, at once where it can answer so."""
    many = getattr(f, "many", None)
    if many is not None and given:
        found: Sequence[Any] = many(given)
        return found
    return [f(*arguments) for arguments in given]
