"""`POST /tools`: create a custom tool."""

from fastapi import APIRouter, Request, Response

from app.api.dependencies import location_of
from app.api.providers.dependencies import UsesCustomTools
from app.api.providers.parameters import ETAG, WritesProviders
from app.api.providers.responses import model_response
from app.api.providers.schemas import CustomTool
from app.api.providers.views import custom_tool_of
from app.core.schemas import location_header, problem_responses
from app.providers.registration.input_models import CustomToolInput

router = APIRouter(tags=["tools"])


@router.post(
    "/tools",
    operation_id="createTool",
    summary="Create a custom tool",
    status_code=201,
    response_model=CustomTool,
    responses={
        201: {
            "description": "Created",
            "headers": {**ETAG["headers"], **location_header("Path of the tool.")},
        },
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_tool(
    request: Request, body: CustomToolInput, principal: WritesProviders, tools: UsesCustomTools
) -> Response:
    """Create a custom tool from a UTCP call template of any protocol, and its provider where there is
    none.
    """
    tool = custom_tool_of(await tools.add(body, principal=principal))
    return model_response(201, tool, headers={"Location": location_of(request, "tools", tool.name)})
