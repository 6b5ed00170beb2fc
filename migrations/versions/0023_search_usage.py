"""Add what is learned from use: searches that calls may follow, labels by stem, tool and key, and the texts
of searches, where these are stored.

Revision: 0023, after: 0022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "pending_searches",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("stems", postgresql.ARRAY(sa.LargeBinary()), nullable=False),
        sa.Column("tools", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("called", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pending_searches_at", "pending_searches", ["at"])
    op.create_table(
        "search_labels",
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("stem", sa.LargeBinary(), nullable=False),
        sa.Column("tool_id", sa.Uuid(), nullable=False),
        sa.Column("key_digest", sa.LargeBinary(), nullable=False),
        sa.Column("of_token", sa.Boolean(), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["tool_id"], ["tools.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("tenant_id", "stem", "tool_id", "key_digest"),
    )
    op.create_index("search_labels_tool", "search_labels", ["tool_id"])
    op.create_index("search_labels_key", "search_labels", ["tenant_id", "key_digest", "updated_at"])
    op.create_index("search_labels_updated", "search_labels", ["updated_at"])
    op.create_table(
        "search_queries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("toolset", sa.String(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("tools", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("called", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("search_queries_at", "search_queries", ["at"])
    op.create_table(
        "search_usage_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("matched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("maintained_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in ("search_usage_state", "search_queries", "search_labels", "pending_searches"):
        op.drop_table(table)
