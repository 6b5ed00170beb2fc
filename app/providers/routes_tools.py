"""`POST /tools`: one tool, written by hand."""

from fastapi import APIRouter, Response

from app.providers.answers import model_response
from app.providers.dependencies import UsesHandTools
from app.providers.parameters import ETAG, WritesProviders
from app.providers.schemas import HandTool
from app.registration.input_models import HandToolInput
from app.schemas import problems

router = APIRouter(tags=["tools"])


@router.post(
    "/tools",
    operation_id="createTool",
    status_code=201,
    response_model=HandTool,
    responses={201: ETAG, **problems(400, 409, 413, 415)},
)
async def create_tool(body: HandToolInput, principal: WritesProviders, tools: UsesHandTools) -> Response:
    """Write a tool by hand: a UTCP call template of any protocol. Its provider is made if there is none."""
    tool = await tools.add(body, principal=principal)
    return model_response(201, HandTool.model_validate(tool, from_attributes=True))
