"""Add statistics of calls by minute and hour, counted from the stored records, and two columns of `calls`.

Records that workers of an earlier release store after this migration are not counted.

Revision: 0011, after: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_COUNT_STORED = """
INSERT INTO call_stats (resolution, at, tenant_id, provider, tool, key_id, outcome, bin, shard, calls,
  duration_ms, max_duration_ms, request_bytes, response_bytes)
SELECT resolution, date_trunc(resolution, at, 'UTC'), tenant_id, provider, tool, key_id, outcome, bin, 0,
  count(*), sum(duration_ms), max(duration_ms), sum(request_bytes), sum(response_bytes)
FROM (
  SELECT at, tenant_id, provider, CASE WHEN provider = '' THEN '' ELSE tool END AS tool, key_id, outcome,
    CASE WHEN outcome = 'unknown' THEN -1 WHEN duration_ms <= 0.1 THEN 0
      ELSE least(120, ceil(ln(duration_ms / 0.1) * 4 / ln(2.0::float8))) END AS bin,
    CASE WHEN outcome = 'unknown' THEN 0 ELSE duration_ms END AS duration_ms,
    CASE WHEN outcome = 'unknown' THEN 0 ELSE request_bytes END AS request_bytes,
    CASE WHEN outcome = 'unknown' THEN 0 ELSE response_bytes END AS response_bytes
  FROM calls WHERE outcome <> 'running'
) AS ended, (VALUES ('minute'), ('hour')) AS resolutions(resolution)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column("calls", sa.Column("replaced_outcome", sa.String(), nullable=True))
    op.add_column("calls", sa.Column("stored_at", sa.DateTime(timezone=True), nullable=True))
    # A statement of its own: with a default from the start, all rows would be written again.
    op.alter_column("calls", "stored_at", server_default=sa.text("clock_timestamp()"))
    op.create_index(
        "calls_stored", "calls", ["stored_at", "id"], postgresql_where=sa.text("stored_at IS NOT NULL")
    )
    op.create_table(
        "call_stats",
        sa.Column("resolution", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("shard", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("max_duration_ms", sa.Float(), nullable=False),
        sa.Column("request_bytes", sa.BigInteger(), nullable=False),
        sa.Column("response_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "resolution", "at", "tenant_id", "provider", "tool", "key_id", "outcome", "bin", "shard"
        ),
    )
    op.create_index("call_stats_shards", "call_stats", ["at"], postgresql_where=sa.text("shard <> 0"))
    op.execute(_COUNT_STORED)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("call_stats")
    op.drop_index("calls_stored", table_name="calls")
    op.drop_column("calls", "stored_at")
    op.drop_column("calls", "replaced_outcome")
