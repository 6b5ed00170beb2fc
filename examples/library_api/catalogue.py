"""The state of the library: in memory, the same at every start, without any framework."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from examples.library_api.schemas import (
    Book,
    Day,
    Delivery,
    Genre,
    Loan,
    LoanRequest,
    Member,
    OpeningHours,
    Popularity,
    Reservation,
    ReservationRequest,
    Sort,
    Stock,
    StockChange,
)

_BOOKS = """\
Moby-Dick|Herman Melville|1851|adventure,classic
Twenty Thousand Leagues Under the Sea|Jules Verne|1870|adventure,science-fiction
The Time Machine|H. G. Wells|1895|science-fiction,classic
Frankenstein|Mary Shelley|1818|science-fiction,classic
Pride and Prejudice|Jane Austen|1813|classic
Middlemarch|George Eliot|1871|classic
Jane Eyre|Charlotte Brontë|1847|classic
The Hound of the Baskervilles|Arthur Conan Doyle|1902|crime,classic
The Moonstone|Wilkie Collins|1868|crime
The Murders in the Rue Morgue|Edgar Allan Poe|1841|crime
Treasure Island|Robert Louis Stevenson|1883|adventure
The Sea-Wolf|Jack London|1904|adventure
Alice's Adventures in Wonderland|Lewis Carroll|1865|fantasy,classic
The Wonderful Wizard of Oz|L. Frank Baum|1900|fantasy
Phantastes|George MacDonald|1858|fantasy
Leaves of Grass|Walt Whitman|1855|poetry
Goblin Market|Christina Rossetti|1862|poetry
On the Origin of Species|Charles Darwin|1859|science
Opticks|Isaac Newton|1704|science
Faraday's Chemical History of a Candle|Michael Faraday|1861|science
Sylvia's Lovers|Elizabeth Gaskell|1863|classic
The Blazing World|Margaret Cavendish|1666|fantasy,science-fiction"""

_MEMBERS = """\
Ada Byron|London
Frederick Douglass|Rochester
Sofia Kovalevskaya|Stockholm
Srinivasa Ramanujan|Madras
Hypatia Theon|Alexandria"""

_RECORDS_MAX = 1000
"""Loans and reservations each: memory is bounded."""


class NotFound(Exception):
    """A book, member or reservation does not exist."""


class Conflict(Exception):
    """The state of the library does not allow the request."""


@dataclass(slots=True)
class _Title:
    id: str
    title: str
    author: str
    year: int
    genres: tuple[Genre, ...]
    copies: int
    shelf: str


@dataclass(slots=True)
class Library:
    """Books, members, loans and reservations. Methods raise NotFound and Conflict."""

    titles: dict[str, _Title] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    loans: dict[str, Loan] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    _last: int = 0

    def __post_init__(self) -> None:
        for number, line in enumerate(_BOOKS.splitlines(), 1):
            title, author, year, genres = line.split("|")
            kinds = tuple(Genre(word) for word in genres.split(","))
            key = f"bk-{number:03}"
            # Two books have no copy at all, so that `available=false` finds something from the start.
            copies = 0 if number % 10 == 0 else 1 + number % 3
            shelf = f"{'ABCD'[number % 4]}{1 + number // 4}"
            self.titles[key] = _Title(key, title, author, int(year), kinds, copies, shelf)
        for number, line in enumerate(_MEMBERS.splitlines(), 1):
            name, city = line.split("|")
            key = f"mb-{number:03}"
            self.members[key] = Member(id=key, name=name, city=city)

    def search(
        self, q: str | None, *, genres: Collection[Genre], available: bool | None, sort: Sort
    ) -> list[Book]:
        """Return the books with all words of `q` in title or author, and any of the genres."""
        words = (q or "").lower().split()
        found = [
            self._book(title)
            for title in self.titles.values()
            if all(word in f"{title.title} {title.author}".lower() for word in words)
            and (not genres or set(genres) & set(title.genres))
        ]
        chosen = [book for book in found if available is None or book.available is available]
        return sorted(chosen, key=lambda book: (getattr(book, sort.value), book.id))

    def book(self, book_id: str) -> Book:
        """Return a book."""
        return self._book(self._title(book_id))

    def stock(self, book_id: str) -> Stock:
        """Return the copies of a book."""
        title = self._title(book_id)
        return Stock(book_id=book_id, copies=title.copies, lent=self._lent(book_id), shelf=title.shelf)

    def change_stock(self, book_id: str, change: StockChange) -> Stock:
        """Change copies or shelf of a book; raise Conflict for fewer copies than are lent."""
        title = self._title(book_id)
        if change.copies is not None:
            if change.copies < self._lent(book_id):
                raise Conflict(f"{self._lent(book_id)} copies of {book_id} are lent.")
            title.copies = change.copies
        if change.shelf is not None:
            title.shelf = change.shelf
        return self.stock(book_id)

    def lend(self, request: LoanRequest) -> Loan:
        """Lend all items, or none."""
        self._member(request.member_id)
        if request.delivery.method is Delivery.post and request.delivery.address is None:
            raise Conflict("Delivery by post needs an address.")
        for book_id, number in Counter(item.book_id for item in request.items).items():
            if self._title(book_id).copies - self._lent(book_id) < number:
                raise Conflict(f"No copy of {book_id} is left.")
        loan = Loan(id=self._next("ln", self.loans), **request.model_dump())
        self.loans[loan.id] = loan
        self.requests.update(item.book_id for item in request.items)
        return loan

    def reserve(self, request: ReservationRequest) -> Reservation:
        """Reserve a book for a member; raise Conflict where it is reserved for this member."""
        self._member(request.member_id)
        self._title(request.book_id)
        pair = (request.member_id, request.book_id)
        if any((made.member_id, made.book_id) == pair for made in self.reservations.values()):
            raise Conflict(f"{request.book_id} is already reserved for {request.member_id}.")
        reservation = Reservation(id=self._next("rs", self.reservations), **request.model_dump())
        self.reservations[reservation.id] = reservation
        self.requests[request.book_id] += 1
        return reservation

    def cancel(self, reservation_id: str) -> None:
        """Cancel a reservation."""
        if self.reservations.pop(reservation_id, None) is None:
            raise NotFound(f"There is no reservation {reservation_id}.")

    def popular(self, limit: int) -> list[Popularity]:
        """Return the books that were lent or reserved most; equal ones by id."""
        ranked = sorted(self.requests.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]
        return [Popularity(book_id=key, title=self.titles[key].title, requests=n) for key, n in ranked]

    def _title(self, book_id: str) -> _Title:
        if book_id not in self.titles:
            raise NotFound(f"There is no book {book_id}.")
        return self.titles[book_id]

    def _member(self, member_id: str) -> Member:
        if member_id not in self.members:
            raise NotFound(f"There is no member {member_id}.")
        return self.members[member_id]

    def _lent(self, book_id: str) -> int:
        return sum(item.book_id == book_id for loan in self.loans.values() for item in loan.items)

    def _book(self, title: _Title) -> Book:
        return Book(
            id=title.id,
            title=title.title,
            author=title.author,
            year=title.year,
            genres=list(title.genres),
            available=title.copies > self._lent(title.id),
        )

    def _next(self, prefix: str, records: Collection[str]) -> str:
        if len(records) >= _RECORDS_MAX:
            raise Conflict("The library stores no more records; restart it.")
        self._last += 1
        return f"{prefix}-{self._last:04}"


def hours(day: Day) -> OpeningHours:
    """Return the opening hours of a day."""
    if day is Day.sunday:
        return OpeningHours(day=day, opens=None, closes=None)
    return OpeningHours(day=day, opens="09:00", closes="13:00" if day is Day.saturday else "18:00")
