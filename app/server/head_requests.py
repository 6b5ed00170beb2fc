"""HEAD wherever there is GET (RFC 9110 section 9.3.2), in one place, for routes of every kind."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Serves HEAD as GET, without the body: with the same authorisation, status and headers.

    The response ends with its headers. A route that sends its body in several messages, such as a stream of
    events, is ended there, as if the client had disconnected.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one of HEAD as GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        has_ended = is_cut = False

        async def send_headers(message: Message) -> None:
            nonlocal has_ended, is_cut
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                has_ended = True
            elif message.get("more_body", False):
                is_cut = True
                raise _HeadersSentError

        async def receive_request() -> Message:
            return {"type": "http.disconnect"} if has_ended else await receive()

        # A copy: the server reads the method, too, while the response is sent.
        scope_of_get = {**scope, "method": "GET"}
        try:
            await self.app(scope_of_get, receive_request, send_headers)
        except Exception:
            # Frameworks wrap the error that ends the response.
            if not is_cut:
                raise
        finally:
            # The middleware around this one reads which route matched.
            scope.update({**scope_of_get, "method": "HEAD"})


class _HeadersSentError(OSError):
    """Ends a response that continues; an OSError, as writing to a disconnected client raises (ASGI 2.4)."""
