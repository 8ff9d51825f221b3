"""The only package that names array libraries.

Everything above it speaks the Python array API and asks here for what the standard leaves open:
which namespace and device an array has, how values move, in what precision they are worked with,
how much memory a device has, and which routine of a library is better than the standard's.
"""

from .class_sums import ONE_HOT_CLASSES, made_by_sums, one_hot, sums_by_code
from .derivatives import conjugate_gradients, with_derivatives
from .host import incidence, minimize, special
from .linalg import (
    add,
    add_gram,
    cholesky,
    column_squares,
    eigh,
    gram,
    largest_eigenpairs,
    mirrored,
    qr,
    solve_positive,
    solve_upper,
)
from .memory import free_bytes
from .places import (
    BACKENDS,
    Array,
    Matrix,
    Place,
    backend_argument,
    backend_name,
    describe_backend,
    device_name,
    find_place,
    is_accelerated,
    is_array,
    is_dask,
    is_sparse,
    missing_functions,
    namespace_of,
    place_of,
)
from .precision import (
    computing,
    dtype_name,
    is_floating,
    itemsize,
    longest_float,
    sums_dtype,
    working_dtype,
)
from .sparse import (
    Sparse,
    byte_count,
    copied,
    join_rows,
    take_columns,
    take_rows,
)
from .tracing import (
    call_traced,
    constant,
    is_traced,
    register_pytree,
    requires_grad,
    traced_namespace,
)
from .transfer import (
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
from .uploads import Buffer, Uploads, copies_ahead, uploads_to
