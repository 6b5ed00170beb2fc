"""Upstreams' side of signed requests: verifiers from libraries, for what the gateway signs."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any


def verify_sigv4(
    *,
    method: str,
    url: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    credentials: tuple[str, str, str | None],
) -> bool:
    """Return whether botocore makes the same signature for this request as its header Authorization has.

    `credentials` are the id, the secret key and the session token; region and service are those that the
    request names.
    """
    # Here, so that collecting the tests does not pay for it.
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given: Mapping[str, str] = {name.lower(): value for name, value in headers}
    authorization = given["authorization"]
    parts = dict(one.strip().split("=", 1) for one in authorization.partition(" ")[2].split(","))
    key_id, date, region, service, _ = parts["Credential"].split("/")
    signed = parts["SignedHeaders"].split(";")
    # botocore signs the headers that it is given: here those that the request says are signed.
    request: Any = AWSRequest(  # type: ignore[no-untyped-call]
        method, url, headers={name: given[name] for name in signed if name != "host"}, data=body
    )
    request.headers["host"] = given["host"]
    request.context["timestamp"] = given["x-amz-date"]
    kind: Any = S3SigV4Auth if service == "s3" else SigV4Auth
    owner = Credentials(*credentials)  # type: ignore[no-untyped-call]
    signer = kind(owner, service, region)
    if "x-amz-content-sha256" in given:
        assert given["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    if credentials[2] is not None:
        assert given["x-amz-security-token"] == credentials[2]
    assert (key_id, date) == (credentials[0], given["x-amz-date"][:8])
    assert "host" in signed
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return bool(signer.signature(text, request) == parts["Signature"])
