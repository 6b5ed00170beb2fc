"""HTTP Digest: the examples of RFC 7616, and challenges as servers send them."""

import hashlib
import re
from uuid import uuid4

import pytest

from app.outbound.signing.digest import DigestSigner, DigestStates, read_challenge
from app.outbound.signing.signer import SignableRequest
from app.security.secret import Secret
from tests.harness.cases import for_each

PASSWORD = "Circle of Life"
REQUEST = SignableRequest("GET", "http://www.example.org/dir/index.html", (), None)
RFC = (
    'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={}, '
    'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)


def parameters(header: str) -> dict[str, str]:
    return {
        name: quoted or plain
        for name, quoted, plain in re.findall(r'([a-z*]+)=(?:"([^"]*)"|([^\s,"]+))', header)
    }


def answer(challenge: str, *, username: str = "Mufasa") -> dict[str, str]:
    signer = DigestSigner(username, Secret(PASSWORD))
    assert signer.sign(REQUEST).headers == []
    assert signer.accept_challenge([challenge], {})
    [(name, value)] = signer.sign(REQUEST).headers
    assert name == "Authorization"
    assert value.startswith("Digest ")
    return parameters(value)


def expected(sent: dict[str, str], name: str, *, username: str = "Mufasa", session: bool = False) -> str:
    def digest(text: str) -> str:
        return hashlib.new(name, text.encode()).hexdigest()

    first = digest(f"{username}:{sent['realm']}:{PASSWORD}")
    if session:
        first = digest(f"{first}:{sent['nonce']}:{sent['cnonce']}")
    second = digest(f"GET:{sent['uri']}")
    if "qop" not in sent:
        return digest(f"{first}:{sent['nonce']}:{second}")
    return digest(f"{first}:{sent['nonce']}:{sent['nc']}:{sent['cnonce']}:auth:{second}")


@for_each(
    ("algorithm", "name"),
    [("MD5", "md5"), ("SHA-256", "sha256"), ("SHA-512-256", "sha512_256"), ("md5-sess", "md5"), ("SHA-256-sess", "sha256")],
)  # fmt: skip
def test_algorithms(algorithm: str, name: str) -> None:
    sent = answer(RFC.format(algorithm))
    assert (sent["uri"], sent["qop"], sent["nc"]) == ("/dir/index.html", "auth", "00000001")
    assert sent["opaque"] == "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
    assert sent["response"] == expected(sent, name, session=algorithm.endswith("sess"))


def test_a_server_without_qop_is_answered_as_rfc_2069_says() -> None:
    sent = answer('Digest realm="r", nonce="n"')
    assert {"qop", "nc", "cnonce"} & sent.keys() == set()
    assert sent["response"] == expected(sent, "md5")


def test_a_user_name_is_hashed_where_the_server_asks_for_it() -> None:
    sent = answer(RFC.format("SHA-256") + ", userhash=true")
    assert sent["username"] == hashlib.sha256(b"Mufasa:http-auth@example.org").hexdigest()
    assert sent["userhash"] == "true"


def test_a_user_name_beyond_ascii_is_percent_encoded() -> None:
    sent = answer('Digest realm="r", nonce="n", qop="auth"', username="Jäsøn")
    assert sent["username*"] == "UTF-8''J%C3%A4s%C3%B8n"
    assert sent["response"] == expected(sent, "md5", username="Jäsøn")


def test_a_nonce_is_used_again_with_a_rising_count() -> None:
    signer = DigestSigner("u", Secret(PASSWORD))
    assert signer.accept_challenge(['Digest realm="r", nonce="n", qop="auth"'], {})
    sent = [parameters(signer.sign(REQUEST).headers[0][1]) for _ in range(3)]
    assert [one["nc"] for one in sent] == ["00000001", "00000002", "00000003"]
    assert len({one["cnonce"] for one in sent}) == 3


def test_a_stale_nonce_is_replaced_and_a_wrong_password_ends_it() -> None:
    signer = DigestSigner("u", Secret(PASSWORD))
    signer.accept_challenge(['Digest realm="r", nonce="n1", qop="auth"'], {})
    sent = dict(signer.sign(REQUEST).headers)
    assert signer.accept_challenge(['Digest realm="r", nonce="n2", qop="auth", stale=TRUE'], sent)
    sent = dict(signer.sign(REQUEST).headers)
    assert parameters(sent["Authorization"])["nonce"] == "n2"
    assert not signer.accept_challenge(['Digest realm="r", nonce="n3", qop="auth"'], sent)
    assert signer.sign(REQUEST).headers == []


@pytest.mark.parametrize(
    "values",
    [
        ['Basic realm="a, Digest nonce=x", Digest realm="r", nonce="n", qop="auth"'],
        ['Negotiate, Digest nonce="n",realm="r", qop=auth'],
        ["Negotiate", 'digest Nonce = "n" , REALM = "r", qop="auth-int,auth"'],
        ['Digest algorithm=SHA3-256, nonce="x", realm="r"', 'Digest algorithm=MD5, nonce="n", realm="r", qop="auth"'],
    ],
)  # fmt: skip
def test_the_first_challenge_that_can_be_answered_is_found(values: list[str]) -> None:
    challenge = read_challenge(values)
    assert challenge is not None
    assert (challenge.realm, challenge.nonce, challenge.algorithm, challenge.has_qop) == (
        "r",
        "n",
        "MD5",
        True,
    )


@for_each(
    "values",
    [
        [], ["Basic realm=x"], ['Digest realm="r"'], ['Digest nonce="n", qop="auth-int"'],
        ['Digest nonce="n", algorithm=SHA-1'], ['Digest nonce="a\nb", realm="r"'], ["Digest " + "x" * 5000],
        ['Digest nonce="n", algorithm=MD5-sessx'], ["Digest"],
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_no_challenge(values: list[str]) -> None:
    assert read_challenge(values) is None


def test_the_parameters_are_quoted() -> None:
    signer = DigestSigner('a"b\\', Secret(PASSWORD))
    signer.accept_challenge([r'Digest realm="say \"hi\"", nonce="n", qop="auth"'], {})
    value = signer.sign(REQUEST).headers[0][1]
    assert r'username="a\"b\\"' in value
    assert r'realm="say \"hi\""' in value


def test_states_are_kept_by_credential_version_and_origin() -> None:
    states, credential = DigestStates(), uuid4()
    assert states.of(credential, 1, "https://a") is states.of(credential, 1, "https://a")
    assert states.of(credential, 1, "https://a") is not states.of(credential, 2, "https://a")
    assert states.of(credential, 1, "https://a") is not states.of(credential, 1, "https://b")


@for_each(
    "challenge",
    [
        'Digest realm="r, nonce="n',
        'Basic realm="Digest nonce=n',
        'Basic realm="a, Digest nonce=n"',
        'Basic realm="a\\", Digest nonce=n"',
        "Digest " + "a" * 4_000,
        '"\\' * 2_000,
    ],
)
def test_words_in_quoted_strings_are_no_challenge(challenge: str) -> None:
    assert read_challenge([challenge]) is None


def test_a_challenge_after_a_quoted_string_with_escapes_is_read() -> None:
    found = read_challenge(['Basic realm="a \\"b\\", c", Digest realm="r \\"s\\"", nonce = "n"'])
    assert found is not None
    assert (found.realm, found.nonce) == ('r "s"', "n")
