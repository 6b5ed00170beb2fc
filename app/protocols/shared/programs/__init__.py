"""The one door to programs on this machine: those that the operator lists, bounded, and without a shell."""

from app.protocols.shared.programs.rules import ProgramRules
from app.protocols.shared.programs.running import Order, Running, start

__all__ = ["Order", "ProgramRules", "Running", "start"]
