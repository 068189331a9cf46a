"""Choose what masks a text, from the arguments of `Memories.open` and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import ConfigurationError
from ..settings import MemorySettings
from . import Redactor, redactor
from . import redact as mask_secrets
from .personal_data import (
    WITHOUT_LIBRARIES,
    PersonalData,
    PersonalDataDropped,
    PersonalDataRefused,
)


class Redactors(NamedTuple):
    """Functions that mask a text before anything else sees it.

    Attributes:
        save: masks a text to store; it may refuse one.
        mask: masks a text for a search or the log.
        secrets: masks secrets only, whatever the setting `pii` says.
        personal: finds personal data; without the setting `pii` only the kinds that need no
            library.
    """

    save: Redactor
    mask: Redactor
    secrets: Redactor
    personal: PersonalData

    def secret_kinds(self, text: str) -> Sequence[str]:
        """Return "secret" for each redaction, this and our own, that finds one in a text."""
        own = self.secrets
        masks = [own] if own is mask_secrets else [own, mask_secrets]
        return ["secret" for mask in masks if mask(text) != text]

    def personal_kinds(self, text: str) -> Sequence[str]:
        """Return the kinds of personal data in a text, apart from secrets."""
        return [kind for _, _, kind in self.personal.spans(self.secrets(text))]


def choose_redactors(redact: Redactor | None, settings: MemorySettings) -> Redactors:
    """Return the redactors: the caller's or our own with `secrets_file`, combined with the setting
    `pii`.

    Raises:
        ConfigurationError: `redact` and `secrets_file` are both given, a table cannot be read, a
            kind of pii is unknown, or its extra is missing.
    """
    if redact is not None and settings.secrets_file:
        raise ConfigurationError(
            "Pass secrets_file or redact=, not both: redact= replaces the built-in redaction."
        )
    if redact is None:
        redact = redactor(settings.secrets_file) if settings.secrets_file else mask_secrets
    rules = settings.pii
    if rules is None:
        return Redactors(redact, redact, redact, PersonalData(WITHOUT_LIBRARIES))
    data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
    mask = data.after(redact)
    refusal = PersonalDataDropped if rules.mode == "drop" else PersonalDataRefused
    save = mask if rules.mode == "mask" else data.refusing(redact, refusal)
    return Redactors(save, mask, redact, data)
