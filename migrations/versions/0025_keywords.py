"""Store keywords of tools, and the language of documents.

Revision: 0025, after: 0021
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0021"
branch_labels = None
depends_on = None

_OVERRIDES = ("overrides", "retained_overrides")
_LANGUAGES = ("language", "document_language")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    texts = postgresql.ARRAY(sa.Text())
    # A worker of the release before stores its tools without it.
    op.add_column("tools", sa.Column("keywords", texts, nullable=False, server_default="{}"))
    for table in _OVERRIDES:
        op.add_column(table, sa.Column("keywords", texts, nullable=True))
    for column in _LANGUAGES:
        op.add_column("providers", sa.Column(column, sa.String(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for column in _LANGUAGES:
        op.drop_column("providers", column)
    for table in (*_OVERRIDES, "tools"):
        op.drop_column(table, "keywords")
