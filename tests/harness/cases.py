"""One rule with many cases is one test: `for_each` runs its body with every case, and fails once, naming all that failed.

In place of `pytest.mark.parametrize` where the cases need no fixtures of their own. Fixtures are set up once for all cases, so a case must not
depend on what another one leaves behind.

`--plant-violations` shows that each such test can fail: it breaks two cases of each, and expects one failure that names both.
"""

import functools
import inspect
import itertools
import random
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

_MAX_TRACEBACKS = 10
_MAX_NAME = 120

Cases = Iterable[Any] | Callable[[], Iterable[Any]]


@dataclass
class _Planting:
    """Whether violations are planted, and which were planted in the test that runs."""

    active: bool = False
    names: list[str] = field(default_factory=list)


_PLANTING = _Planting()


class Violation:
    """A planted value that is equal to nothing and has no attributes: a test that uses it must fail."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<planted violation>"


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    arguments: dict[str, Any]
    violations: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Axis:
    names: tuple[str, ...]
    cases: Cases
    ids: Iterable[str] | Callable[[Any], object] | None
    violations: Mapping[str, Any]

    def expand(self) -> Iterator[_Case]:
        """Yield the cases of this decorator, each with a name that pytest would give it."""
        cases = self.cases() if callable(self.cases) else self.cases
        for index, given in enumerate(cases):
            name, values = self._read(given, index)
            assert len(values) == len(self.names), f"case {index} has {len(values)} values for {self.names}"
            arguments = dict(zip(self.names, values, strict=True))
            yield _Case(name, arguments, {**dict.fromkeys(self.names, Violation()), **self.violations})

    def _read(self, given: Any, index: int) -> tuple[str, tuple[Any, ...]]:
        name = None
        # What `pytest.param` makes; its class is private to pytest.
        if hasattr(given, "marks") and hasattr(given, "values"):
            assert not given.marks, "a case has no marks of its own: it would need a test of its own"
            values, name = tuple(given.values), given.id
        else:
            values = (given,) if len(self.names) == 1 else tuple(given)
        if name is None and self.ids is not None:
            if callable(self.ids):
                texts = [self.ids(value) for value in values]
                name = "-".join(
                    _describe(value) if text is None else str(text)
                    for text, value in zip(texts, values, strict=True)
                )
            else:
                name = list(self.ids)[index]
        if name is None:
            name = "-".join(_describe(value) for value in values)
        return _print_on_one_line(str(name)), values


def _print_on_one_line(name: str) -> str:
    """Return the name with what is not printable as it is in a literal: a failure lists one name a line."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name)


def _describe(value: Any) -> str:
    text = value if isinstance(value, str) else getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "..."


def for_each(
    names: str | Sequence[str],
    cases: Cases,
    *,
    ids: Iterable[str] | Callable[[Any], object] | None = None,
    violations: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the decorated test with each of the cases, and fail once with all that failed.

    `names` and `cases` are those of `pytest.mark.parametrize`; `cases` may be a function that returns them, so that they
    are computed when the test runs and not when it is collected. Two decorators make the product of their cases.
    A test all of whose cases were skipped is skipped. `violations` has the value to plant in a parameter of which the test
    rightly accepts nearly anything, as one that only says what is left out.
    """
    parameters = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        body = getattr(function, "_body_of_cases", function)
        # The decorator next to the function varies fastest, as with parametrize.
        axes = [_Axis(parameters, cases, ids, violations or {}), *getattr(function, "_axes_of_cases", [])]
        run = _wrap(body, axes)
        # Marks may stand between two of these decorators.
        if hasattr(function, "pytestmark"):
            run.pytestmark = list(function.pytestmark)  # type: ignore[attr-defined]
        return run

    return decorate


def _wrap(body: Callable[..., Any], axes: list[_Axis]) -> Callable[..., Any]:
    own = {name for axis in axes for name in (*axis.names, *axis.violations)}
    signature = inspect.signature(body)
    unknown = own - set(signature.parameters)
    assert not unknown, f"{body.__qualname__} has no parameters {sorted(unknown)}"

    if inspect.iscoroutinefunction(body):

        @functools.wraps(body)
        async def run(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            outcome = _Outcome(_expand(axes))
            for case in outcome.cases:
                for arguments in outcome.list_attempts(case):
                    with outcome.record(case):
                        await body(*args, **fixtures, **arguments)
            outcome.report()

    else:

        @functools.wraps(body)
        def run(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            outcome = _Outcome(_expand(axes))
            for case in outcome.cases:
                for arguments in outcome.list_attempts(case):
                    with outcome.record(case):
                        body(*args, **fixtures, **arguments)
            outcome.report()

    kept = [parameter for name, parameter in signature.parameters.items() if name not in own]
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    run._body_of_cases = body  # type: ignore[attr-defined]
    run._axes_of_cases = axes  # type: ignore[attr-defined]
    return run


def _expand(axes: list[_Axis]) -> list[_Case]:
    combined = []
    for parts in itertools.product(*[list(axis.expand()) for axis in axes]):
        arguments: dict[str, Any] = {}
        violations: dict[str, Any] = {}
        for part in parts:
            arguments |= part.arguments
            violations |= part.violations
        combined.append(_Case("-".join(part.name for part in parts), arguments, violations))
    return combined


class _Outcome:
    """What became of the cases of one test."""

    def __init__(self, cases: list[_Case]) -> None:
        assert cases, "a test without a case shows nothing"
        self.cases = cases
        self._failed: dict[str, list[str]] = {}
        self._skipped: dict[str, str] = {}
        self._planted: list[_Case] = []
        if _PLANTING.active:
            self._planted = random.Random(len(cases)).sample(cases, min(2, len(cases)))
            _PLANTING.names = [case.name for case in self._planted]

    def list_attempts(self, case: _Case) -> Iterator[dict[str, Any]]:
        """Yield the arguments of the case; where a violation is planted in it, each with one value replaced until one fails."""
        if not any(case is planted for planted in self._planted):
            yield case.arguments
            return
        for name in reversed(case.arguments):
            if case.name not in self._failed:
                yield case.arguments | {name: case.violations[name]}

    def record(self, case: _Case) -> "_Recorder":
        """Return a context that notes that the case failed or was skipped, and lets the next one run."""
        return _Recorder(case.name, self._failed, self._skipped)

    def report(self) -> None:
        """Fail the test where a case failed; skip it where all were skipped."""
        __tracebackhide__ = True
        if self._failed:
            count = sum(map(len, self._failed.values()))
            lines = [f"{count} of {len(self.cases)} cases failed:"]
            lines += [f"  {name}" for name in self._failed]
            for name, texts in itertools.islice(self._failed.items(), _MAX_TRACEBACKS):
                lines += ["", f"{name}:", *texts]
            pytest.fail("\n".join(lines), pytrace=False)
        if len(self._skipped) == len(self.cases):
            pytest.skip("; ".join(sorted(set(self._skipped.values()))))


class _Recorder:
    def __init__(self, name: str, failed: dict[str, list[str]], skipped: dict[str, str]) -> None:
        self._name = name
        self._failed = failed
        self._skipped = skipped

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, pytest.skip.Exception):
            self._skipped[self._name] = str(error)
            return True
        if isinstance(error, Exception | pytest.fail.Exception):
            text = "".join(traceback.format_exception(type(error), error, _skip_frame(error)))
            self._failed.setdefault(self._name, []).append(text)
            return True
        return False


def _skip_frame(error: BaseException) -> Any:
    """Return the traceback without the frame of the loop."""
    trace = error.__traceback__
    return trace.tb_next if trace is not None and trace.tb_next is not None else trace


class PlantedViolations:
    """The plugin of `--plant-violations`: it runs the tests of `for_each` alone, and passes where both planted cases are named."""

    def __init__(self) -> None:
        _PLANTING.active = True

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if hasattr(getattr(item, "obj", None), "_axes_of_cases")]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        _PLANTING.names = []
        try:
            yield
        except pytest.fail.Exception as failure:
            text = str(failure).splitlines()
            unnamed = [name for name in _PLANTING.names if f"  {name}" not in text]
            others = [line for line in text[1:] if line.startswith("  ") and not line.startswith("   ")]
            if unnamed:
                pytest.fail(f"{item.nodeid} does not name {unnamed}; it names {others}", pytrace=False)
            return
        pytest.fail(f"{item.nodeid} passes with violations in {_PLANTING.names}", pytrace=False)
