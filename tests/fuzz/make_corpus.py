"""Files that the fuzz targets start from. Usage: make_corpus.py PROGRAM (writes corpus/ beside itself)."""
import base64
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

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

# The session.json of sessions of the arrays that session_fuzz.cpp has.
rules = ("--causal --window 3,2 --lengths 6,4 --documents 2,4 --prefix 2 --alibi 0.5,0.25 --softcap 5 "
         "--algorithm flash1 --defect finite-sentinel=-10000,add --numerics tensor-core --sram 64").split()
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "s.fscope"

    def run(*options):
        command = [sys.argv[1], "run", "--device", "cpu", "--save", path, *options]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode not in (0, 3):  # 3: the defect shows
            sys.exit(f"{command} failed")
        return zipfile.ZipFile(path).read("session.json")

    random = "--random 1 --n 6 --d 2 --heads 2".split()
    put("session", "plain.json", run(*random))
    put("session", "rules.json", run(*random, *rules))
    put("session", "two_runs.json", run("--input", path, "--guard", "none"))
put("session", "deep.json", b'{"format": ' + b"[" * 1000)
