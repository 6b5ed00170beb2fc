"""Allow average response sizes above two billion bytes.

Revision: 0006, after: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    op.alter_column("tools", "average_response_size", type_=sa.BigInteger())


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("UPDATE tools SET average_response_size = NULL WHERE average_response_size > 2147483647")
    op.alter_column("tools", "average_response_size", type_=sa.Integer())
