"""Forms from JSON Schema, made and read on the server, without script.

    build(schema, value)  ->  FormView  ->  templates/schema_form.html  ->  browser
    parse(controls, schema)  ->  Submission: the JSON value again, or the form once more

For every value that a schema accepts, the controls of its form parse to the same value. What has no control
(values of another type, recursion, more than 400 fields) is edited as JSON text in its place.
"""

from app.console.forms.schema_form.builder import build
from app.console.forms.schema_form.fields import FormView, Submission
from app.console.forms.schema_form.parser import parse

__all__ = ["FormView", "Submission", "build", "parse"]
