"""`utcp-gateway search`: what an operator sets for the ranking of tools, and what it has learned from use."""

import typer

from app.cli import search_usage, search_words

commands = typer.Typer(
    name="search",
    help="Synonyms and pinned results of searches, and what is learned from use.",
    no_args_is_help=True,
)
for group in (search_words.synonyms, search_words.pins, search_usage.commands):
    commands.add_typer(group)
