"""`utcp-gateway sign-in-link`: a link that signs a browser in to the web console."""

from app.cli.session import SessionContext


def sign_in_link(ctx: SessionContext) -> None:
    """Make a link that signs a browser in to the web console with the key in use.

    It is valid once, for 60 seconds. Whoever has it can use it.
    """
    session = ctx.obj
    link = session.gateway.send("POST", "/session/link").json()
    if session.output.is_structured:
        session.output.write_document(link)
        return
    session.output.write_text(link["url"])
    session.output.note("Valid once, for 60 seconds: open it in a browser.")
