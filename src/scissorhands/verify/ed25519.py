"""Check an Ed25519 signature (RFC 8032). It only verifies: to sign safely takes a library that hides its timing."""

import base64
import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_PREFIX = bytes.fromhex("302a300506032b6570032100")  # of a public key in DER

Point = tuple[int, int, int, int]  # extended coordinates


def verified(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature of a message is one by this key."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, commitment = _point(public), _point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    return _same(_times(scalar, _BASE), _plus(commitment, _times(challenge, key)))


def public_key(text: str) -> bytes:
    """Read a public key from a PEM file's text."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if lines[:1] != ["-----BEGIN PUBLIC KEY-----"] or lines[-1] != "-----END PUBLIC KEY-----":
        raise ValueError("it is not a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----")
    encoded = base64.b64decode("".join(lines[1:-1]), validate=True)
    if len(encoded) != 44 or not encoded.startswith(_PREFIX):
        raise ValueError("it is not an Ed25519 key")
    return encoded[12:]


def _point(encoded: bytes) -> Point | None:
    """Decode a point of the curve; None if it is none."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    x = _P - x if x & 1 != sign else x
    return x, y, 1, x * y % _P


def _plus(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _plus(total, point)
        point, scalar = _plus(point, point), scalar >> 1
    return total


def _same(one: Point, other: Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % _P == 0 and (one[1] * other[2] - other[1] * one[2]) % _P == 0


_BASE = _point((4 * pow(5, -1, _P) % _P).to_bytes(32, "little")) or (0, 1, 1, 0)
