"""Add records of calls that are about to be made, with their attempts and sealed bodies.

Revision: 0008, after: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COLUMNS = ("attempts", "safe", "deadline", "arguments", "result")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.add_column("calls", sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("calls", sa.Column("safe", sa.Boolean(), nullable=True))
    op.add_column("calls", sa.Column("deadline", sa.DateTime(timezone=True), nullable=True))
    op.add_column("calls", sa.Column("arguments", sa.LargeBinary(), nullable=True))
    op.add_column("calls", sa.Column("result", sa.LargeBinary(), nullable=True))
    op.create_index("calls_running", "calls", ["deadline"], postgresql_where=sa.text("outcome = 'running'"))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("calls_running", table_name="calls")
    for column in _COLUMNS:
        op.drop_column("calls", column)
