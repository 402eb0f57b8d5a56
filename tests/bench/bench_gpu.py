#!/usr/bin/env python3
"""Times flashscope's flash2 kernel and PyTorch's attention backends on one GPU in one run, then all of its kernels.

    bench_gpu.py PATH/TO/bench_gpu [--shapes 64:128:64 128:128:64] [--json FILE]

bfloat16 forward, hidden size 2048, 16k tokens, and the ladder of kernels at 16 heads, N = 4096, d = 64; TFLOP/s by the
papers' convention, 4 N^2 d a head, halved for causal.
Every figure is the median of event-timed launches over inputs that take turns. Needs PyTorch with CUDA.
"""

import argparse
import datetime
import json
import math
import statistics
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HIDDEN, TOKENS = 2048, 16384
SETS = 4  # input sets that take turns, so that no launch finds its own inputs in the cache
BACKENDS = {
    "FLASH": SDPBackend.FLASH_ATTENTION,
    "CUDNN": SDPBackend.CUDNN_ATTENTION,
    "EFFICIENT": SDPBackend.EFFICIENT_ATTENTION,
    "MATH": SDPBackend.MATH,
}


def median_seconds(launch, sets):
    for n in range(3):
        launch(sets[n % len(sets)])
    torch.cuda.synchronize()
    times = []
    for n in range(20):
        # The GPU waits a millisecond, so that what the CPU takes to launch is not between the events.
        torch.cuda._sleep(2_000_000)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launch(sets[n % len(sets)])
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
        if sum(times) > 0.6:
            break
    return statistics.median(times)


def eager(causal):
    def launch(qkv):
        q, k, v = qkv
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        if causal:
            n = q.shape[-2]
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1), -torch.inf)
        return torch.softmax(scores, dim=-1) @ v

    return launch


def peers(d, n, causal):
    shape = (TOKENS // n, HIDDEN // d, n, d)
    sets = [tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)) for _ in range(SETS)]
    flops = 4 * n * n * HIDDEN * (TOKENS // n) * (0.5 if causal else 1)
    row = {}
    for name, backend in BACKENDS.items():
        def launch(qkv):
            return F.scaled_dot_product_attention(*qkv, is_causal=causal)

        try:
            with sdpa_kernel(backend):
                row[name] = flops / median_seconds(launch, sets) / 1e12
        except RuntimeError as error:
            row[name] = None
            print(f"# {name} d={d} n={n}: {str(error).splitlines()[0][:100]}")
            torch.cuda.empty_cache()
    try:
        row["eager"] = flops / median_seconds(eager(causal), sets) / 1e12
    except RuntimeError as error:
        row["eager"] = None
        print(f"# eager d={d} n={n}: {str(error).splitlines()[0][:100]}")
    del sets
    torch.cuda.empty_cache()
    return row


def ladder(program):
    output = subprocess.run([program, "--ladder"], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    print("\n16 heads, N = 4096, d = 64, bfloat16\n")
    print("| kernel | mask | Br x Bc | ms | spread | TFLOP/s |")
    print("|---" * 6 + "|")
    for row in rows:
        mask = "causal" if row["causal"] else "full"
        blocks = f"{row['br']} x {row['bc']}" if row["kernel"].startswith("flash") else "-"
        times = f"{row['ms']:.3f} | {100 * row['spread']:.0f} %"
        print(f"| {row['kernel']} | {mask} | {blocks} | {times} | {row['tflops']:.3g} |", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shapes", nargs="+", default=["64:128:64", "128:128:64"], help="d:Br:Bc")
    parser.add_argument("--json", help="write every figure to this file")
    options = parser.parse_args()

    command = [options.program, "--hidden", str(HIDDEN), "--tokens", str(TOKENS), *options.shapes]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ours = [json.loads(line) for line in output.splitlines()]
    device, date = torch.cuda.get_device_name(), datetime.date.today().isoformat()
    print(f"{device}, {date}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}; TFLOP/s\n")
    columns = ["flashscope", *BACKENDS, "eager"]
    print("| d | N | mask | Br x Bc | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 4) + "|")
    rows = []
    for mine in sorted(ours, key=lambda r: (r["d"], r["causal"], r["n"])):
        row = {"flashscope": mine["tflops"], **peers(mine["d"], mine["n"], mine["causal"])}
        rows.append({**mine, "tflops_of": row})
        cells = " | ".join("-" if row[c] is None else f"{row[c]:.0f}" for c in columns)
        mask = "causal" if mine["causal"] else "full"
        print(f"| {mine['d']} | {mine['n']} | {mask} | {mine['br']} x {mine['bc']} | {cells} |", flush=True)
    ratios = [r["tflops_of"]["flashscope"] / r["tflops_of"]["FLASH"] for r in rows if r["tflops_of"]["FLASH"]]
    if ratios:
        mean = math.exp(statistics.fmean(math.log(x) for x in ratios))
        print(f"\nflashscope / FLASH, geometric mean of {len(ratios)}: {mean:.3f}")
    steps = ladder(options.program)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            figures = {"device": device, "date": date, "torch": torch.__version__, "rows": rows, "ladder": steps}
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
