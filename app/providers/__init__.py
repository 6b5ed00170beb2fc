"""The control plane: registering providers, their credentials, variables and tools by hand."""

from fastapi import APIRouter

from app.providers import routes, routes_credentials, routes_imports, routes_tools, routes_variables
from app.providers.dependencies import registry_of
from app.registration.batch import import_file
from app.registration.converter import Converter
from app.registration.service import Registry

router = APIRouter()
for _part in (routes, routes_credentials, routes_variables, routes_tools, routes_imports):
    router.include_router(_part.router)

__all__ = ["Converter", "Registry", "import_file", "registry_of", "router"]
