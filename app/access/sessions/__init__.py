"""Sessions of the console: sign-in with an API key or a link, the cookie, and the check of cross-site
requests.
"""

from app.access.sessions.model import NewSession, Session, SessionPolicy
from app.access.sessions.service import Sessions

__all__ = ["NewSession", "Session", "SessionPolicy", "Sessions"]
