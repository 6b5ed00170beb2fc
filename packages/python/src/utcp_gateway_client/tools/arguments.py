"""The arguments of a function: a pydantic model of its parameters, and calls by values of that model."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from utcp_gateway_client.tools.results import ArgumentError
from utcp_gateway_client.tools.schemas import Schema, inlined, no_arguments, without_nulls

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class InvalidArguments(Exception):
    """Arguments that the schema of the tool does not accept; `errors` has each."""

    def __init__(self, *errors: ArgumentError) -> None:
        super().__init__("The arguments are not valid.")
        self.errors = errors


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a function and the field of the model that has its value."""

    name: str
    field: str
    by_position: bool


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of a function. `model` is None for none; `parameters` None where it is the only one."""

    schema: Schema
    model: type[BaseModel] | None = None
    parameters: tuple[_Parameter, ...] | None = ()

    def read(self, arguments: str | bytes | Mapping[str, Any] | None) -> BaseModel | None:
        """Return a valid object for the arguments, of which "" and None stand for no argument.

        Raises InvalidArguments.
        """
        text = arguments if isinstance(arguments, str | bytes) else json.dumps(dict(arguments or {}))
        text = text.strip() or "{}"
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise InvalidArguments(ArgumentError("", f"This is not JSON: {error}.")) from None
        if not isinstance(value, dict):
            raise InvalidArguments(ArgumentError("", "This must be an object with the arguments as members."))
        cleaned = without_nulls(value, self.schema)
        errors = self._unknown(value)
        values = None
        if self.model is not None:
            try:
                values = self.model.model_validate_json(text if cleaned is value else json.dumps(cleaned))
            except ValidationError as error:
                errors += _errors(error, value)
        if errors:
            raise InvalidArguments(*errors)
        return values

    def _unknown(self, value: Mapping[str, Any]) -> list[ArgumentError]:
        if self.schema.get("additionalProperties") is not False:
            return []
        names = [name for name in value if name not in self.schema["properties"]]
        return [ArgumentError(f"/{_escaped(name)}", "There is no such argument.") for name in names]

    def call(self, function: Callable[..., Any], values: BaseModel | None) -> Any:
        """Return what the function returns for values that `read` has returned."""
        if values is None:
            return function()
        if self.parameters is None:
            return function(values)
        positional = [getattr(values, each.field) for each in self.parameters if each.by_position]
        named = {each.name: getattr(values, each.field) for each in self.parameters if not each.by_position}
        return function(*positional, **named)


def arguments_of(function: Callable[..., Any], descriptions: Mapping[str, str]) -> Arguments:
    """Return the arguments of a function; `descriptions` are those of parameters without one of their own.

    Raises TypeError where the parameters cannot be members of a JSON object: `*args`, `**kwargs`, and
    annotations that are unknown or have no JSON Schema.
    """
    name = function.__name__
    parameters = parameters_of(function).values()
    hints = _hints(function)
    for each in parameters:
        if each.kind in _VARIADIC:
            raise TypeError(f"{name} cannot be a tool: its parameter {each} has no name for each argument.")
    if not parameters:
        return Arguments(no_arguments())
    if len(parameters) == 1:
        (only,) = parameters
        annotation = _unannotated(hints.get(only.name))
        if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
            return Arguments(_schema(annotation, name), annotation, None)
    fields: dict[str, Any] = {}
    placed = []
    for number, each in enumerate(parameters):
        # Not the parameter's own name, which could be one of the members of a model, or begin with an
        # underscore.
        placed.append(_Parameter(each.name, f"a{number}", each.kind is inspect.Parameter.POSITIONAL_ONLY))
        fields[f"a{number}"] = _field(each, hints.get(each.name, Any), descriptions.get(each.name))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        model = create_model(name, __config__=config, **fields)
    except (PydanticUserError, NameError) as error:
        raise TypeError(f"{name} cannot be a tool: {error}") from error
    return Arguments(_schema(model, name), model, tuple(placed))


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function by name; raise TypeError for an annotation that is not known."""
    try:
        return inspect.signature(function).parameters
    except NameError as error:
        # From Python 3.14 on, annotations are evaluated when they are read.
        raise _unknown_annotation(function, error) from error


def output_schema(function: Callable[..., Any]) -> Schema:
    """Return the JSON Schema of what a function returns; {} where its annotation does not say, or has
    none.
    """
    returned = _hints(function).get("return", Any)
    if returned is Any or _unannotated(returned) in (bytes, bytearray, memoryview):
        return {}
    try:
        return inlined(TypeAdapter(returned).json_schema(mode="serialization"))
    except (PydanticUserError, NameError):
        return {}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise _unknown_annotation(function, error) from error


def _unknown_annotation(function: Callable[..., Any], error: NameError) -> TypeError:
    return TypeError(f"{function.__name__} cannot be a tool: an annotation is not known: {error}")


def _unannotated(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _field(parameter: inspect.Parameter, annotation: Any, description: str | None) -> tuple[Any, Any]:
    """Return the field of a parameter: what its annotation says, else its docstring and its name."""
    own = FieldInfo.from_annotation(annotation)
    texts = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, str)]
    added: dict[str, Any] = {}
    if own.alias is None:
        added["alias"] = parameter.name
        if own.title is None:
            added["title"] = parameter.name.replace("_", " ").strip().title()
    if own.description is None and (texts or description):
        added["description"] = texts[0] if texts else description
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    return (Annotated[annotation, Field(**added)] if added else annotation), default


def _schema(model: type[BaseModel], name: str) -> Schema:
    """Return the schema of arguments, closed unless the model says that it takes any others
    (`extra="allow"`).
    """
    try:
        schema = inlined(model.model_json_schema())
    except PydanticUserError as error:
        raise TypeError(f"{name} cannot be a tool: {error}") from error
    if not isinstance(schema.get("properties"), dict):
        if schema.get("type") != "object":
            raise TypeError(f"{name} cannot be a tool: its arguments are no object.")
        schema["properties"] = {}
    schema.setdefault("required", [])
    if "__dataclass_fields__" in vars(model) and schema.get("description", "").startswith(
        f"{model.__name__}("
    ):
        # `@dataclass` on a model writes its signature as docstring.
        del schema["description"]
    if model.model_config.get("extra") != "allow":
        schema["additionalProperties"] = False
    return schema


def _errors(error: ValidationError, value: Any) -> list[ArgumentError]:
    """Return the errors of pydantic with their pointers into `value`; that an argument is unknown is said
    already.
    """
    return [
        ArgumentError(_pointer(each["loc"], value, missing=each["type"] == "missing"), each["msg"])
        for each in error.errors(include_url=False, include_context=False, include_input=False)
        if each["type"] != "extra_forbidden" or len(each["loc"]) > 1
    ]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _pointer(location: tuple[int | str, ...], value: Any, *, missing: bool) -> str:
    """Return the JSON pointer of a location in `value`; pydantic's also has tags of unions, which are left
    out.
    """
    pointer = ""
    for number, step in enumerate(location, 1):
        is_member = isinstance(value, dict) and step in value
        if is_member or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = value[step]
        elif not (missing and number == len(location)):
            continue
        pointer += f"/{_escaped(str(step))}"
    return pointer
