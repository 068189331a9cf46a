"""Encryption at rest: a ring of keys, and values sealed with them, each bound to its place."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from ..errors import ConfigurationError, StoreError, needs_extra
from .codec import from_base64

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
CHECK_BYTES = 4
CIPHERS = 4096
FORMAT = b"\x01"
_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")
_EXAMPLE = "id:key,older-id:older-key, each key 32 random bytes in Base64 (openssl rand -base64 32)"


class KeyRing:
    """The keys of this process: the first one seals, and all can open.

    Each scope has data keys of its own, derived from these (HKDF-SHA256). A sealed value is
    AES-256-GCM with a random nonce, behind a header that names its key. It is bound to its row
    (`place`), and opens in no other.

    Attributes:
        current: the id of the key that seals.
        header: the head of the values that it seals.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)
        self.current = next(iter(keys))
        self._cipher = lru_cache(CIPHERS)(self._new_cipher)
        self._headers = {
            id: FORMAT + bytes([len(id)]) + id.encode() + _derived(key, b"", b"check", CHECK_BYTES)
            for id, key in keys.items()
        }
        self.header = self._headers[self.current]

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Return the ring of the setting `encryption_keys`, or None if it is not set.

        Raises:
            ConfigurationError: the setting is malformed, or the extra is missing. The message never
                repeats its text.
        """
        if text is None:
            return None
        keys: dict[str, bytes] = {}
        for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
            id, _, digits = (piece.strip() for piece in part.partition(":"))
            if id in keys:
                raise ConfigurationError(
                    f"encryption_keys names the key {id!r} twice; give each its own name."
                )
            try:
                key = from_base64(digits.replace("-", "+").replace("_", "/"))
            except ValueError:
                key = b""
            if not _ID.fullmatch(id) or len(key) != KEY_BYTES:
                raise ConfigurationError(
                    f"Entry {number} of encryption_keys is not id:key with 32 bytes in Base64; "
                    f"write {_EXAMPLE}."
                )
            keys[id] = key
        # an empty variable, with which rows would be stored plain
        if not keys:
            raise ConfigurationError(
                f"encryption_keys is set, but empty; write {_EXAMPLE}, or unset it."
            )
        return cls(keys)

    def seal(self, data: bytes, scope_id: bytes, place: bytes) -> bytes:
        """Encrypt data for one place of a scope."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher(self.current, scope_id).encrypt(nonce, data, scope_id + place)
        return self.header + nonce + sealed

    def open(self, sealed: bytes, scope_id: bytes, place: bytes) -> bytes:
        """Decrypt a value that `seal` returned.

        Raises:
            ConfigurationError: the ring lacks the key, or has another one of its name.
            StoreError: the value was altered, or belongs to another place.
        """
        from cryptography.exceptions import InvalidTag

        id = key_id(sealed)
        if id not in self._keys:
            raise missing_key(id)
        header = self._headers[id]
        if not sealed.startswith(header):
            raise ConfigurationError(
                f"The key {id!r} in encryption_keys differs from the one that sealed what is "
                "stored here; give it "
                "its own value again, or the new key a name of its own."
            )
        cut = len(header) + NONCE_BYTES
        try:
            return self._cipher(id, scope_id).decrypt(
                sealed[len(header) : cut], sealed[cut:], scope_id + place
            )
        except InvalidTag as error:
            raise StoreError(
                f"A value that the key {id!r} sealed was altered, or moved from another row; "
                "restore a backup."
            ) from error

    def _new_cipher(self, id: str, scope_id: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(_derived(self._keys[id], scope_id, b"data", KEY_BYTES))


def key_id(sealed: bytes) -> str:
    """Return the id of the key that sealed a value.

    Raises:
        StoreError: it is not a sealed value of this version.
    """
    if sealed[:1] != FORMAT or len(sealed) < 2 + sealed[1] + CHECK_BYTES + NONCE_BYTES:
        raise StoreError(
            "A sealed value is cut off or of another version; restore a backup, or upgrade "
            "kagent_memory."
        )
    return sealed[2 : 2 + sealed[1]].decode("ascii", "replace")


def missing_key(id: str) -> ConfigurationError:
    """Return the error for a missing key."""
    return ConfigurationError(
        f"What is stored here was encrypted with the key {id!r}, which is not in "
        "encryption_keys; add it there "
        f"(KAGENT_MEMORY_ENCRYPTION_KEYS={id}:…). Without that key it cannot be read."
    )


def _derived(key: bytes, salt: bytes, use: bytes, length: int) -> bytes:
    try:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise needs_extra("encryption_keys", "encryption", error) from error
    return HKDF(
        algorithm=SHA256(), length=length, salt=salt or None, info=b"kagent_memory " + use
    ).derive(key)
