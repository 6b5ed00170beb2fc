"""Add documents of several files, and overlays, to sources.

Revision: 0002, after: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column("sources", sa.Column("root", sa.String(), nullable=True))
    op.add_column("sources", sa.Column("overlay", sa.Text(), nullable=True))
    op.add_column("sources", sa.Column("follows", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.alter_column("sources", "follows", server_default=None)


def downgrade() -> None:
    op.drop_column("sources", "follows")
    op.drop_column("sources", "overlay")
    op.drop_column("sources", "root")
