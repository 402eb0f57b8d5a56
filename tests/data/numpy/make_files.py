"""Files written by NumPy itself, for tests/engine/files. Usage: make_files.py (writes beside itself).

Element n of every array in C order is n / 4.
"""
import io
import pathlib
import zipfile

import numpy as np

here = pathlib.Path(__file__).parent
cube = (np.arange(30) / 4).reshape(2, 3, 5)

for version in (1, 2, 3):
    with open(here / f"v{version}.npy", "wb") as out:
        np.lib.format.write_array(out, cube.astype("<f4"), version=(version, 0))
np.save(here / "fortran.npy", np.asfortranarray(cube.astype("<f2")))
np.save(here / "big_endian.npy", cube.astype(">f8"))

arrays = {
    "q": (np.arange(40) / 4).reshape(2, 4, 5).astype("<f4"),
    "k": (np.arange(30) / 4).reshape(1, 6, 5).astype("<f4"),
    "v": (np.arange(18) / 4).reshape(1, 6, 3).astype("<f4"),
    "mask": np.tril(np.ones((4, 6), bool), 2),
    "scale": np.float64(0.25),
    "layout": "hnd",
    "label": np.array(["a", "b"]),
}
np.savez(here / "stored.npz", **arrays)
np.savez_compressed(here / "deflated.npz", **arrays)

# With the records that NumPy writes for members and directories beyond 2 GiB.
limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 1
np.savez(here / "zip64.npz", **arrays)
zipfile.ZIP64_LIMIT = limit


class Pipe(io.RawIOBase):
    """Cannot seek, so that zipfile writes data descriptors after the members."""

    def __init__(self):
        self.bytes = b""

    def writable(self):
        return True

    def write(self, data):
        self.bytes += bytes(data)
        return len(data)


for name, method in (("piped_stored", zipfile.ZIP_STORED), ("piped_deflated", zipfile.ZIP_DEFLATED)):
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:
        for key, value in arrays.items():
            with archive.open(key + ".npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(value))
    (here / f"{name}.npz").write_bytes(pipe.bytes)
