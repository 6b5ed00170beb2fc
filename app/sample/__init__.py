"""The bundled sample API: a library catalogue whose operations between them use every kind of auth."""

from app.sample.credentials import SampleCredentials, SampleError
from app.sample.registration import registration
from app.sample.serving import sample_process

__all__ = ["SampleCredentials", "SampleError", "registration", "sample_process"]
