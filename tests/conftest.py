"""One BLAS thread for the whole suite, as the program itself has: two of them spin on busy cores."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
