"""Rename columns and a table, and members of stored JSON, after what they contain.

kept_overrides -> retained_overrides, tools.shown -> slimmed, sources.follows -> follow_references,
revisions.held -> pending_definitions; in the reports of revisions `verdict` -> outcome (or, in pending ones,
compatibility) and `held` -> pending_approval.

Revision: 0010, after: 0009
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_TABLES = (("kept_overrides", "retained_overrides"),)
_CONSTRAINTS = (
    ("retained_overrides", "kept_overrides_pkey", "retained_overrides_pkey"),
    ("retained_overrides", "kept_overrides_provider_id_fkey", "retained_overrides_provider_id_fkey"),
)
_COLUMNS = (
    ("tools", "shown", "slimmed"),
    ("sources", "follows", "follow_references"),
    ("revisions", "held", "pending_definitions"),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    for old, new in _TABLES:
        op.rename_table(old, new)
    for table, old, new in _CONSTRAINTS:
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}")
    for table, old, new in _COLUMNS:
        op.alter_column(table, old, new_column_name=new)
    _rename_members("report", "operations", "state <> 'pending'", (("verdict", "outcome"),))
    changes = (("verdict", "compatibility"), ("held", "pending_approval"))
    _rename_members("report", "operations", "state = 'pending'", changes)
    _rename_members("pending_definitions", "tools", "true", (("shown", "slimmed"),))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SET LOCAL statement_timeout = '10min'")
    _rename_members("pending_definitions", "tools", "true", (("slimmed", "shown"),))
    changes = (("compatibility", "verdict"), ("pending_approval", "held"))
    _rename_members("report", "operations", "state = 'pending'", changes)
    _rename_members("report", "operations", "state <> 'pending'", (("outcome", "verdict"),))
    for table, old, new in _COLUMNS:
        op.alter_column(table, new, new_column_name=old)
    for table, old, new in _CONSTRAINTS:
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {new} TO {old}")
    for old, new in _TABLES:
        op.rename_table(new, old)


def _rename_members(column: str, array: str, condition: str, names: tuple[tuple[str, str], ...]) -> None:
    """Rename members of the objects of an array in a JSON column of `revisions`, where there are any."""
    rest = "item" + "".join(f" - '{old}'" for old, _ in names)
    renamed = ", ".join(f"'{new}', item -> '{old}'" for old, new in names)
    statement = (
        f"UPDATE revisions SET {column} = jsonb_set({column}, '{{{array}}}', ("  # noqa: S608 - no input.
        f" SELECT coalesce(jsonb_agg({rest} || jsonb_build_object({renamed}) ORDER BY position), '[]')"
        f" FROM jsonb_array_elements({column} -> '{array}') WITH ORDINALITY AS items(item, position)))"
        f" WHERE {condition} AND jsonb_typeof({column} -> '{array}') = 'array'"
    )
    op.execute(statement)
