"""Arguments given as texts, e.g. in a query string: coerced to the JSON values that a tool's inputs describe.

    values that the text may stand for (`json_schema.text_values`) -> the first that is valid

Members of lists and objects may be given by names with brackets. An error never repeats a value, which may be
a secret.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.calls.arguments.bracketed_names import build_text_trees
from app.calls.arguments.parsing import parse_arguments
from app.catalog.plan import Plan
from app.core.errors import BadRequest, FieldError, InvalidArguments
from app.core.text import pointer
from app.formats.json_schema.error_messages import MAX_ERRORS, Hints, build_arguments_error, write_suggestion
from app.formats.json_schema.text_values import TextError, TextReader, TextTree

_MAX_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class TextArguments:
    """Arguments as texts: those of each name in their order, at least one.

    `location` precedes the names in the pointers of errors, e.g. `#/query`. `reserved` are the further names
    that the interface accepts there; errors suggest them.
    """

    values: Mapping[str, Sequence[str]]
    location: str
    reserved: tuple[str, ...] = ()

    def merge(self, arguments: Any, plan: Plan) -> dict[str, Any]:
        """Return the arguments with the coerced texts as further members.

        Raises InvalidArguments with all errors (at most 50): `arguments` is not an object, a name is not an
        input of the tool or is also in `arguments`, or a text is no value of its input's type.
        """
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                "The arguments must be a JSON object.",
                errors=[FieldError("", "Must be an object.", "object")],
            )
        reader = TextReader(plan.inputs, _parse_json)
        inputs = reader.list_properties(plan.inputs)
        hints = Hints([*inputs, *self.reserved])
        merged = dict(arguments)
        errors: list[FieldError] = []
        for name, texts in build_text_trees(self.values, inputs).items():
            path = pointer(self.location, name[:_MAX_NAME])
            if name not in inputs:
                hint = write_suggestion(hints.find_closest(name, hints.names))
                errors.append(FieldError(path, f"The tool has no input of this name.{hint}"))
            elif name in arguments:
                errors.append(FieldError(path, "This is also in the body: give it once."))
            else:
                try:
                    merged[name] = self._convert_texts(name, texts, inputs[name], reader, plan)
                except TextError as error:
                    errors += [
                        FieldError(pointer(path, *error.path) + each.pointer, each.detail, each.expected)
                        for each in error.errors
                    ]
        if errors:
            raise build_arguments_error(errors[:MAX_ERRORS])
        return merged

    def relocate(self, error: InvalidArguments) -> InvalidArguments:
        """Return the error with pointers to these texts, where they point to members that came from them."""
        return build_arguments_error([self._move_pointer(each) for each in error.errors])

    def _move_pointer(self, error: FieldError) -> FieldError:
        escaped = error.pointer.split("/", 2)[1] if error.pointer else ""
        name = escaped.replace("~1", "/").replace("~0", "~")
        is_text = name in self.values or any(one.startswith(f"{name}[") for one in self.values)
        if not error.pointer or not is_text:
            return error
        return replace(error, pointer=self.location + error.pointer)

    def _convert_texts(self, name: str, texts: TextTree, schema: Any, reader: TextReader, plan: Plan) -> Any:
        if isinstance(texts, dict):
            return reader.build_members(texts, schema)
        candidates = reader.list_candidates(texts, schema)
        if len(candidates) > 1:
            for candidate in candidates:
                if plan.is_valid_input(name, candidate):
                    return candidate
        return candidates[0]


def _parse_json(text: str) -> Any:
    try:
        return parse_arguments(text.encode())
    except InvalidArguments as error:
        raise TextError(error.errors) from None
    except BadRequest:
        raise TextError([FieldError("", "This is not valid JSON.")]) from None
