"""The embedder's door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Turns texts into vectors. Any object of this shape will do.

    Attributes:
        name: says which model this is; vectors of two names never mix.
    """

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> npt.NDArray[np.float32]:
        """One row per text, float32 (n, d)."""
        ...
