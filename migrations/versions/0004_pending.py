"""Add changes that are pending approval.

Revision: 0004, after: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column(
        "revisions",
        sa.Column("held", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    )


def downgrade() -> None:
    op.execute("DELETE FROM revisions WHERE state = 'pending'")
    op.drop_column("revisions", "held")
