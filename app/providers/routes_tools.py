"""`POST /tools`: create a custom tool."""

from fastapi import APIRouter, Response

from app.providers.dependencies import UsesCustomTools
from app.providers.parameters import ETAG, WritesProviders
from app.providers.responses import model_response
from app.providers.schemas import CustomTool
from app.registration.input_models import CustomToolInput
from app.schemas import problem_responses

router = APIRouter(tags=["tools"])


@router.post(
    "/tools",
    operation_id="createTool",
    status_code=201,
    response_model=CustomTool,
    responses={201: ETAG, **problem_responses(400, 409, 413, 415)},
)
async def create_tool(body: CustomToolInput, principal: WritesProviders, tools: UsesCustomTools) -> Response:
    """Create a custom tool from a UTCP call template of any protocol, and its provider where there is
    none.
    """
    tool = await tools.add(body, principal=principal)
    return model_response(201, CustomTool.model_validate(tool, from_attributes=True))
