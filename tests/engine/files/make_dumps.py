"""Runs assets/flashscope_dump.py as a person would. Usage: make_dumps.py FOLDER.

Uses NumPy, and PyTorch too where it is installed. Prints the names of those that were used, one a line;
dump_helper_test.cpp loads what was written. Element n of every array is n / 8.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "assets"))
import flashscope_dump as dump  # noqa: E402

folder = pathlib.Path(sys.argv[1])
FULL = {"q": (2, 4, 3, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 4), "o": (2, 4, 3, 4), "lse": (2, 4, 3)}


def size(shape):
    product = 1
    for n in shape:
        product *= n
    return product


def must_refuse(what, *arguments, **named):
    try:
        dump.save(folder / "refused.npz", *arguments, **named)
    except ValueError as error:
        assert what in str(error), error
    else:
        raise AssertionError(f"{what} was not refused")
    assert not list(folder.glob("refused*"))


def write_all(library, ramp, mask, bfloat16, turned, unreadable):
    for suffix in (".npz", ".safetensors"):
        tensors = {name: ramp(shape) for name, shape in FULL.items()}
        dump.save(folder / f"{library}_full{suffix}", tensors["q"], tensors["k"], tensors["v"], mask=mask, scale=0.5,
                  o=tensors["o"], lse=tensors["lse"])
        dump.save(str(folder / f"{library}_bfloat16{suffix}"), bfloat16((1, 3, 2, 8)), bfloat16((1, 5, 2, 8)),
                  bfloat16((1, 5, 2, 8)), layout="bnhd")
        dump.save(folder / f"{library}_turned{suffix}", turned((3, 8)), ramp((5, 8)), ramp((5, 8)))
        # A second save replaces the first.
        dump.save(folder / f"{library}_turned{suffix}", turned((3, 8)), ramp((5, 8)), ramp((5, 8)), scale=2)
    q = ramp((2, 8))
    must_refuse("'sbhd'", q, q, q, layout="sbhd")
    must_refuse("k: found element type", q, unreadable, q)
    must_refuse("q: found 1 dimensions", ramp((8,)), q, q)
    try:
        dump.save(folder / "refused.pt", q, q, q)
    except ValueError as error:
        assert "refused.pt" in str(error)
    else:
        raise AssertionError("another file type was not refused")
    print(library)


def with_numpy():
    import numpy as np

    def ramp(shape):
        return (np.arange(size(shape)) / 8).reshape(shape).astype(">f4")  # as loaded from elsewhere

    def bfloat16(shape):
        return ((np.arange(size(shape)) / 8).astype("<f4").view("<u4") >> 16).astype("<u2").view("V2").reshape(shape)

    mask = np.tril(np.ones((3, 5), bool), 2)
    write_all("numpy", ramp, mask, bfloat16, lambda shape: np.asfortranarray(ramp(shape)), np.zeros((2, 8), complex))
    back = np.load(folder / "numpy_full.npz")  # what was written is what NumPy reads
    assert back["layout"] == "bhnd" and back["scale"] == 0.5 and back["scale"].shape == ()
    assert back["q"].shape == FULL["q"] and (back["q"] == ramp(FULL["q"])).all() and (back["mask"] == mask).all()


def with_torch():
    import torch

    def ramp(shape):
        return (torch.arange(size(shape)) / 8).reshape(shape).requires_grad_()

    def bfloat16(shape):
        return ramp(shape).to(torch.bfloat16)

    write_all("torch", ramp, torch.ones(3, 5, dtype=torch.bool).tril(2), bfloat16,
              lambda shape: ramp(shape).detach().t().contiguous().t(), torch.zeros(2, 8, dtype=torch.complex64))


with_numpy()
try:
    import torch  # noqa: F401
except ImportError:
    pass
else:
    with_torch()
