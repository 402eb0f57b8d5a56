#!/usr/bin/env python3
"""What the CPU run is measured against: PyTorch's scaled_dot_product_attention and a NumPy listing of
Algorithm 1 (Dao et al. 2022), one head, N = 4096, d = 64, float32, on the same two threads.

    python3 -m venv build/bench-venv && build/bench-venv/bin/pip install torch numpy
    build/bench-venv/bin/python tests/bench/attention_cpu.py
"""

import os

THREADS = 2
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(THREADS)

import statistics
import time

import numpy as np

N, D = 4096, 64


def algorithm_1(q, k, v, br, bc, causal):
    """Algorithm 1 of the first paper: K, V outside, Q inside; O kept normalised."""
    n, d = q.shape
    scale = 1 / np.sqrt(d, dtype=q.dtype)
    o = np.zeros_like(v)
    l = np.zeros(n, q.dtype)
    m = np.full(n, -np.inf, q.dtype)
    for c in range(0, n, bc):
        kj, vj = k[c : c + bc], v[c : c + bc]
        for r in range(0, n, br):
            rows = slice(r, min(r + br, n))
            if causal and c > rows.stop - 1:
                continue
            s = q[rows] @ kj.T * scale
            if causal:
                keys = np.arange(c, c + len(kj))
                s[keys[None, :] > np.arange(rows.start, rows.stop)[:, None]] = -np.inf
            m_new = np.maximum(m[rows], s.max(axis=1))
            p = np.exp(s - m_new[:, None])
            alpha = np.exp(m[rows] - m_new)
            l_new = alpha * l[rows] + p.sum(axis=1)
            o[rows] = ((alpha * l[rows])[:, None] * o[rows] + p @ vj) / l_new[:, None]
            l[rows], m[rows] = l_new, m_new
    return o


def report(name, run, repeats):
    run()
    seconds, busy = [], []
    for _ in range(repeats):
        start, start_busy = time.perf_counter(), time.process_time()
        run()
        seconds.append(time.perf_counter() - start)
        busy.append(time.process_time() - start_busy)
    print(
        f"{name:28} median {statistics.median(seconds) * 1e3:8.2f} ms   least {min(seconds) * 1e3:8.2f}"
        f"   most {max(seconds) * 1e3:8.2f}   processor time of all threads, median {statistics.median(busy) * 1e3:8.2f}"
        f"   ({repeats} runs)"
    )


def main():
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((N, D), dtype=np.float32) for _ in range(3))
    print(f"N {N}, d {D}, float32, {THREADS} threads")
    print(f"numpy {np.__version__}")
    for causal in (False, True):
        name = "causal" if causal else "full"
        report(f"numpy/algorithm 1/{name}", lambda: algorithm_1(q, k, v, 64, 196, causal), 9)
    try:
        import torch
    except ImportError as error:
        print(f"torch is missing: {error}")
        return
    torch.set_num_threads(THREADS)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    tensors = [torch.from_numpy(x)[None, None] for x in (q, k, v)]
    for causal in (False, True):
        name = "causal" if causal else "full"
        sdpa = torch.nn.functional.scaled_dot_product_attention
        with torch.inference_mode():
            error = np.abs(sdpa(*tensors, is_causal=causal)[0, 0].numpy() - algorithm_1(q, k, v, 64, 196, causal)).max()
            assert error < 1e-5, error
            report(f"torch/sdpa/{name}", lambda: sdpa(*tensors, is_causal=causal), 51)


if __name__ == "__main__":
    main()
