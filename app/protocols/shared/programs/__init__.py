"""Programs on this machine: only those that the operator lists run, with limits and without a shell."""

from app.protocols.shared.programs.rules import ProgramRules
from app.protocols.shared.programs.running import ProgramCommand, RunningProgram, start_program

__all__ = ["ProgramCommand", "ProgramRules", "RunningProgram", "start_program"]
