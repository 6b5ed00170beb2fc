"""Record by the address of which toolset a call came, and divide the statistics by interface and toolset.

The key of the statistics is built again, for which the table is locked.

Revision: 0017, after: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_BEFORE = ["resolution", "at", "tenant_id", "provider", "tool", "key_id", "outcome", "bin", "shard"]
_AFTER = [*_BEFORE[:6], "interface", "toolset", *_BEFORE[6:]]
_KEY = ", ".join(_BEFORE)
_COUNTS = "calls, duration_ms, max_duration_ms, request_bytes, response_bytes"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column("calls", sa.Column("toolset", sa.String(), nullable=False, server_default=""))
    # Before revision 0016, all calls came by the only interface that there was.
    op.add_column("call_stats", sa.Column("interface", sa.String(), nullable=False, server_default="rest"))
    op.add_column("call_stats", sa.Column("toolset", sa.String(), nullable=False, server_default=""))
    op.drop_constraint("call_stats_pkey", "call_stats")
    op.create_primary_key("call_stats_pkey", "call_stats", _AFTER)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    # One statement that deletes rows and inserts others with their keys would conflict with itself.
    op.drop_constraint("call_stats_pkey", "call_stats")
    op.execute(
        f"CREATE TEMPORARY TABLE added ON COMMIT DROP AS SELECT {_KEY}, sum(calls)::bigint AS calls,"  # noqa: S608 - constants.
        " sum(duration_ms) AS duration_ms, max(max_duration_ms) AS max_duration_ms,"
        " sum(request_bytes)::bigint AS request_bytes, sum(response_bytes)::bigint AS response_bytes"
        f" FROM call_stats GROUP BY {_KEY}"
    )
    op.execute("TRUNCATE call_stats")
    op.drop_column("call_stats", "toolset")
    op.drop_column("call_stats", "interface")
    op.execute(f"INSERT INTO call_stats ({_KEY}, {_COUNTS}) SELECT {_KEY}, {_COUNTS} FROM added")  # noqa: S608 - constants.
    op.create_primary_key("call_stats_pkey", "call_stats", _BEFORE)
    op.drop_column("calls", "toolset")
