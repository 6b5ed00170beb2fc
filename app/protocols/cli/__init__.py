"""Programs on the gateway's own machine: those that its operator lists, without a shell."""

from app.protocols.cli.adapter import CliAdapter

__all__ = ["CliAdapter"]
