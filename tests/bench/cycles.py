"""How many cycles of one launch the tensor cores are busy for: a figure that the power limit does not move.

    python3 tests/bench/cycles.py --tkc build/tkc [--only d64]

Needs an NVIDIA GPU, torch, triton and Nsight Compute (ncu). For each case: the library's kernel, then tkc's configurations; the
share is the cycles that the products need at full rate over sm__cycles_elapsed.max.
"""
import argparse
import csv
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
METRICS = "sm__cycles_elapsed.max,smsp__issue_active.avg.pct_of_peak_sustained_elapsed"
RATE = 4096  # floating-point operations on f16 per multiprocessor and cycle; tf32: half
PRODUCTS = (("gemm f16", 1024, (64, 128, 64, 4, 8)), ("gemm f16", 4096, (128, 256, 64, 8, 4)), ("gemm f16", 8192, (128, 256, 64, 8, 4)),
            ("gemm tf32", 4096, (256, 128, 32, 8, 4)))
ATTENTION = {64: ((256, 64, 16, 3, True), (256, 64, 16, 3, False), (128, 128, 8, 3, False), (64, 128, 4, 3, True), (64, 128, 4, 3, False), (64, 128, 4, 2, True), (64, 64, 4, 3, True), (64, 64, 4, 3, False)),
             128: ((128, 128, 8, 2, False), (128, 128, 8, 2, True), (64, 64, 4, 3, True), (64, 64, 4, 3, False), (64, 64, 4, 2, True))}


def cases():
    """Title, what is multiplied, its size, ideal cycles on one multiprocessor, configuration (None: the library's)."""
    for title, n, tile in PRODUCTS:
        ideal = 2 * n ** 3 / RATE * (2 if "tf32" in title else 1)
        for configuration in (None, tile):
            yield f"{title} {n}", title, n, ideal, configuration
    for d, tiles in ATTENTION.items():
        for t in (2048, 8192):
            for causal in (False, True):
                ideal = 4 * 16 * 32768 * t * d / RATE / (2 if causal else 1)
                for configuration in (None,) + tiles:
                    yield f"attention d{d} T{t}" + (" causal" if causal else ""), (d, causal), t, ideal, configuration


def prepare(tkc, what, size, configuration):
    """A function that launches one kernel."""
    import torch
    import triton
    from torch.nn.attention import SDPBackend, sdpa_kernel
    sys.path.insert(0, HERE)
    from common import Kernel
    if isinstance(what, str):
        torch.backends.cuda.matmul.allow_tf32 = True
        dtype = torch.float32 if "tf32" in what else torch.float16
        a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
        c = torch.empty_like(a)
        if not configuration:
            return lambda: torch.matmul(a, b, out=c)
        bm, bn, bk, warps, stages = configuration
        import triton.language as tl
        kernel = Kernel(tkc, "gemm", [a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride()],
                        dict(BM=bm, BN=bn, BK=bk, GROUP=8, ACC=tl.float32), warps, stages).load()
        return lambda: kernel(triton.cdiv(size, bm) * triton.cdiv(size, bn))
    d, causal = what
    heads = 32768 // size * 16
    q, k, v = (torch.randn(heads // 16, 16, size, d, device="cuda", dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    if not configuration:
        def library():
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return library
    bm, bn, warps, stages, lazy = configuration
    kernel = Kernel(tkc, "attention", [q, k, v, o, d ** -0.5, size], dict(D=d, BM=bm, BN=bn, CAUSAL=causal, LAZY=lazy), warps,
                    stages).load()
    return lambda: kernel((size // bm, heads))


def launch(o):
    """Under ncu: one launch of each case is seen, after two that are not."""
    import torch
    for title, what, size, _, configuration in cases():
        if o.only in title:
            run = prepare(o.tkc, what, size, configuration)
            run()
            run()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            run()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tkc", required=True)
    p.add_argument("--only", default="", help="what a case's title contains")
    p.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.launch:
        return launch(o)
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv", "--metrics", METRICS, sys.executable,
               os.path.abspath(__file__), "--launch", "--tkc", o.tkc, "--only", o.only]
    r = subprocess.run(command, capture_output=True, text=True)
    lines = [x for x in r.stdout.splitlines() if x.startswith('"')]
    seen = {}
    for row in csv.DictReader(lines):
        seen.setdefault(int(row["ID"]), {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    wanted = [c for c in cases() if o.only in c[0]]
    if len(seen) != len(wanted):
        sys.exit(f"cycles.py: {len(seen)} kernels for {len(wanted)} cases\n{r.stderr[-1000:]}{r.stdout[-1000:]}")
    import torch
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    for (title, _, _, ideal, configuration), (_, x) in zip(wanted, sorted(seen.items())):
        cycles, issue = (x[m] for m in METRICS.split(","))
        if not configuration:
            library = cycles
        name = " ".join(str(v) for v in configuration) if configuration else "library"
        print(f"{title:28} {name:24} busy {100 * ideal / multiprocessors / cycles:5.1f} %  issue slots {issue:5.1f} %  "
              f"library's cycles / these {library / cycles:.3f}")


if __name__ == "__main__":
    main()
