"""Record the evidence of calls of ToolClad tools.

Revision: 0019, after: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    # A column without a default does not rewrite the partitions.
    op.add_column("calls", sa.Column("evidence", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("calls", "evidence")
