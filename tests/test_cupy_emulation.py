"""The emulation of CUDA that CuPy is tested on (cupy_on_cpu), against NumPy."""

import multiprocessing
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

emucuda = pytest.importorskip("emucuda", reason="CUDA is not emulated here")
import cupy
import cupyx
import cupyx.scipy.linalg
import cupyx.scipy.sparse

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers():
    RNG.bit_generator.state = START


def close(actual, expected, dtype=np.float64, scale=1.0):
    tolerance = scale * (2e-4 if np.dtype(dtype) == np.float32 else 1e-9)
    np.testing.assert_allclose(cupy.asnumpy(actual), expected, rtol=tolerance, atol=tolerance)


def same(actual, expected):
    np.testing.assert_array_equal(cupy.asnumpy(actual), expected)


def raises(error, function, *args):
    try:
        function(*args)
    except error as e:
        return str(e)
    raise AssertionError(f"{error.__name__} expected")


def normal(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


# ------------------------------------------------------------ element-wise etc.


def test_elementwise(dtype):
    x, y = normal(7, 5, dtype=dtype), normal(5, dtype=dtype)
    a, b = cupy.asarray(x), cupy.asarray(y)
    close(
        cupy.exp(a) * b - cupy.sqrt(cupy.abs(a)) / 3, np.exp(x) * y - np.sqrt(np.abs(x)) / 3, dtype
    )
    assert (a + 1.5).dtype == dtype


def test_reductions(dtype):
    x = normal(37, 1001, dtype=dtype)
    a = cupy.asarray(x)
    for axis in (None, 0, 1):
        for name in ("sum", "mean", "std", "var", "max", "min", "argmax"):
            close(getattr(a, name)(axis=axis), getattr(x, name)(axis=axis), dtype, scale=10)


def test_where_clip_take(dtype):
    x = normal(20, 6, dtype=dtype)
    a = cupy.asarray(x)
    rows = np.array([3, 3, 0, 19])
    same(cupy.where(a > 0, a, 0), np.where(x > 0, x, 0))
    same(cupy.clip(a, -0.5, 0.5), np.clip(x, -0.5, 0.5))
    same(cupy.take(a, cupy.asarray(rows), axis=0), np.take(x, rows, axis=0))
    same(a[cupy.asarray(rows)][:, ::2], x[rows][:, ::2])
    same(a[a > 0.3], x[x > 0.3])
    same(cupy.nonzero(a > 1)[0], np.nonzero(x > 1)[0])


def test_cumsum_and_scan(dtype):
    x = normal(3000, dtype=dtype)
    close(cupy.cumsum(cupy.asarray(x)), np.cumsum(x.astype(np.float64)), dtype, scale=100)


def test_half_precision():
    x = normal(30, 20).astype(np.float16)
    a = cupy.asarray(x)
    np.testing.assert_allclose(
        (a @ a.T).get(), x.astype(np.float32) @ x.T.astype(np.float32), atol=0.1
    )
    np.testing.assert_allclose(a.sum(axis=0).get(), x.sum(axis=0), atol=0.1)


def test_complex():
    x = normal(6, 5) + 1j * normal(6, 5)
    a = cupy.asarray(x)
    close(a @ a.conj().T, x @ x.conj().T)
    w, _v = cupy.linalg.eigh(a @ a.conj().T)
    close(w, np.linalg.eigvalsh(x @ x.conj().T))


# -------------------------------------------------------------- sorting, sets


def test_sort_argsort(dtype):
    x = normal(9, 500, dtype=dtype)
    x[0, 3] = np.nan
    a = cupy.asarray(x)
    same(cupy.sort(a, axis=1), np.sort(x, axis=1))
    same(cupy.sort(a, axis=0), np.sort(x, axis=0))
    same(cupy.argsort(a, axis=1), np.argsort(x, axis=1, kind="stable"))
    y = RNG.integers(0, 5, 100)
    same(cupy.argsort(cupy.asarray(y)), np.argsort(y, kind="stable"))


def test_lexsort_partition():
    keys = RNG.integers(0, 4, (3, 50))
    same(cupy.lexsort(cupy.asarray(keys)), np.lexsort(keys))
    x = normal(101)
    for n in (101, 20000):  # CuPy has two algorithms
        y = normal(n)
        same(cupy.partition(cupy.asarray(y), 50)[50], np.partition(y, 50)[50])
        same(y[cupy.argpartition(cupy.asarray(y), 50).get()[50]], np.partition(y, 50)[50])
    close(cupy.median(cupy.asarray(x)), np.median(x))


def test_unique_searchsorted():
    y = RNG.integers(-3, 9, 200)
    for mine, theirs in zip(
        cupy.unique(cupy.asarray(y), return_index=True, return_inverse=True, return_counts=True),
        np.unique(y, return_index=True, return_inverse=True, return_counts=True),
        strict=False,
    ):
        same(mine, theirs)
    edges, x = np.sort(normal(20)), normal(300)
    for side in ("left", "right"):
        same(
            cupy.searchsorted(cupy.asarray(edges), cupy.asarray(x), side=side),
            np.searchsorted(edges, x, side=side),
        )


# -------------------------------------------------------------------- scatter


def test_scatter_add(dtype):
    y, x = RNG.integers(0, 4, 60), normal(60, 7, dtype=dtype)
    expected = np.zeros((4, 7), dtype)
    np.add.at(expected, y, x)
    out = cupy.zeros((4, 7), dtype)
    cupy.add.at(out, cupy.asarray(y), cupy.asarray(x))
    close(out, expected, dtype)


def test_bincount_histogram(dtype):
    y, w = RNG.integers(0, 6, 500), normal(500, dtype=dtype)
    same(cupy.bincount(cupy.asarray(y), minlength=9), np.bincount(y, minlength=9))
    close(
        cupy.bincount(cupy.asarray(y), weights=cupy.asarray(w)),
        np.bincount(y, weights=w),
        np.float32,
    )
    same(cupy.histogram(cupy.asarray(w), bins=7)[0], np.histogram(w, bins=7)[0])


# -------------------------------------------------------------------- products


def test_matmul(dtype):
    x, y = normal(33, 21, dtype=dtype), normal(21, 8, dtype=dtype)
    a, b = cupy.asarray(x), cupy.asarray(y)
    close(a @ b, x @ y, dtype)
    close(a.T @ a, x.T @ x, dtype)
    close(a @ b[:, 0], x @ y[:, 0], dtype)
    close(a[0] @ a[1], x[0] @ x[1], dtype)
    close(cupy.asfortranarray(a) @ b[:, ::2], x @ y[:, ::2], dtype)
    close(cupy.einsum("ij,kj->ik", a, a), x @ x.T, dtype)


def test_matmul_batched_and_integer(dtype):
    x, y = normal(4, 6, 5, dtype=dtype), normal(4, 5, 3, dtype=dtype)
    close(cupy.asarray(x) @ cupy.asarray(y), x @ y, dtype)
    close(cupy.asarray(x) @ cupy.asarray(y[0]), x @ y[0], dtype)
    i = RNG.integers(-9, 9, (6, 7))
    same(cupy.asarray(i) @ cupy.asarray(i.T), i @ i.T)


def test_cublas_module(dtype):
    from cupy import cublas

    x, d = normal(6, 4, dtype=dtype), normal(4, dtype=dtype)
    a = cupy.asarray(x, order="F")
    close(cublas.geam("N", "N", 2.0, a, -1.0, a), x, dtype)
    close(cublas.dgmm("R", a, cupy.asarray(d)), x * d, dtype)
    close(cublas.nrm2(cupy.asarray(d)), np.linalg.norm(d), dtype)
    full = cublas.syrk("N", a, lower=True).get()
    close(np.tril(full), np.tril(x @ x.T), dtype)


# -------------------------------------------------------------- factorizations


def symmetric(n, dtype):
    x = normal(n, n, dtype=dtype)
    return x + x.T


def test_eigh(dtype):
    for n in (1, 2, 33):
        x = symmetric(n, dtype)
        for uplo in "LU":
            w, v = (r.get() for r in cupy.linalg.eigh(cupy.asarray(x), UPLO=uplo))
            close(w, np.linalg.eigvalsh(x), dtype, scale=n)
            close(v * w @ v.T, x, dtype, scale=n)
    stack = np.stack([symmetric(5, dtype) for _ in range(3)])
    close(cupy.linalg.eigvalsh(cupy.asarray(stack)), np.linalg.eigvalsh(stack), dtype, scale=10)


def test_eig(dtype):
    x = normal(12, 12, dtype=dtype)
    w, v = (r.get() for r in cupy.linalg.eig(cupy.asarray(x)))
    close(np.sort_complex(w), np.sort_complex(np.linalg.eigvals(x)), dtype, scale=10)
    close(x @ v, v * w, dtype, scale=10)


def test_cholesky_solve(dtype):
    x = normal(20, 20, dtype=dtype)
    p = x @ x.T + 20 * np.eye(20, dtype=dtype)
    b = normal(20, 3, dtype=dtype)
    close(cupy.linalg.cholesky(cupy.asarray(p)), np.linalg.cholesky(p), dtype, scale=10)
    close(
        cupy.linalg.solve(cupy.asarray(p), cupy.asarray(b)), np.linalg.solve(p, b), dtype, scale=10
    )
    close(cupy.linalg.inv(cupy.asarray(p)), np.linalg.inv(p), dtype, scale=10)
    stack = np.stack([p, 2 * p])
    close(cupy.linalg.cholesky(cupy.asarray(stack)), np.linalg.cholesky(stack), dtype, scale=10)
    close(cupy.linalg.inv(cupy.asarray(stack)), np.linalg.inv(stack), dtype, scale=10)
    right = np.stack([b, b])
    close(
        cupy.linalg.solve(cupy.asarray(stack), cupy.asarray(right)),
        np.linalg.solve(stack, right),
        dtype,
        scale=10,
    )
    lower = np.linalg.cholesky(p)
    close(
        cupyx.scipy.linalg.solve_triangular(cupy.asarray(lower), cupy.asarray(b), lower=True),
        np.linalg.solve(lower, b),
        dtype,
        scale=10,
    )


def test_qr_svd(dtype):
    for shape in ((20, 6), (6, 20), (5, 5)):
        x = normal(*shape, dtype=dtype)
        a = cupy.asarray(x)
        q, r = cupy.linalg.qr(a)
        close(q @ r, x, dtype, scale=10)
        for full in (False, True):
            u, s, vt = (o.get() for o in cupy.linalg.svd(a, full_matrices=full))
            k = len(s)
            close(s, np.linalg.svd(x, compute_uv=False), dtype, scale=10)
            close(u[:, :k] * s @ vt[:k], x, dtype, scale=10)
        close(cupy.linalg.pinv(a), np.linalg.pinv(x), dtype, scale=100)
    stack = normal(3, 6, 4, dtype=dtype)
    u, s, vt = (o.get() for o in cupy.linalg.svd(cupy.asarray(stack), full_matrices=False))
    close(u * s[:, None, :] @ vt, stack, dtype, scale=10)
    large = normal(2, 40, 35, dtype=dtype)
    close(
        cupy.linalg.svd(cupy.asarray(large), compute_uv=False),
        np.linalg.svd(large, compute_uv=False),
        dtype,
        scale=10,
    )


def test_det_lstsq_norm(dtype):
    x, b = normal(12, 5, dtype=dtype), normal(12, dtype=dtype)
    close(cupy.linalg.det(cupy.asarray(x[:5])), np.linalg.det(x[:5]), dtype, scale=10)
    close(
        cupy.linalg.lstsq(cupy.asarray(x), cupy.asarray(b), rcond=None)[0],
        np.linalg.lstsq(x, b, rcond=None)[0],
        dtype,
        scale=10,
    )
    close(cupy.linalg.norm(cupy.asarray(x), axis=1), np.linalg.norm(x, axis=1), dtype)
    assert int(cupy.linalg.matrix_rank(cupy.asarray(x))) == 5


def test_cholesky_failure_is_silent_as_on_a_gpu():
    cupy.linalg.cholesky(-cupy.eye(3))
    with cupyx.errstate(linalg="raise"):
        raises(np.linalg.LinAlgError, cupy.linalg.cholesky, -cupy.eye(3))


# --------------------------------------------------------------------- sparse


def sparse_example(dtype):
    x = normal(30, 20, dtype=dtype)
    x[np.abs(x) < 0.8] = 0
    x[4] = 0
    return x


def test_sparse_products(dtype):
    x = sparse_example(dtype)
    a = cupyx.scipy.sparse.csr_matrix(cupy.asarray(x))
    b, c, v = normal(20, 7, dtype=dtype), normal(30, 7, dtype=dtype), normal(20, dtype=dtype)
    close(a @ cupy.asarray(b), x @ b, dtype)
    close(a.T @ cupy.asarray(c), x.T @ c, dtype)
    close(a @ cupy.asarray(v), x @ v, dtype)
    close(a.T @ cupy.asarray(c[:, 0]), x.T @ c[:, 0], dtype)
    close(a.tocsc() @ cupy.asarray(b), x @ b, dtype)
    close(a.tocoo() @ cupy.asarray(b), x @ b, dtype)


def test_sparse_with_sparse(dtype):
    x, y, z = sparse_example(dtype), sparse_example(dtype), sparse_example(dtype).T.copy()
    a, b, c = (cupyx.scipy.sparse.csr_matrix(cupy.asarray(m)) for m in (x, y, z))
    close((a + b).toarray(), x + y, dtype)
    close((a - 2 * b).toarray(), x - 2 * y, dtype)
    close((a @ c).toarray(), x @ z, dtype)
    close((a.T @ a).toarray(), x.T @ x, dtype)


def test_sparse_conversions(dtype):
    x = sparse_example(dtype)
    a = cupyx.scipy.sparse.csr_matrix(cupy.asarray(x))
    assert a.nnz == np.count_nonzero(x)
    same(a.toarray(), x)
    same(a.tocsc().toarray(), x)
    same(a.tocoo().tocsr().toarray(), x)
    same(a[3:9].toarray(), x[3:9])
    close(a.sum(axis=0), x.sum(axis=0, keepdims=True), dtype)
    close(a.multiply(2.5).toarray(), 2.5 * x, dtype)
    shuffled = RNG.permutation(a.nnz)
    coo = a.tocoo()
    unsorted = cupyx.scipy.sparse.coo_matrix(
        (coo.data[shuffled], (coo.row[shuffled], coo.col[shuffled])), shape=x.shape
    )
    same(unsorted.tocsr().toarray(), x)


# ------------------------------------------------------------ custom kernels


def test_elementwise_and_reduction_kernel():
    square = cupy.ElementwiseKernel("T x", "T y", "y = x * x + i", "coc_square")
    x = normal(50)
    close(square(cupy.asarray(x)), x * x + np.arange(50))
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "coc_norm")
    close(norm(cupy.asarray(x)), np.linalg.norm(x))


def test_raw_kernel_with_barrier():
    kernel = cupy.RawKernel(
        r"""
        extern "C" __global__ void reverse(const float* in, float* out) {
            __shared__ float tile[64];
            extern __shared__ float dynamic[];
            tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
            __syncthreads();
            dynamic[threadIdx.x] = tile[63 - threadIdx.x];
            __syncthreads();
            float v = dynamic[threadIdx.x];
            for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
            out[blockIdx.x * 64 + threadIdx.x] = threadIdx.x % 32 ? dynamic[threadIdx.x] : v;
        }""",
        "reverse",
    )
    x = np.arange(192, dtype=np.float32)
    out = cupy.zeros(192, np.float32)
    kernel((3,), (64,), (cupy.asarray(x), out), shared_mem=256)
    expected = x.reshape(3, 64)[:, ::-1].copy()
    sums = expected.reshape(3, 2, 32).sum(axis=2)
    expected[:, ::32] = sums
    same(out, expected.ravel())


def test_fuse():
    @cupy.fuse()
    def f(x, y):
        return cupy.sqrt(x * x + y * y) - 1

    x, y = normal(40), normal(40)
    close(f(cupy.asarray(x), cupy.asarray(y)), np.hypot(x, y) - 1)


# ------------------------------------------------------- host and device apart


def test_implicit_conversion_raises():
    a = cupy.arange(4.0)
    assert "Implicit conversion" in raises(TypeError, np.asarray, a)
    raises(TypeError, lambda: a + np.arange(4.0))
    raises(TypeError, lambda: np.arange(4.0) + a)
    raises(TypeError, lambda: np.arange(4)[a.astype(int)])
    assert float(a[2]) == 2.0
    assert bool(a[1] > 0)
    assert int(a.argmax()) == 3
    assert type(cupy.asnumpy(a)) is np.ndarray
    assert type(np.sum(a)) is cupy.ndarray


@pytest.mark.filterwarnings("ignore:cupyx.allow_synchronize will be removed")
def test_synchronization_can_be_forbidden():
    a = cupy.arange(4.0)
    with cupyx.allow_synchronize(False):
        raises(cupyx.DeviceSynchronized, float, a[0])


def test_pointer_kinds():
    a = cupy.arange(4.0)
    pinned = cupyx.empty_pinned(4)
    assert emucuda.memory_type(a.data.ptr) == 2
    assert emucuda.memory_type(pinned.ctypes.data) == 1
    assert emucuda.memory_type(np.zeros(4).ctypes.data) == 0
    assert a.__dlpack_device__() == (2, 0)
    same(cupy.from_dlpack(a), np.arange(4.0))
    raises(Exception, np.from_dlpack, a)


# ------------------------------------------------------------ counters, limits


def test_copy_counters():
    x = np.ones((100, 10))
    emucuda.reset()
    a = cupy.asarray(x)
    a.get()
    float(a[0, 0])
    s = emucuda.stats()
    assert (s["h2d_count"], s["h2d_bytes"]) == (1, 8000), s
    assert (s["d2h_count"], s["d2h_bytes"]) == (2, 8008), s
    before = emucuda.stats()
    b = a * 2
    b @ b.T
    after = emucuda.stats()
    assert after["launches"] - before["launches"] == 1
    assert after["blas_calls"] - before["blas_calls"] == 1
    assert after["d2h_count"] == before["d2h_count"]


def test_measure():
    before = cupy.get_default_memory_pool().used_bytes()
    with emucuda.measure() as m:
        a = cupy.zeros(1 << 20, np.uint8)
        b = cupy.zeros(1 << 20, np.uint8)
        del a
        cupy.cuda.Device().synchronize()
    assert 2 << 20 <= m.peak_used_bytes - before < 3 << 20, m
    assert m.peak_bytes >= m.peak_used_bytes, m
    assert (m.device_syncs, m.h2d_count) == (1, 0), m
    assert m.syncs >= 1, m
    del b


def test_capacity_raises_out_of_memory():
    cupy.get_default_memory_pool().free_all_blocks()
    with emucuda.capacity(emucuda.stats()["current_bytes"] + (16 << 20)):
        cupy.zeros(8 << 20, np.uint8)
        message = raises(cupy.cuda.memory.OutOfMemoryError, cupy.zeros, 32 << 20, np.uint8)
        assert "Out of memory" in message, message
    cupy.zeros(32 << 20, np.uint8)
    free, total = cupy.cuda.runtime.memGetInfo()
    assert total == emucuda.get_capacity()
    assert free < total


def test_pool_limit():
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=1 << 20)
    with cupy.cuda.using_allocator(pool.malloc):
        raises(cupy.cuda.memory.OutOfMemoryError, cupy.zeros, 2 << 20, np.uint8)


# --------------------------------------------------------- random, unsupported


def test_legacy_random():
    cupy.random.seed(3)
    u, g = cupy.random.rand(2000), cupy.random.standard_normal(2000)
    cupy.random.seed(3)
    same(cupy.random.rand(2000), u.get())
    assert float(u.min()) >= 0
    assert float(u.max()) <= 1
    assert abs(float(u.mean()) - 0.5) < 0.05
    assert abs(float(g.std()) - 1) < 0.1
    assert sorted(cupy.random.permutation(50).get()) == list(range(50))
    assert set(cupy.random.randint(0, 3, 100).get()) == {0, 1, 2}


def test_generator_is_refused():
    assert "cupy-on-cpu" in raises(NotImplementedError, cupy.random.default_rng, 0)


def test_unsupported_library_is_an_error():
    raises(Exception, cupy.fft.fft, cupy.arange(8.0))


def test_device_properties():
    device = cupy.cuda.Device()
    assert device.compute_capability == "80"
    assert cupy.cuda.runtime.getDeviceCount() == 1
    assert b"cupy-on-cpu" in cupy.cuda.runtime.getDeviceProperties(0)["name"]
    raises(cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.Device(1).use)


# ------------------------------------------------------- processes and threads


def _child(x):
    return float((cupy.asarray(x) * 2).sum())


@pytest.mark.filterwarnings("ignore:os.fork():RuntimeWarning")  # of JAX, if it was imported
@pytest.mark.filterwarnings("ignore:.*fork():DeprecationWarning")  # of Python 3.12
def test_multiprocessing():
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(_child, [[1.0, 2.0], [3.0]]) == [6.0, 6.0]


def test_two_processes_compile_the_same_kernel():
    code = (
        f"import cupy; k = cupy.ElementwiseKernel('T x', 'T y', 'y = x + {time.time()}', 'race'); "
        "print(float(k(cupy.zeros(1))[0]))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)
    ]
    outputs = {child.communicate()[0] for child in children}
    assert len(outputs) == 1
    assert not any(child.returncode for child in children), outputs


def test_tf32_keeps_three_digits():
    compute = cupy._core._routines_linalg
    x = normal(40, 30, dtype="float32")
    exact = x.astype(np.float64).T @ x
    errors = {}
    before = compute.get_compute_type("float32")
    try:
        for name in ("COMPUTE_TYPE_DEFAULT", "COMPUTE_TYPE_TF32"):
            compute.set_compute_type("float32", getattr(compute, name))
            a = cupy.asarray(x)
            errors[name] = np.abs((a.T @ a).get() - exact).max()
    finally:
        compute.set_compute_type("float32", before)
    assert errors["COMPUTE_TYPE_DEFAULT"] < 1e-4 < errors["COMPUTE_TYPE_TF32"] < 0.1


def test_a_copy_on_its_own_stream_waits_until_it_is_waited_for():
    copying, computing = cupy.cuda.Stream(non_blocking=True), cupy.cuda.get_current_stream()
    pinned = cupyx.empty_pinned(4)
    waits = {
        "stream": copying.synchronize,
        "event": lambda: arrived.synchronize(),
        "other stream": lambda: computing.wait_event(arrived),
        "device": cupy.cuda.Device().synchronize,
    }
    for value, wait in enumerate(waits.values()):
        pinned[:] = value
        a = cupy.full(4, -1.0)
        a.set(pinned, stream=copying)
        arrived = copying.record()
        assert not arrived.done
        same(a, [-1.0] * 4)
        wait()
        assert arrived.done
        same(a, [value] * 4)


def test_pinned_memory_is_read_when_a_copy_is_made_and_other_memory_before():
    copying = cupy.cuda.Stream(non_blocking=True)
    for host, found in ((cupyx.empty_pinned(4), 2.0), (np.empty(4), 1.0)):
        a = cupy.empty(4)
        host[:] = 1.0
        a.set(host, stream=copying)
        host[:] = 2.0
        copying.synchronize()
        same(a, [found] * 4)


def test_threads():
    x = normal(64, 64)
    a = cupy.asarray(x)
    results = []

    def work():
        results.extend(float((a @ a).sum()) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    close(np.array(results), np.full(80, (x @ x).sum()), scale=1e3)


def test_process_without_cupy_is_untouched():
    code = (
        "import numpy, sys; numpy.ones(3) @ numpy.ones(3); "
        "assert 'emucuda' not in open('/proc/self/maps').read(); print(len(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_array_api_compat():
    import array_api_compat as compat

    x = normal(10, 4)
    a = cupy.asarray(x)
    xp = compat.array_namespace(a)
    assert compat.is_cupy_array(a)
    assert "cupy" in xp.__name__
    close(xp.linalg.svd(a, full_matrices=False).S, np.linalg.svd(x, compute_uv=False))
    same(xp.unique_inverse(xp.asarray([3, 1, 3])).inverse_indices, [1, 0, 1])
    same(compat.to_device(a, "cpu"), x)
