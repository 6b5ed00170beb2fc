"""Settings of what the OpenAPI document says about this deployment: contact, licence, terms of service."""

from typing import Any, Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

_APACHE: Final = "Apache-2.0"
"""The SPDX identifier of the gateway's own licence."""


class ApiDescriptionSettings(BaseSettings, defer_build=True):
    """What `/openapi.json` says about who operates this deployment, and on which terms."""

    # OpenAPI document
    contact_name: str = Field(
        "Operator of this gateway", max_length=200, description="`info.contact.name` of `/openapi.json`."
    )
    contact_url: str | None = Field(
        None, max_length=2048, description="`info.contact.url`: a page on which users of the API get help."
    )
    contact_email: str | None = Field(
        None,
        max_length=320,
        pattern=r"^[^@\s]+@[^@\s]+$",
        description="`info.contact.email`: an address to which users of the API may write.",
    )
    license_name: str = Field(
        _APACHE, max_length=200, description="`info.license.name`: the licence of the API."
    )
    license_url: str | None = Field(
        None, max_length=2048, description="`info.license.url`: the text of that licence."
    )
    terms_of_service_url: str | None = Field(
        None, max_length=2048, description="`info.termsOfService`: the terms on which the API may be used."
    )

    @field_validator("contact_url", "license_url", "terms_of_service_url")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            msg = "must begin with https:// or http://"
            raise ValueError(msg)
        return value

    def build_openapi_info(self) -> dict[str, Any]:
        """Return the members `contact`, `license` and perhaps `termsOfService` of an OpenAPI Info Object."""
        contact = {"name": self.contact_name, "url": self.contact_url, "email": self.contact_email}
        licence = {"name": self.license_name, "url": self.license_url}
        if self.license_url is None and self.license_name == _APACHE:
            licence["identifier"] = _APACHE
        info: dict[str, Any] = {
            "contact": {name: value for name, value in contact.items() if value is not None},
            "license": {name: value for name, value in licence.items() if value is not None},
        }
        if self.terms_of_service_url is not None:
            info["termsOfService"] = self.terms_of_service_url
        return info
