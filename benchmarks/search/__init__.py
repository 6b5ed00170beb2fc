"""How well tools are found."""

import os

# As in a worker (app/search/vectors/service.py): further threads of linear algebra wait actively.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
