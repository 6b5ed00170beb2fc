"""Parameters and response headers that several routes of the control plane share, for OpenAPI."""

from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Query

from app.api import crud
from app.api.authorisation import requires
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import location_header
from app.providers.credentials.input_models import SLOT, VARIABLE_NAME
from app.security.principal import Principal

ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]
WritesCredentials = Annotated[Principal, Depends(requires("credentials:write", recent=True))]
DeletesProviders = Annotated[Principal, Depends(requires("providers:write", recent=True))]

ProviderPath = Annotated[
    str, Path(pattern=PROVIDER_NAME, description="Name of a provider.", examples=["library"])
]
SlotPath = Annotated[
    str, Path(pattern=SLOT, description="Name of a credential slot.", examples=["memberKey"])
]
VariablePath = Annotated[
    str, Path(pattern=VARIABLE_NAME, description="Name of a variable, without `${}`.", examples=["REGION"])
]
NameQuery = Annotated[
    str | None,
    Query(pattern=PROVIDER_NAME, description="The provider's name, where the body cannot contain one."),
]
Prefer = Annotated[
    str | None,
    Header(
        max_length=200, description="`respond-async` returns 202 at once (RFC 7240).", examples=["wait=10"]
    ),
]

ETAG: Final[dict[str, Any]] = {"headers": crud.ETAG}
LOCATION: Final[dict[str, Any]] = {"headers": location_header("Path of the import's state.")}
