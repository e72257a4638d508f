"""Which tokens a text consists of."""

import pytest

from engine.server.logprobs import LOWEST, LogprobAligner
from engine.worker.messages import TokenLogprobs


class Pieces:
    """A tokenizer whose tokens are the given bytes."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def token_bytes(self, token_id):
        return self.pieces[token_id]


def entries(pieces, texts):
    """The (bytes, logprob) of the entries after each text; all tokens are pushed before."""
    aligner = LogprobAligner(Pieces(*pieces))
    for token_id in range(len(pieces)):
        aligner.push(TokenLogprobs(token_id, -float(token_id)))
    shown = [[bytes(e["bytes"]) for e in aligner.take(text)] for text in texts]
    return shown, [bytes(e["bytes"]) for e in aligner.finish()]


@pytest.mark.parametrize(
    ("pieces", "texts", "expected", "cut"),
    [
        ([b"ab", b"c"], ["abc"], [[b"ab", b"c"]], []),
        ([b"ab", b"c"], ["a", "bc"], [[], [b"ab", b"c"]], []),
        ([b"\n\n", b"Hi"], ["Hi"], [[b"Hi"]], []),
        ([b"\n\nHi", b"!"], ["Hi!"], [[b"Hi", b"!"]], []),
        ([b"a", b"b\nc"], ["ab"], [[b"a"]], [b"b"]),
        ([b"\xf0\x9f", b"\x98\x80"], ["\U0001f600"], [[b"\xf0\x9f", b"\x98\x80"]], []),
        ([b"x\xff", b"y"], ["x\ufffdy"], [[b"x\xff", b"y"]], []),
        ([b"\x80\x80", b"\xf0\x9fa"], ["\ufffd\ufffd\ufffda"], [[b"\x80\x80", b"\xf0\x9fa"]], []),
        ([b"gone", b"a"], ["a"], [[b"a"]], []),
        ([], ["text"], [[]], []),
    ],
)
def test_joined_bytes_are_the_text(pieces, texts, expected, cut):
    assert entries(pieces, texts) == (expected, cut)


def test_values_are_finite_and_not_positive():
    aligner = LogprobAligner(Pieces(b"a", b"b"))
    aligner.push(TokenLogprobs(0, 1e-9, ((0, float("-inf")), (1, -2.0))))
    (entry,) = aligner.take("a")
    assert entry["logprob"] == 0.0
    assert [top["logprob"] for top in entry["top_logprobs"]] == [LOWEST, -2.0]
    assert [top["token"] for top in entry["top_logprobs"]] == ["a", "b"]
