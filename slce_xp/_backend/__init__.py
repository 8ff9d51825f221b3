"""The only package that names array libraries.

Everything above it speaks the Python array API and asks here for what the standard leaves open:
which namespace and device an array has, how values move, in what precision they are worked with,
how much memory a device has, and which routine of a library is better than the standard's.
"""

from slce_xp._backend.hardware import accelerator_model, processor_model
from slce_xp._backend.linalg import cholesky, eigh, largest_eigenpairs, qr, solve_upper
from slce_xp._backend.memory import free_bytes
from slce_xp._backend.places import (
    BACKENDS,
    Array,
    Matrix,
    Place,
    backend_argument,
    backend_name,
    describe_backend,
    device_name,
    find_place,
    is_array,
    is_dask,
    is_sparse,
    missing_functions,
    namespace_of,
    place_of,
)
from slce_xp._backend.precision import (
    computing,
    dtype_name,
    factors_of,
    longest_float,
    longest_sum,
    working_dtype,
)
from slce_xp._backend.sparse import (
    Sparse,
    byte_count,
    copied,
    draw_sparse,
    join_rows,
    take_rows,
)
from slce_xp._backend.tracing import call_traced, is_traced, register_pytree, traced_namespace
from slce_xp._backend.transfer import (
    column_slices_are_views,
    detached,
    draw_normal,
    from_host,
    move,
    put_rows,
    read,
    row_slices_are_views,
    to_host,
    without_rows,
)

__all__ = [
    "BACKENDS",
    "Array",
    "Matrix",
    "Place",
    "Sparse",
    "accelerator_model",
    "backend_argument",
    "backend_name",
    "byte_count",
    "call_traced",
    "cholesky",
    "column_slices_are_views",
    "computing",
    "copied",
    "describe_backend",
    "detached",
    "device_name",
    "draw_normal",
    "draw_sparse",
    "dtype_name",
    "eigh",
    "factors_of",
    "find_place",
    "free_bytes",
    "from_host",
    "is_array",
    "is_dask",
    "is_sparse",
    "is_traced",
    "join_rows",
    "largest_eigenpairs",
    "longest_float",
    "longest_sum",
    "missing_functions",
    "move",
    "namespace_of",
    "place_of",
    "processor_model",
    "put_rows",
    "qr",
    "read",
    "register_pytree",
    "row_slices_are_views",
    "solve_upper",
    "take_rows",
    "to_host",
    "traced_namespace",
    "without_rows",
    "working_dtype",
]
