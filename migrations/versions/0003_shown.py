"""Add the shortened form of a large tool, which models are shown.

Revision: 0003, after: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column(
        "tools", sa.Column("shown", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True)
    )


def downgrade() -> None:
    op.drop_column("tools", "shown")
