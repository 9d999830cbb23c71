"""Memory-bound kernels: tkc beside Triton and a device copy, on the same buffers, in one process.

    python3 tests/bench/memory.py --tkc build/tkc [--json FILE] [--quick]

Needs an NVIDIA GPU, torch and triton. Each kernel is first compared with float64 on random data, with its output poisoned
before; then timed: medians of triton.testing.do_bench (which flushes L2), both sides in turn, best configuration of each.
"""
import argparse
import json
import math
import os
import subprocess
import sys

import torch
import triton
from triton.testing import do_bench

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernels
from common import Kernel, error


def cases(quick):
    n = 1 << 27
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    o = torch.empty_like(x)
    yield ("add f32", "2^27", "add", [x, y, o, n], [(dict(B=b), w) for b in (512, 1024, 2048, 4096) for w in (4, 8)],
           lambda c: triton.cdiv(n, c["B"]), 12 * n, o, lambda: x + y, 1e-7)
    u, s = torch.rand(n, device="cuda"), torch.zeros(1, device="cuda")
    yield ("sum f32", "2^27", "total", [u, s, n], [(dict(B=b), w) for b in (1024, 4096, 8192) for w in (4, 8)],
           lambda c: triton.cdiv(n, c["B"]), 4 * n, s, lambda: u.double().sum().reshape(1), 1e-4)
    shapes = ((16384, 1024), (16384, 4096), (8192, 8192), (4096, 16384), (8192, 1000))
    for rows, cols in shapes[:1] if quick else shapes:
        block = triton.next_power_of_2(cols)
        configs = [(dict(B=block), w) for w in (1, 2, 4, 8, 16) if 32 <= block // (32 * w) or w >= 4]
        for dtype in (torch.float32, torch.float16):
            a = torch.randn(rows, cols, device="cuda", dtype=dtype)
            q = torch.empty_like(a)
            short = "f32" if dtype == torch.float32 else "f16"
            yield (f"softmax {short}", f"{rows}x{cols}", "softmax", [a, q, cols, cols, cols], configs, lambda c, r=rows: r,
                   2 * a.numel() * a.element_size(), q, lambda a=a: torch.softmax(a.double(), -1), 1e-6 if dtype == torch.float32 else 1e-3)
        w, b = torch.randn(cols, device="cuda", dtype=dtype), torch.randn(cols, device="cuda", dtype=dtype)
        yield ("layer_norm f16", f"{rows}x{cols}", "layer_norm", [a, q, w, b, cols, cols, 1e-5], configs, lambda c, r=rows: r,
               2 * a.numel() * 2, q, lambda a=a, w=w, b=b, n=cols: torch.nn.functional.layer_norm(a.double(), (n,), w.double(), b.double(), 1e-5), 2e-3)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tkc", required=True)
    p.add_argument("--json")
    p.add_argument("--quick", action="store_true")
    o = p.parse_args()
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    big = torch.empty(1 << 27, device="cuda")
    src = torch.randn(1 << 27, device="cuda")
    copy = 8 * src.numel() / do_bench(lambda: big.copy_(src), return_mode="median", rep=200) / 1e6
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, triton {triton.__version__}; device copy {copy:.0f} GB/s")
    print(f"{'kernel':16} {'size':12} {'tkc GB/s':>9} {'Triton':>9} {'ratio':>6}  {'error':>8}  tkc / Triton configuration")
    rows, failed = [], 0
    for title, size, name, args, configs, grid, nbytes, out, reference, limit in cases(o.quick):
        want = reference()
        sides = {"tkc": [], "triton": []}
        worst = 0.0
        for constants, warps in configs:
            try:
                mine = Kernel(o.tkc, name, args, constants, warps).load()
            except subprocess.CalledProcessError:
                failed += 1
                continue
            g = grid(constants)
            out.fill_(0 if name == "total" else float("nan"))
            mine(g)
            torch.cuda.synchronize()
            worst = max(worst, error(out, want))
            theirs = lambda: getattr(kernels, name)[(g,)](*args, *constants.values(), num_warps=warps)
            theirs()
            sides["tkc"].append((do_bench(lambda: mine(g), warmup=10, rep=40, return_mode="median"), constants, warps, lambda mine=mine, g=g: mine(g)))
            sides["triton"].append((do_bench(theirs, warmup=10, rep=40, return_mode="median"), constants, warps, theirs))
        best = {k: min(v, key=lambda t: t[0]) for k, v in sides.items()}
        times = {"tkc": [], "triton": []}
        for _ in range(5):
            for k in times:
                constants, warps = best[k][1], best[k][2]
                g = grid(constants)
                if k == "tkc":
                    fn = best[k][3]
                else:
                    fn = lambda: getattr(kernels, name)[(g,)](*args, *constants.values(), num_warps=warps)
                times[k].append(do_bench(fn, warmup=10, rep=60, return_mode="median"))
        speed = {k: nbytes / sorted(v)[len(v) // 2] / 1e6 for k, v in times.items()}
        ratio = speed["tkc"] / speed["triton"]
        wrong = worst > limit
        failed += wrong
        pick = " / ".join(f"{best[k][1]} w{best[k][2]}" for k in ("tkc", "triton"))
        print(f"{title:16} {size:12} {speed['tkc']:9.0f} {speed['triton']:9.0f} {ratio:6.3f}  {worst:8.1e}{' WRONG' if wrong else ''}  {pick}", flush=True)
        rows.append(dict(kernel=title, size=size, tkc=speed["tkc"], triton=speed["triton"], ratio=ratio, error=worst))
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    print(f"geometric mean of the ratios {mean:.3f}, smallest {min(r['ratio'] for r in rows):.3f}, {failed} wrong")
    if o.json:
        json.dump(dict(device=torch.cuda.get_device_name(0), copy=copy, rows=rows, mean=mean), open(o.json, "w"), indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
