"""The one door to programs on this machine: those that the operator lists, bounded, and without a shell."""

from app.protocols.shared.programs.rules import ProgramRules
from app.protocols.shared.programs.running import ProgramCommand, RunningProgram, start_program

__all__ = ["ProgramCommand", "ProgramRules", "RunningProgram", "start_program"]
