"""The operator's words for search: synonyms and pinned results, for the tenant or for one toolset.

They are stored in PostgreSQL; each worker has all of them in memory (`SearchWords`), where the ranking reads
them, and renews them by the change feed.
"""

from app.search.words.memory import SearchWords
from app.search.words.service import SearchWordsService

__all__ = ["SearchWords", "SearchWordsService"]
