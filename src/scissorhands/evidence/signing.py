"""Keys and signatures: Ed25519, as `openssl genpkey -algorithm ed25519` makes them."""

import os
from pathlib import Path
from typing import Any

from ..errors import ReadError, RunError
from ..files import read_bytes, write_text
from ..tasks.diffusion.extras import imported
from ..verify.pack import as_json

_MOST = 1 << 16  # bytes of a key file


def make_key(folder: Path) -> tuple[Path, Path]:
    """Write a new key into a folder: key.pem, which is for its owner alone, and public.pem, which is for everybody."""
    serialization, ed25519 = _cryptography()
    secret, public = folder / "key.pem", folder / "public.pem"
    for path in (secret, public):
        if os.path.lexists(path):
            raise RunError(f"{path} exists already, and a key is never replaced.")
    folder.mkdir(parents=True, exist_ok=True)
    key, text = ed25519.Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    plain = (text, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_text(secret, key.private_bytes(*plain).decode(), private=True)
    write_text(public, key.public_key().public_bytes(text, serialization.PublicFormat.SubjectPublicKeyInfo).decode())
    return secret, public


def read_key(path: Path) -> Any:
    """Read a private key from a PEM file without a password."""
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_private_key(read_bytes(path, _MOST), None)
    except (ValueError, TypeError):
        raise ReadError(f"{path} cannot be read: it is not a private key in PEM without a password.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ReadError(f"{path} cannot be read: it is not an Ed25519 key.")
    return key


def signature(message: bytes, key: Any) -> bytes:
    """Return a file that holds the signature of a message, and the public key to check it with."""
    serialization, _ = _cryptography()
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
    return as_json({"public_key": public, "signature": key.sign(message).hex()})


def _cryptography() -> tuple[Any, Any]:
    primitives = "cryptography.hazmat.primitives"
    return imported(f"{primitives}.serialization", "sign"), imported(f"{primitives}.asymmetric.ed25519", "sign")
