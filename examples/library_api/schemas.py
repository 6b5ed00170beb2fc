"""Requests and responses of the library API."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Genre(StrEnum):
    adventure = "adventure"
    classic = "classic"
    crime = "crime"
    fantasy = "fantasy"
    poetry = "poetry"
    science = "science"
    science_fiction = "science-fiction"


class Sort(StrEnum):
    by_title = "title"
    by_author = "author"
    by_year = "year"


class Day(StrEnum):
    monday = "monday"
    tuesday = "tuesday"
    wednesday = "wednesday"
    thursday = "thursday"
    friday = "friday"
    saturday = "saturday"
    sunday = "sunday"


class Delivery(StrEnum):
    desk = "desk"
    post = "post"


BookId = Annotated[str, Field(pattern=r"^bk-\d{3}$", description="Id of a book", examples=["bk-001"])]
MemberId = Annotated[str, Field(pattern=r"^mb-\d{3}$", description="Id of a member", examples=["mb-001"])]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(BaseModel):
    """Why a request failed."""

    detail: str = Field(examples=["There is no book bk-999."])


class Book(BaseModel):
    """A book of the catalogue."""

    id: BookId
    title: str = Field(examples=["Moby-Dick"])
    author: str = Field(examples=["Herman Melville"])
    year: int = Field(description="Year of the first edition", examples=[1851])
    genres: list[Genre]
    available: bool = Field(description="Whether a copy stands on the shelf now")


class Books(BaseModel):
    """A page of books."""

    items: list[Book]
    total: int = Field(description="How many books match in all", examples=[1])


class OpeningHours(BaseModel):
    """When the library is open on one day; both times are null on a closed day."""

    day: Day
    opens: str | None = Field(description="Local time, HH:MM", examples=["09:00"])
    closes: str | None = Field(description="Local time, HH:MM", examples=["18:00"])


class Member(BaseModel):
    """A person with a library card."""

    id: MemberId
    name: str = Field(examples=["Ada Byron"])
    city: str = Field(examples=["London"])


class Address(_Input):
    """Where books are sent to."""

    street: str = Field(min_length=1, max_length=120, examples=["12 St James's Square"])
    city: str = Field(min_length=1, max_length=80, examples=["London"])


class Shipment(_Input):
    """How the books reach the member."""

    method: Delivery = Field(Delivery.desk, description="`post` needs an address")
    address: Address | None = None


class LoanItem(_Input):
    """One book of a loan."""

    book_id: BookId
    days: int = Field(21, ge=1, le=60, description="For how many days", examples=[14])


class LoanRequest(_Input):
    """Books that a member takes home."""

    member_id: MemberId
    items: list[LoanItem] = Field(min_length=1, max_length=10)
    delivery: Shipment = Field(default_factory=Shipment)
    note: str | None = Field(None, max_length=500, description="A message for the desk")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "member_id": "mb-001",
                    "items": [{"book_id": "bk-001", "days": 14}],
                    "delivery": {
                        "method": "post",
                        "address": {"street": "12 St James's Square", "city": "London"},
                    },
                }
            ]
        },
    )


class Loan(BaseModel):
    """A loan that was made."""

    id: str = Field(examples=["ln-0001"])
    member_id: MemberId
    items: list[LoanItem]
    delivery: Shipment
    note: str | None = None


class Loans(BaseModel):
    """All loans that match."""

    items: list[Loan]


class Members(BaseModel):
    """All members."""

    items: list[Member]


class Stock(BaseModel):
    """The copies of one book."""

    book_id: BookId
    copies: int = Field(description="Copies that the library owns", examples=[3])
    lent: int = Field(description="Copies that are out on loan", examples=[1])
    shelf: str = Field(description="Where the book stands", examples=["A1"])


class StockChange(_Input):
    """What to change; fields that are left out stay as they are."""

    copies: int | None = Field(None, ge=0, le=999, examples=[4])
    shelf: str | None = Field(None, pattern=r"^[A-Z][0-9]{1,2}$", examples=["B2"])


class ReservationRequest(_Input):
    """A book to reserve for a member."""

    member_id: MemberId
    book_id: BookId


class Reservation(BaseModel):
    """A book that is reserved for a member."""

    id: str = Field(examples=["rs-0001"])
    member_id: MemberId
    book_id: BookId


class Reservations(BaseModel):
    """All reservations that match."""

    items: list[Reservation]


class Popularity(BaseModel):
    """How often one book was lent or reserved since the service started."""

    book_id: BookId
    title: str
    requests: int


class Report(BaseModel):
    """The books in the greatest demand, the most popular first."""

    items: list[Popularity]
