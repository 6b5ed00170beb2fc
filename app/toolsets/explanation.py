"""Whether a key may see and call a tool now, by any address, as far as the requesting key may know it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.access.repository import KeyState, find_visible, state_of
from app.access.verifier import KeyVerifier
from app.calls.explanation import CallExplainer, Check, may_look_up
from app.core.errors import NotFound, not_found, scopes_missing
from app.core.upstream_mode import UpstreamMode, choose_mode
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Key
from app.toolsets.collection import AmbiguousTool, CallTarget
from app.toolsets.collections import ToolCollections

_STATES: Final[dict[KeyState, str]] = {
    "active": "The key is valid.",
    "expired": "The key has expired.",
    "revoked": "The key was revoked.",
}


@dataclass(frozen=True, slots=True)
class AccessExplanation:
    """Whether a key may see and call a tool: the checks in the order of a call, that of the key itself first.

    `tool` and `provider` are None where the requesting key may see no tools, `may_see` and `may_call` where
    that was not determined; `mode` is the upstream mode of the call, None for live.
    """

    key_id: str
    key_name: str
    tool: str | None
    provider: str | None
    may_see: bool | None
    may_call: bool | None
    checks: Sequence[Check]
    mode: UpstreamMode | None


@dataclass(frozen=True, slots=True)
class AccessExplainer:
    """Explains access by the same rules as a call, which is not made."""

    calls: CallExplainer
    keys: KeyVerifier
    collections: ToolCollections
    database: Database

    async def explain(
        self, tool: str, *, key_id: str | None, toolset: str | None, principal: Principal
    ) -> AccessExplanation:
        """Explain whether a key, None for the requesting one, may see and call a tool; with `toolset`, by the
        address of this toolset. Raise Forbidden, and NotFound for what the requesting key may not see.
        """
        subject = principal
        key_check = Check("key-state", True, _STATES["active"])
        if key_id is not None and key_id != principal.key_id:
            row = await self._require_other_key(key_id, principal)
            subject = self.keys.principal_of(row)
            key_check = _check_key_state(row)
        viewer, of_toolset = principal, None
        through = None
        if toolset is not None and may_look_up(principal):
            through = (await self.collections.toolset(toolset, principal)).target(tool)
        elif subject.toolsets is not None and may_look_up(principal):
            through = await self._find_target(tool, subject, is_own=subject is principal)
        if through is not None:
            tool, of_toolset = through.tool, through.through.options.upstream
            name = through.through.toolset or ""
            viewer = viewer.within_toolset(name) or viewer
            # A key that is limited to other toolsets does not pass the check of its restrictions.
            subject = subject.within_toolset(name) or subject
        mode = choose_mode(subject.upstream, of_toolset)
        explanation = await self.calls.explain(tool, principal=subject, viewer=viewer, mode=mode)
        checks = (key_check, *explanation.checks)
        results = {check.passed for check in checks if check.required}
        return AccessExplanation(
            key_id=subject.key_id,
            key_name=subject.name,
            tool=explanation.tool,
            provider=explanation.provider,
            may_see=explanation.may_see if key_check.passed else False,
            may_call=False if False in results else None if None in results else True,
            checks=checks,
            mode=mode,
        )

    async def _find_target(self, tool: str, subject: Principal, *, is_own: bool) -> CallTarget | None:
        """Return what a key that is limited to toolsets calls by a name, None where another key is asked
        about that has no tool of the name; raise NotFound where the requesting key has none, or several.
        """
        try:
            return (await self.collections.open_view(subject)).target(tool)
        except AmbiguousTool as error:
            raise not_found(error.detail, error.extra["suggestions"]) from None
        except NotFound:
            if is_own:
                raise
            return None

    async def _require_other_key(self, key_id: str, principal: Principal) -> Key:
        """Return another key than the request's, revoked or not; raise Forbidden and NotFound."""
        if not principal.has_scope("keys:manage"):
            raise scopes_missing(
                "For another key than itself, the API key needs the scope `keys:manage`.", ["keys:manage"]
            )
        async with self.database.read_session() as session:
            row = await find_visible(session, key_id, principal=principal, include_revoked=True)
        if row is None:
            raise NotFound("There is no such key.")
        return row


def _check_key_state(row: Key) -> Check:
    state = state_of(row)
    if state == "active":
        return Check("key-state", True, _STATES[state])
    hint = "Create another key with POST /keys."
    if row.successor_id is not None:
        hint = f"Use its successor {row.successor_id}."
    return Check("key-state", False, _STATES[state], hint)
