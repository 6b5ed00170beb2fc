"""A service of Google: google-api-python-client, with the Discovery documents that it contains."""

from typing import Any

from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from recording import CREDENTIAL, always_differs, at


def service(name: str, version: str, origin: str) -> Any:
    """Return the SDK's service at the recorder."""
    always_differs("/query/alt", "The SDK asks for alt=json, which is the default of the API.")
    return build(
        name,
        version,
        credentials=Credentials(token=CREDENTIAL),
        static_discovery=True,
        client_options={"api_endpoint": at(origin)},
    )
