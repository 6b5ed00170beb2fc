"""Add recordings, their interactions and runs, the upstream mode of keys, and the source of responses in call
records and statistics.

The key of the statistics is built again, for which the table is locked.

Revision: 0020, after: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_BEFORE = [
    "resolution", "at", "tenant_id", "provider", "tool", "key_id", "interface", "toolset", "outcome", "bin",
    "shard",
]  # fmt: skip
_AFTER = [*_BEFORE[:8], "source", *_BEFORE[8:]]
_KEY = ", ".join(_BEFORE)
_COUNTS = "calls, duration_ms, max_duration_ms, request_bytes, response_bytes"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.create_table(
        "recordings",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("options", postgresql.JSONB(), nullable=False),
        sa.Column("interactions", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("last_position", sa.Integer(), nullable=False),
        sa.Column("omitted", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "name"),
    )
    op.create_table(
        "recorded_interactions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("recording_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("definition", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("sealed_arguments", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_response", sa.LargeBinary(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("recording_id", "position"),
    )
    op.create_index(
        "recorded_interactions_request", "recorded_interactions", ["recording_id", "digest", "position"]
    )
    op.create_table(
        "replay_runs",
        sa.Column("recording_id", sa.Uuid(), nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("replayed", sa.Integer(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("recording_id", "run", "digest"),
    )
    op.create_index("replay_runs_used", "replay_runs", ["used_at"])
    op.add_column("keys", sa.Column("upstream", postgresql.JSONB(), nullable=True))
    # A worker of the release before stores its calls without it; all of them reached their upstream.
    op.add_column("calls", sa.Column("source", sa.String(), nullable=False, server_default="upstream"))
    op.add_column("call_stats", sa.Column("source", sa.String(), nullable=False, server_default="upstream"))
    op.drop_constraint("call_stats_pkey", "call_stats")
    op.create_primary_key("call_stats_pkey", "call_stats", _AFTER)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    # One statement that deletes rows and inserts others with their keys would conflict with itself.
    op.drop_constraint("call_stats_pkey", "call_stats")
    op.execute(
        f"CREATE TEMPORARY TABLE added_sources ON COMMIT DROP AS SELECT {_KEY}, sum(calls)::bigint AS calls,"  # noqa: S608 - constants.
        " sum(duration_ms) AS duration_ms, max(max_duration_ms) AS max_duration_ms,"
        " sum(request_bytes)::bigint AS request_bytes, sum(response_bytes)::bigint AS response_bytes"
        f" FROM call_stats GROUP BY {_KEY}"
    )
    op.execute("TRUNCATE call_stats")
    op.drop_column("call_stats", "source")
    op.execute(f"INSERT INTO call_stats ({_KEY}, {_COUNTS}) SELECT {_KEY}, {_COUNTS} FROM added_sources")  # noqa: S608 - constants.
    op.create_primary_key("call_stats_pkey", "call_stats", _BEFORE)
    op.drop_column("calls", "source")
    op.drop_column("keys", "upstream")
    op.drop_table("replay_runs")
    op.drop_table("recorded_interactions")
    op.drop_table("recordings")
