"""The simulated accelerator is strict, and its counts are correct."""

import gc
import os

import numpy as np
import oracle
import pytest
from patching import replace_in_backend

import slce_xp
from slce_xp import _backend

torch = pytest.importorskip("torch")
counting_device = pytest.importorskip("counting_device")

FORMS = ["scatter", "gram", "krylov"]
HOST = np.random.default_rng(0).standard_normal((50, 8))


@pytest.fixture
def device():
    with counting_device.CountingDevice() as device:
        yield device


@pytest.fixture
def x(device):
    return device.put(HOST)


# ---------------------------------------------------------------- values


def test_tensors_are_on_the_device_with_host_values(device, x):
    assert x.device == device.device == torch.device("sim", 0)
    assert x.device.type != "cpu"
    values, vectors = torch.linalg.eigh(x.T @ x)
    assert {values.device, vectors.device} == {device.device}
    np.testing.assert_allclose(device.get(values), np.linalg.eigvalsh(HOST.T @ HOST))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.full((3,), 2.0, device="sim"),
        lambda: torch.tensor([2.0, 2.0, 2.0], device="sim:0"),
        lambda: torch.asarray(np.full(3, 2.0), device="sim"),
        lambda: torch.full((3,), 2.0).to("sim"),
        lambda: torch.zeros(3, device="sim").fill_(2.0),
        lambda: torch.empty_like(torch.ones(3, device="sim")).copy_(torch.full((3,), 2.0)),
    ],
)
def test_tensor_creation_functions(device, make):
    made = make()
    assert made.device == device.device
    np.testing.assert_array_equal(device.get(made), [2.0, 2.0, 2.0])


def test_writes_to_a_view_reach_its_base(device, x):
    x[:, 1] = 7.0
    x.T[2] += 1.0
    expected = HOST.copy()
    expected[:, 1] = 7.0
    expected[:, 2] += 1.0
    np.testing.assert_array_equal(device.get(x), expected)


def test_host_tensors_are_not_affected(device):
    host = torch.asarray(HOST)
    product = host.T @ host
    assert type(product) is torch.Tensor
    assert product.device.type == "cpu"
    assert float(product[0, 0]) > 0
    np.testing.assert_allclose(product.numpy(), HOST.T @ HOST)
    assert device.syncs == []
    assert device.live_bytes == device.h2d_bytes == device.d2h_bytes == 0


def test_device_exists_only_inside_its_context():
    with counting_device.CountingDevice():
        torch.ones(3, device="sim")
    with pytest.raises(NotImplementedError):
        torch.ones(3, device="sim")


def test_deterministic_torch_works_there(device, x):
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        index = device.put(np.arange(50) % 3)
        sums = torch.zeros(3, 8, dtype=x.dtype, device="sim").index_add_(0, index, x)
    finally:
        torch.use_deterministic_algorithms(before)
    np.testing.assert_allclose(device.get(sums)[0], HOST[::3].sum(axis=0))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, host: x + host,
        lambda x, host: host @ x.T,
        lambda x, host: torch.cat([x, host]),
        lambda x, host: torch.where(x > 0, x, host),
        lambda x, host: x.add_(host),
    ],
)
def test_mixing_host_and_device_raises(x, mix):
    with pytest.raises(RuntimeError, match="same device"):
        mix(x, torch.asarray(HOST))


def test_host_scalars_may_be_mixed(device, x):
    np.testing.assert_array_equal(device.get(x + torch.tensor(1.0)), HOST + 1)


@pytest.mark.parametrize(
    "read", [np.asarray, lambda x: x.numpy(), np.from_dlpack], ids=["asarray", "numpy", "dlpack"]
)
def test_numpy_cannot_read_it(x, read):
    with pytest.raises((TypeError, BufferError), match="sim:0"):
        read(x)


def test_integer_products_raise_as_on_a_gpu(device):
    whole = device.put(np.ones((3, 3), int))
    with pytest.raises(RuntimeError, match="not implemented on a GPU"):
        whole @ whole


# ---------------------------------------------------------------- synchronisations

SYNCS = {
    "item": lambda x: x[0, 0].item(),
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "bool": lambda x: bool(x[0, 0]),
    "if": lambda x: 1 if (x > 0).all() else 0,
    "f-string": lambda x: f"{x[0, 0]:.3f}",
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "copy_": lambda x: torch.zeros(50, 8, dtype=x.dtype).copy_(x),
    "tolist": lambda x: x.tolist(),
    "mask": lambda x: x[x > 0],
    "masked write": lambda x: x.__setitem__(x > 0, x[0, :1]),
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "nonzero": lambda x: torch.nonzero(x),
    "where": lambda x: torch.where(x > 0),
    "unique": lambda x: torch.unique(x),
    "unique rows": lambda x: torch.unique(x, dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x),
    "bincount": lambda x: torch.bincount(x[:, 0].to(torch.int64).abs()),
    "equal": lambda x: torch.equal(x, x + 1),
    "allclose": lambda x: torch.allclose(x, x),
    "repeat_interleave": lambda x: torch.repeat_interleave(x[:, 0].to(torch.int64).abs()),
}


@pytest.mark.parametrize("name", SYNCS)
def test_each_host_read_is_logged_with_file_and_line(device, x, name):
    call = SYNCS[name]
    call(x)
    assert len(device.syncs) == 1, device.syncs
    assert os.path.samefile(device.syncs[0].file, __file__)
    assert device.syncs[0].line == call.__code__.co_firstlineno


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.T @ x,
        lambda x: torch.where(x > 0, x, -x).sum(dim=0),
        lambda x: torch.linalg.qr(x),
        lambda x: torch.index_select(x, 0, torch.arange(3, device="sim")),
        lambda x: x.to(torch.float32),
        lambda x: (x.shape, x.dtype, x.device, x.dim(), len(x), repr(x)),
    ],
)
def test_operations_without_host_reads_are_not_logged(device, x, call):
    call(x)
    assert device.syncs == device.checks == []


@pytest.mark.parametrize("name", ["cholesky", "eigh", "inv", "svd"])
def test_factorization_checks_are_logged_separately(device, x, name):
    getattr(torch.linalg, name)(x.T @ x)
    assert device.syncs == []
    assert [os.path.basename(check.file) for check in device.checks] == [os.path.basename(__file__)]


def test_put_and_get_are_not_logged(device):
    device.get(device.put(HOST))
    assert device.syncs == []
    assert device.h2d_bytes == device.d2h_bytes == 0


# ---------------------------------------------------------------- bytes


def test_bytes_of_copies(device):
    x = torch.asarray(HOST, device="sim")
    assert (device.h2d_bytes, device.d2h_bytes) == (HOST.nbytes, 0)
    x[:3].cpu()
    assert (device.h2d_bytes, device.d2h_bytes) == (HOST.nbytes, 3 * 8 * 8)
    torch.asarray(HOST, dtype=torch.float32, device="sim")  # converted on the host
    assert device.h2d_bytes == HOST.nbytes + HOST.nbytes // 2
    x[torch.tensor([1, 2])]  # torch moves these indices implicitly
    assert device.h2d_bytes == HOST.nbytes + HOST.nbytes // 2 + 2 * 8
    assert [upload.file for upload in device.uploads] == [__file__] * 3


def test_live_and_peak_bytes_are_those_of_storages(device):
    big = torch.zeros(1 << 20, dtype=torch.uint8, device="sim")
    view = big[10:]
    small = torch.zeros(1, device="sim")
    assert device.live_bytes == device.peak_bytes == (1 << 20) + 512
    del big
    assert device.live_bytes == (1 << 20) + 512  # the view holds it
    del view
    gc.collect()
    assert device.live_bytes == 512
    assert device.peak_bytes == (1 << 20) + 512
    device.reset()
    assert device.peak_bytes == 512
    del small


def test_temporaries_are_in_the_peak(device):
    x = torch.zeros(1 << 18, device="sim")
    device.reset()
    x = (x + 1.0) * 2.0 - 3.0
    assert device.peak_bytes == 3 << 20  # the start and two steps of a chain
    assert device.live_bytes == 1 << 20


def test_eigensolver_workspace_is_counted(device):
    square = torch.eye(128, dtype=torch.float64, device="sim")
    device.reset()
    torch.linalg.eigh(square)
    matrix = 128 * 128 * 8
    assert device.peak_bytes == 4 * matrix + 128 * 8  # matrix, eigenvectors and values, workspace


def test_memory_runs_out_at_the_capacity():
    with counting_device.CountingDevice(capacity=10_000) as device:
        kept = torch.zeros(2000, device="sim")
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            torch.zeros(500, device="sim")
        with pytest.raises(torch.OutOfMemoryError):
            kept + 1.0
        assert device.live_bytes == device.peak_bytes == 8192
        del kept
        torch.zeros(2400, device="sim")


def test_free_memory_interface_matches_torch_cuda(device):
    def free_and_total(device):
        return getattr(torch, device.type).mem_get_info(device)

    free, total = free_and_total(device.device)
    assert free == total >= 2**40
    with counting_device.CountingDevice(capacity=1 << 20) as limited:
        held = torch.zeros(1000, dtype=torch.uint8, device="sim")
        assert free_and_total(held.device) == ((1 << 20) - 1024, 1 << 20)
        assert limited.live_bytes == 1024
    assert free_and_total(device.device) == (free, total)


def test_all_created_dtypes_are_recorded(device):
    x = device.put(HOST.astype(np.float32))
    assert set(device.dtype_bytes) == {torch.float32}
    (x * 2.0).sum()  # the number does not become a tensor
    assert set(device.dtype_bytes) == {torch.float32}
    for _ in range(2):  # both count, although the first was freed
        x[:16].to(torch.float64)
    assert device.dtype_bytes[torch.float64] == 2 * 16 * 8 * 8


# ---------------------------------------------------------------- fits on the device


@pytest.mark.parametrize("n_classes", [4, 90])
@pytest.mark.parametrize("solver", FORMS)
def test_float32_fit_creates_no_float64(device, solver, n_classes):
    X, y = oracle.blobs(200, 30, n_classes, seed=1)
    x = device.put((X + 50.0).astype(np.float32))
    model = slce_xp.fit(x, y, solver=solver)
    model.reconstruct(x)
    assert model.loss_curve.dtype == model.eigenvalue_bounds.dtype == torch.float32
    assert not device.dtype_bytes[torch.float64]


@pytest.mark.parametrize("n_classes", [4, 90])
@pytest.mark.parametrize("solver", FORMS)
def test_only_to_host_waits_for_the_device(device, monkeypatch, solver, n_classes):
    reads = []
    to_host = _backend.to_host
    replace_in_backend(monkeypatch, "to_host", lambda x: reads.append(x) or to_host(x))
    X, y = oracle.blobs(200, 30, n_classes, seed=1)
    x = device.put(X)
    model = slce_xp.fit(x, y, solver=solver)
    on_device = [read for read in reads if isinstance(read, torch.Tensor)]
    assert len(device.syncs) == len(on_device) > 0
    device.reset()
    model.inverse_transform(model.transform(x))
    model.reconstruct(x)
    assert device.syncs == device.checks == []
    assert device.h2d_bytes == 0
