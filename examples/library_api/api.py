"""The routes of the library API. Its state is in memory, and the same at every start."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Security
from fastapi.responses import JSONResponse

from examples.library_api.auth import TokenError, TokenIssuer, with_key, with_login, with_token
from examples.library_api.catalogue import Conflict, Library, NotFound, hours
from examples.library_api.credentials import LibraryCredentials
from examples.library_api.schemas import (
    Book,
    BookId,
    Books,
    Day,
    ErrorDetail,
    Genre,
    Loan,
    LoanRequest,
    Loans,
    MemberId,
    Members,
    OpeningHours,
    Report,
    Reservation,
    ReservationRequest,
    Reservations,
    Sort,
    Stock,
    StockChange,
)


def _library(request: Request) -> Library:
    found = request.app.state.library
    assert isinstance(found, Library)  # noqa: S101 - set by create_app
    return found


State = Annotated[Library, Depends(_library)]
BookPath = Annotated[BookId, Path()]


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    descriptions = {401: "Not signed in", 403: "Not allowed", 404: "Not found", 409: "Not possible now"}
    return {status: {"model": ErrorDetail, "description": descriptions[status]} for status in statuses}


public = APIRouter()
counter = APIRouter(dependencies=[Security(with_key)])
staff = APIRouter(dependencies=[Security(with_login)], tags=["inventory"])
online = APIRouter()


@public.get("/books", operation_id="searchBooks", tags=["books"])
async def search_books(
    library: State,
    *,
    q: Annotated[
        str | None, Query(max_length=200, description="Words in the title or author", examples=["sea"])
    ] = None,
    genre: Annotated[
        list[Genre] | None, Query(description="Only books of any of these genres", examples=[["adventure"]])
    ] = None,
    available: Annotated[
        bool | None, Query(description="Only books with (or without) a copy on the shelf")
    ] = None,
    sort: Annotated[Sort, Query(description="Order of the books")] = Sort.by_title,
    limit: Annotated[int, Query(ge=1, le=50, description="Number of books at most")] = 10,
) -> Books:
    """Find books in the catalogue.

    Searches titles and authors for all given words, without regard to case. Without any words and filters it
    lists the whole catalogue.
    """
    found = library.search(q, genres=genre or (), available=available, sort=sort)
    return Books(items=found[:limit], total=len(found))


@public.get("/books/{book_id}", operation_id="getBook", tags=["books"], responses=_errors(404))
async def get_book(library: State, book_id: BookPath) -> Book:
    """Get one book by its id, and whether a copy is available."""
    return library.book(book_id)


@public.get("/opening-hours", operation_id="getOpeningHours", tags=["visit"])
async def get_opening_hours(day: Annotated[Day, Query(description="Day of the week")]) -> OpeningHours:
    """Tell when the library opens and closes on a day of the week."""
    return hours(day)


@counter.get("/members", operation_id="listMembers", tags=["members"], responses=_errors(401))
async def list_members(library: State) -> Members:
    """List the members of the library."""
    return Members(items=list(library.members.values()))


@counter.post(
    "/loans", operation_id="createLoan", tags=["loans"], status_code=201, responses=_errors(401, 404, 409)
)
async def create_loan(library: State, body: LoanRequest) -> Loan:
    """Lend one or more books to a member.

    All books are lent, or none. Delivery by post needs an address.
    """
    return library.lend(body)


@counter.get("/loans", operation_id="listLoans", tags=["loans"], responses=_errors(401))
async def list_loans(
    library: State,
    member_id: Annotated[MemberId | None, Query(description="Only the loans of this member")] = None,
) -> Loans:
    """List loans, all or those of one member."""
    return Loans(items=[loan for loan in library.loans.values() if member_id in (None, loan.member_id)])


@staff.get("/inventory/{book_id}", operation_id="getStock", responses=_errors(401, 404))
async def get_stock(library: State, book_id: BookPath) -> Stock:
    """Count the copies of a book and tell its shelf."""
    return library.stock(book_id)


@staff.patch("/inventory/{book_id}", operation_id="updateStock", responses=_errors(401, 404, 409))
async def update_stock(library: State, book_id: BookPath, body: StockChange) -> Stock:
    """Change how many copies of a book there are, or its shelf."""
    return library.change_stock(book_id, body)


@online.post(
    "/reservations",
    operation_id="createReservation",
    tags=["reservations"],
    status_code=201,
    responses=_errors(401, 403, 404, 409),
    dependencies=[Security(with_token, scopes=["reservations:write"])],
)
async def create_reservation(library: State, body: ReservationRequest) -> Reservation:
    """Reserve a book for a member until it is picked up."""
    return library.reserve(body)


@online.get(
    "/reservations",
    operation_id="listReservations",
    tags=["reservations"],
    responses=_errors(401, 403),
    dependencies=[Security(with_token, scopes=["reservations:read"])],
)
async def list_reservations(
    library: State,
    member_id: Annotated[MemberId | None, Query(description="Only the reservations of this member")] = None,
) -> Reservations:
    """List reservations, all or those of one member."""
    return Reservations(
        items=[one for one in library.reservations.values() if member_id in (None, one.member_id)]
    )


@online.delete(
    "/reservations/{reservation_id}",
    operation_id="cancelReservation",
    tags=["reservations"],
    status_code=204,
    responses=_errors(401, 403, 404),
    dependencies=[Security(with_token, scopes=["reservations:write"])],
)
async def cancel_reservation(
    library: State,
    reservation_id: Annotated[
        str, Path(max_length=40, description="Id of a reservation", examples=["rs-0001"])
    ],
) -> None:
    """Cancel a reservation."""
    library.cancel(reservation_id)


@online.get(
    "/reports/popular",
    operation_id="getPopularBooks",
    tags=["reports"],
    responses=_errors(401, 403),
    dependencies=[Security(with_token, scopes=["reports:read"])],
)
async def get_popular_books(
    library: State, limit: Annotated[int, Query(ge=1, le=50, description="Number of books at most")] = 5
) -> Report:
    """Report which books were lent or reserved most."""
    return Report(items=library.popular(limit))


@online.post("/oauth/token", include_in_schema=False)
async def issue_token(request: Request) -> JSONResponse:
    """Issue an access token (RFC 6749, section 4.4)."""
    tokens = request.app.state.tokens
    form = {key: value for key, value in (await request.form()).items() if isinstance(value, str)}
    try:
        issued = tokens.issue(form, request.headers.get("authorization"))
    except TokenError as error:
        headers = {"WWW-Authenticate": 'Basic realm="library"'} if error.status == 401 else {}
        return JSONResponse({"error": error.code}, error.status, headers)
    return JSONResponse(issued, headers={"Cache-Control": "no-store", "Pragma": "no-cache"})


def create_app(credentials: LibraryCredentials, *, base_url: str = "/") -> FastAPI:
    """Return the API; `base_url` is its own address, as its document names it."""
    app = FastAPI(
        title="Sample library",
        version="1.0.0",
        summary="A small library: books, loans, stock and reservations.",
        description="It comes with utcp-gateway, to try it on. Its state is lost when it stops.",
        servers=[{"url": base_url.rstrip("/") or "/", "description": "This service"}],
        docs_url=None,
        redoc_url=None,
    )
    app.state.credentials = credentials
    app.state.tokens = TokenIssuer(credentials)
    app.state.library = Library()
    for router in (public, counter, staff, online):
        app.include_router(router)

    @app.exception_handler(NotFound)
    async def not_found(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 404)

    @app.exception_handler(Conflict)
    async def conflict(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 409)

    return app
