"""UTCP's `cli`: programs on the gateway's own machine."""

from app.protocols.cli.commands import programs_of
from app.protocols.cli.template import CliTemplate
from app.protocols.record import DirectMode, Fields, ProtocolRecord, not_direct_here


def origin_of(fields: Fields) -> str:
    """Return the programs, as `cli:///usr/bin/one+/usr/bin/other`; raise InvalidInput for a command that
    cannot be read.
    """
    return "cli://" + "+".join(programs_of(fields))


PROTOCOL = ProtocolRecord(
    name="cli",
    template=CliTemplate,
    adapter="app.protocols.cli.adapter:CliAdapter",
    origin=origin_of,
    program_schemes=("cli",),
    may_be_local=True,
    direct=DirectMode(native=not_direct_here),
)
