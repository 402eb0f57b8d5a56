"""Write the inputs of one attention call to a file that flashscope opens. One file, needs only PyTorch (or NumPy).

    import flashscope_dump
    flashscope_dump.save("layer3.npz", q, k, v, mask=attn_mask, scale=scale)   # or "layer3.safetensors"
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=scale)

and then `flashscope layer3.npz`.
"""
import ctypes
import json
import os
import struct
import sys
import zipfile

# PyTorch's or NumPy's name of an element type: how a .npy and a .safetensors write it.
_TYPES = {
    "float64": ("<f8", "F64"), "float32": ("<f4", "F32"), "float16": ("<f2", "F16"), "bfloat16": ("<V2", "BF16"),
    "bool": ("|b1", "BOOL"), "uint8": ("|u1", "U8"), "int8": ("|i1", "I8"), "int16": ("<i2", "I16"),
    "int32": ("<i4", "I32"), "int64": ("<i8", "I64"),
}


def save(path, q, k, v, mask=None, scale=None, layout="bhnd", o=None, lse=None):
    """Write q, k, v and what else is given to `path`, an .npz or a .safetensors.

    q, k, v  tensors (batch, heads, N, d) with layout "bhnd", (batch, N, heads, d) with "bnhd"; the batch, or
             batch and heads, may be missing; k and v may have fewer heads (grouped-query attention).
    mask     boolean (True: may attend, as in PyTorch) or float (added to the scaled scores); any shape that
             broadcasts to (batch, heads, Nq, Nk), whatever the layout.
    scale    of the scores; 1 / sqrt(d) if it is not given.
    o, lse   the result to compare with: shaped like q, and (batch, heads, Nq) in natural logarithm.

    Raises ValueError for a name, layout, rank or element type that flashscope could not open. A file that is
    there is replaced only when the new one is whole.
    """
    path = os.fspath(path)
    if layout not in ("bhnd", "bnhd"):
        raise ValueError(f"layout: found {layout!r}, expected 'bhnd' or 'bnhd'")
    if not path.endswith((".npz", ".safetensors")):
        raise ValueError(f"path: found {path!r}, expected a name that ends in .npz or .safetensors")
    arrays = {}
    for name, tensor in (("q", q), ("k", k), ("v", v), ("mask", mask), ("o", o), ("lse", lse)):
        if tensor is None:
            continue
        arrays[name] = _raw(name, tensor)
        rank = len(arrays[name][1])
        if name in "qkv" and not 2 <= rank <= 4:
            raise ValueError(f"{name}: found {rank} dimensions, expected 2 to 4")
    if scale is not None:
        arrays["scale"] = ("float64", (), struct.pack("<d", float(scale)))

    unfinished = f"{path}.{os.getpid()}.part"
    try:
        (_write_npz if path.endswith(".npz") else _write_safetensors)(unfinished, arrays, layout)
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)


def _raw(name, tensor):
    """(element type, shape, bytes in C order, little-endian) of a PyTorch tensor or a NumPy array."""
    if hasattr(tensor, "data_ptr"):
        tensor = tensor.detach().to("cpu").contiguous().resolve_neg()
        kind = str(tensor.dtype).removeprefix("torch.")
        size = tensor.numel() * tensor.element_size()
        data = (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""
        if size:
            data.tensor = tensor  # the bytes are its own: it must live as long as they do
        if sys.byteorder == "big" and size and tensor.element_size() > 1:
            raise ValueError("big-endian machines are not supported")
    else:
        kind = tensor.dtype.name
        if kind == "void16":  # how NumPy loads a bfloat16 array that was saved
            kind = "bfloat16"
        elif tensor.dtype.byteorder == ">" or (tensor.dtype.byteorder == "=" and sys.byteorder == "big"):
            tensor = tensor.astype(tensor.dtype.newbyteorder("<"))
        data = tensor.tobytes()
    if kind not in _TYPES:
        raise ValueError(f"{name}: found element type {kind}, expected one of {', '.join(_TYPES)}")
    return kind, tuple(tensor.shape), data


def _npy(descr, shape):
    """The header of a .npy, version 1; the data that follow start on a multiple of 64 bytes."""
    shape = "(" + "".join(f"{n}, " for n in shape).rstrip() + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def _write_npz(path, arrays, layout):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        def add(name, header, data):
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                member.write(header)
                member.write(memoryview(data).cast("B"))

        for name, (kind, shape, data) in arrays.items():
            add(name, _npy(_TYPES[kind][0], shape), data)
        add("layout", _npy(f"<U{len(layout)}", ()), layout.encode("utf-32-le"))


def _write_safetensors(path, arrays, layout):
    header, offset = {"__metadata__": {"layout": layout}}, 0
    for name, (kind, shape, data) in arrays.items():
        size = memoryview(data).nbytes
        header[name] = {"dtype": _TYPES[kind][1], "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in arrays.values():
            out.write(data)
