"""Upstream modes: whether calls reach their upstream, and what takes its place where they do not.

    live     the upstream responds
    record   the upstream responds, and what it gave is stored in a recording
    replay   a recording responds: no connection is opened, no credential is used
    mock     responses are made from examples and the schema of the tool

A key has a mode, and a toolset may have one. Modes that do not reach the upstream come first, and of two of
them the key's: so no address, interface or toolset takes a key that replays to an upstream, and nobody gets
past a toolset that replays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

ModeName = Literal["live", "record", "replay", "mock"]
CallSource = Literal["upstream", "recording", "mock"]
"""What the response of a call came from."""
RECORDING_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
MAX_SEED: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class UpstreamMode:
    """A mode, with the name of the recording that `record` and `replay` use, and the seed of `mock`."""

    mode: ModeName
    recording: str | None = None
    seed: int = 0

    @property
    def is_offline(self) -> bool:
        """Whether calls do not reach their upstream."""
        return self.mode in ("replay", "mock")

    @property
    def source(self) -> CallSource:
        """What responds to calls."""
        if self.mode == "replay":
            return "recording"
        return "mock" if self.mode == "mock" else "upstream"

    def to_stored(self) -> dict[str, Any]:
        """Return the mode as JSON values: members without a meaning for it are left out."""
        stored: dict[str, Any] = {"mode": self.mode}
        if self.mode in ("record", "replay"):
            stored["recording"] = self.recording
        if self.mode == "mock":
            stored["seed"] = self.seed
        return stored

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> Self | None:
        """Return a stored mode; None where nothing is stored.

        A mode of a later release is an offline one without a recording: its calls fail, and reach nothing.
        """
        if stored is None:
            return None
        mode = stored.get("mode")
        if mode not in ("live", "record", "replay", "mock"):
            return cls("replay")
        return cls(mode, stored.get("recording"), stored.get("seed") or 0)


def choose_mode(key: UpstreamMode | None, toolset: UpstreamMode | None) -> UpstreamMode | None:
    """Return the mode of a call by a key at the address of a toolset; None: live, the mode of most calls."""
    for mode in (key, toolset):
        if mode is not None and mode.is_offline:
            return mode
    for mode in (key, toolset):
        if mode is not None and mode.mode == "record":
            return mode
    return None
