"""Files that the fuzz targets start from. Usage: make_corpus.py (writes corpus/ beside itself)."""
import base64
import io
import json
import pathlib

import numpy as np

here = pathlib.Path(__file__).parent
cases = here.parent / "data" / "cases"


def put(folder, name, data):
    (here / "corpus" / folder).mkdir(parents=True, exist_ok=True)
    (here / "corpus" / folder / name).write_bytes(data)


for case, folder in (("open-18-npy-variants", "npy"), ("open-19-safetensors-malformed", "safetensors")):
    files = json.loads((cases / f"{case}.json").read_text())["inputs"]["files_base64"]
    for name, text in files.items():
        put(folder, f"{name}.{folder}", base64.b64decode(text))

tensors = {name: np.arange(n, dtype="<f4").reshape(shape) for name, n, shape in
           (("q", 12, (3, 4)), ("k", 8, (2, 4)), ("v", 4, (2, 2)))}
more = {"mask": np.ones((3, 2), bool), "bias": np.zeros((1, 2), "<f2"), "scale": np.float64(0.5), "layout": "nhd",
        "o": np.zeros((3, 2), "<f4"), "lse": np.zeros(3)}
for name, write, arrays in (("tensors", np.savez, tensors), ("everything", np.savez_compressed, {**tensors, **more})):
    out = io.BytesIO()
    write(out, **arrays)
    put("npz", name + ".npz", out.getvalue())
