"""Signatures, against the vectors of RFC 8032 and another implementation."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scissorhands.errors import ReadError, RunError
from scissorhands.evidence.signing import make_key, read_key
from scissorhands.verify.ed25519 import _ORDER, public_key, verified

# RFC 8032, section 7.1, tests 1 to 3: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
        "655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
        "b00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28d"
        "c027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard_are_accepted_and_each_change_of_them_is_not(
    public: str, message: str, signature: str
) -> None:
    key, said, signed = (bytes.fromhex(one) for one in (public, message, signature))
    assert verified(key, said, signed)
    assert not verified(key, said + b"!", signed)
    assert not verified(key, said, signed[:-1])
    for place in (0, 31, 32, 63):
        changed = bytearray(signed)
        changed[place] ^= 1
        assert not verified(key, said, bytes(changed))


def test_a_signature_whose_scalar_was_raised_by_the_order_is_not_another_valid_one() -> None:
    public, message, signature = (bytes.fromhex(one) for one in VECTORS[1])
    raised = int.from_bytes(signature[32:], "little") + _ORDER
    assert not verified(public, message, signature[:32] + raised.to_bytes(32, "little"))


def test_what_another_library_signs_is_valid() -> None:
    for seed in range(3):
        key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        message = bytes(range(seed, 200))
        assert verified(key.public_key().public_bytes_raw(), message, key.sign(message))


def test_a_key_that_was_made_is_private_read_back_and_never_replaced(tmp_path: Path) -> None:
    secret, public = make_key(tmp_path)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert public_key(public.read_text()) == read_key(secret).public_key().public_bytes_raw()
    with pytest.raises(RunError, match="never replaced"):
        make_key(tmp_path)
    with pytest.raises(ReadError, match="not a private key in PEM"):
        read_key(public)
    with pytest.raises(ValueError, match="not a public key in PEM"):
        public_key(secret.read_text())
