"""Add synonyms and pinned results of searches, per tenant and per toolset.

Revision: 0024, after: 0023
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    _create(
        "search_synonyms",
        sa.Column("terms", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("expand_to", postgresql.ARRAY(sa.Text()), nullable=True),
    )
    _create(
        "search_pins",
        sa.Column("query", sa.String(), nullable=False),
        sa.Column("tools", postgresql.ARRAY(sa.Text()), nullable=False),
    )


def _create(table: str, *columns: sa.Column[Any]) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("toolset", sa.String(), nullable=True),
        *columns,
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "toolset", "digest", postgresql_nulls_not_distinct=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "toolset"], ["toolsets.tenant_id", "toolsets.name"], ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("search_pins")
    op.drop_table("search_synonyms")
