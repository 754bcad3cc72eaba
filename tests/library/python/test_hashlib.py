"""hashlib in compiled functions: hashes of bytes that are known, without a graph break; hashes that outlive the trace, or come from outside."""

from __future__ import annotations

import hashlib

import pytest
import torch

import framejit


def state(made):
    return made.name, made.digest_size, made.block_size, made.hexdigest() if made.digest_size else made.hexdigest(8)


@pytest.mark.parametrize("make", [
    lambda data: hashlib.sha256(data), lambda data: hashlib.md5(data, usedforsecurity=False), lambda data: hashlib.new("sha1", data),
    lambda data: hashlib.blake2b(data, digest_size=8, key=b"k"), lambda data: hashlib.shake_128(data), lambda data: hashlib.sha3_256(string=data),
])  # fmt: skip
def test_a_hash_is_computed_and_can_be_returned(make):
    def program(x, text):
        made = make(text.encode())
        other = made.copy()
        other.update(b"more")
        return x + made.digest_size, state(made), state(other), other

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for text in ("a", "a", "b", ""):
        expected, found = program(torch.ones(2), text), compiled(torch.ones(2), text)
        assert torch.equal(expected[0], found[0]) and expected[1:3] == found[1:3] and state(found[3]) == state(expected[3])
        assert type(found[3]) is type(expected[3])
        found[3].update(b"x")  # each call makes its own
    assert framejit.statistics()["graphs"] == 3


def test_a_hash_that_is_in_use_at_a_graph_break():
    def program(x, kept):
        made = hashlib.sha256(b"a")
        kept.append(made)
        made.update(b"b")
        framejit.graph_break()
        made.update(b"c")
        return x + 1, made.hexdigest(), made is kept[-1]

    compiled, kept = framejit.compile(program, backend="eager"), []
    for _ in range(2):
        assert compiled(torch.ones(2), kept)[1:] == program(torch.ones(2), [])[1:]
    assert [made.hexdigest() for made in kept] == [hashlib.sha256(b"abc").hexdigest()] * 2


def test_a_hash_from_outside_and_errors():
    def program(x, made, data):
        try:
            made.update(data)
            hashlib.sha256(data)
        except TypeError as error:
            return x, str(error)
        return x + 1, made.hexdigest()

    compiled = framejit.compile(program, backend="eager")
    for data in (b"a", "a", None, bytearray(b"a")):
        assert compiled(torch.ones(2), hashlib.sha1(), data)[1] == program(torch.ones(2), hashlib.sha1(), data)[1]
    for name, wrong in (("no such hash", ValueError), (3, TypeError)):
        with pytest.raises(wrong):
            framejit.compile(lambda x, name=name: (x + 1, hashlib.new(name)), backend="eager")(torch.ones(2))
