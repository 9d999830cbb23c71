"""Matrix products and attention: tkc beside Triton and cuBLAS or cuDNN, on the same buffers, in one process.

    python3 tests/bench/gemm.py --tkc build/tkc [--sizes 1024,4096] [--only f16,attention] [--check-only] [--json FILE]

Needs an NVIDIA GPU of capability 9.0, torch and triton. Every configuration of tkc's is first compared with float64 on random
data, with its output poisoned before; then the quickest configuration of each side is timed: medians of triton.testing.do_bench
(which flushes L2) over rounds in which the sides take turns in random order. --check-only compares on more shapes, also such as
do not divide the tiles, and times nothing.
"""
import argparse
import json
import math
import os
import subprocess
import sys

import torch
import triton
import triton.language as tl
from triton.testing import do_bench
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernels
from common import Kernel, compile_all, error, fastest, interleaved, poison, wide

SIZES = (1024, 2048, 4096, 8192)
ODD = ((33, 47, 65), (257, 129, 1), (100, 300, 200), (1, 1000, 24))  # M, N, K
GROUP = 8
# (BM, BN, bytes of a row of a tile along K, warps, stages)
TILES = ((128, 256, 128, 8, 3), (128, 256, 128, 8, 4), (256, 128, 128, 8, 3), (256, 128, 128, 8, 4), (128, 128, 128, 8, 5),
         (128, 128, 128, 4, 4), (128, 128, 256, 8, 3), (64, 256, 128, 4, 4), (64, 128, 128, 4, 4), (64, 128, 128, 4, 8),
         (64, 64, 128, 4, 8))
PERSISTENT = ((128, 256, 128, 8, 3), (128, 256, 128, 8, 4), (256, 128, 128, 8, 3), (256, 128, 128, 8, 4))
# (BM, BN, warps, stages)
ATTENTION = ((128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 8, 4), (64, 64, 4, 3), (64, 128, 4, 2), (64, 128, 4, 3), (256, 64, 16, 3), (256, 64, 16, 4))


class Type:
    """What is multiplied: element types of operands, result and sum, the error allowed (int8 is exact), whether B lies by rows,
    the sizes that are timed."""

    def __init__(self, name, dtype, out, acc, limit, rows, sizes):
        self.name, self.dtype, self.out, self.acc, self.limit, self.rows, self.sizes = name, dtype, out, acc, limit, rows, sizes
        self.bytes = torch.empty(0, dtype=dtype).element_size()

    def matrix(self, m, n):
        if self.dtype == torch.int8:
            return torch.randint(-100, 101, (m, n), device="cuda", dtype=torch.int8)
        return torch.randn(m, n, device="cuda").to(self.dtype)

    def operands(self, m, n, k):
        """A (m, k) by rows, B (k, n) by rows or by columns, C (m, n)."""
        b = self.matrix(k, n) if self.rows else self.matrix(n, k).t()
        return self.matrix(m, k), b, torch.empty(m, n, device="cuda", dtype=self.out)

    def library(self, a, b, c):
        """cuBLAS on the same buffers."""
        if self.dtype == torch.float8_e4m3fn:
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=self.out, use_fast_accum=True)
        if self.dtype == torch.int8:
            return lambda: torch._int_mm(a, b)
        return lambda: torch.matmul(a, b, out=c)

    def configurations(self, tiles):
        for bm, bn, row, warps, stages in tiles:
            yield dict(BM=bm, BN=bn, BK=row // self.bytes, GROUP=GROUP, ACC=self.acc), warps, stages


TYPES = (Type("f16", torch.float16, torch.float16, tl.float32, 5e-3, True, SIZES),
         Type("bf16", torch.bfloat16, torch.bfloat16, tl.float32, 5e-3, True, SIZES),
         Type("fp8", torch.float8_e4m3fn, torch.bfloat16, tl.float32, 5e-3, False, (4096, 8192)),
         Type("int8", torch.int8, torch.int32, tl.int32, 0.0, False, (4096, 8192)),
         Type("tf32", torch.float32, torch.float32, tl.float32, 1e-3, True, (4096, 8192)))


class Run:
    """One kernel on one set of buffers in one configuration, on both sides."""

    def __init__(self, tkc, name, args, constants, warps, stages, grid):
        self.label = " ".join(str(v) for k, v in constants.items() if k in ("BM", "BN", "BK")) + f" w{warps} s{stages}"
        self.label += " lazy" if constants.get("LAZY") else ""
        self.label += " persistent" if name.endswith("_persistent") else ""
        self.kernel = Kernel(tkc, name, args, constants, warps, stages)
        self.mine = lambda: self.kernel(grid)
        launch = getattr(kernels, name)[grid if isinstance(grid, tuple) else (grid,)]
        self.theirs = lambda: launch(*args, **constants, num_warps=warps, num_stages=stages)


def gemm_runs(tkc, kind, a, b, c):
    m, k = a.shape
    n = b.shape[1]
    args = [a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()]
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    for name, tiles in (("gemm", TILES), ("gemm_persistent", PERSISTENT)):
        for constants, warps, stages in kind.configurations(tiles):
            blocks = triton.cdiv(m, constants["BM"]) * triton.cdiv(n, constants["BN"])
            yield Run(tkc, name, args, constants, warps, stages, blocks if name == "gemm" else min(blocks, programs))


def attention_runs(tkc, q, k, v, o, causal):
    b, h, t, d = q.shape
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    for bm, bn, warps, stages in ATTENTION:
        constants = dict(D=d, BM=bm, BN=bn, CAUSAL=causal)
        if t % bm or t % bn:
            continue
        for lazy in (False, True):
            yield Run(tkc, "attention", [q, k, v, o, d ** -0.5, t], dict(constants, LAZY=lazy), warps, stages, (t // bm, b * h))
        if warps >= 8:
            yield Run(tkc, "attention_persistent", [q, k, v, o, b * h, d ** -0.5, t], constants, warps, stages,
                      min(programs, t // bm * b * h))


class Board:
    """Prints rows, counts what is wrong, collects the JSON."""

    def __init__(self, o):
        self.o, self.rows, self.wrong, self.failed = o, [], 0, 0

    def right(self, title, runs, out, compare, limit):
        """The runs whose kernel loads and computes what `compare` accepts; the worst error of all of tkc's."""
        runs = list(runs)
        compile_all([r.kernel for r in runs])
        good, worst = [], 0.0
        for r in runs:
            try:
                r.kernel.load()
                poison(out)
                r.mine()
                torch.cuda.synchronize()
            except (subprocess.CalledProcessError, RuntimeError) as e:
                print(f"{title}: {r.label}: tkc: {str(e).splitlines()[0][:150]}", flush=True)
                continue
            e = compare()
            worst = max(worst, e)
            if e > limit:
                self.wrong += 1
                print(f"{title}: {r.label}: WRONG, error {e:.2e}", flush=True)
            else:
                good.append(r)
        self.failed += not good
        return runs, good, worst

    def row(self, title, flops, runs, out, compare, limit, library):
        runs, good, worst = self.right(title, runs, out, compare, limit)
        if self.o.check_only:
            print(f"{title:32} {len(good)} of {len(runs)} right, error {worst:.1e}", flush=True)
            return
        theirs = []
        for r in runs:
            try:
                r.theirs()
                torch.cuda.synchronize()
                theirs.append((r.label, r.theirs))
            except Exception as e:  # what Triton raises for a configuration that does not fit
                print(f"{title}: {r.label}: Triton: {str(e).splitlines()[0][:150]}", flush=True)
        best = {"library": ("", library)}
        if self.o.each:
            for r in good:
                speed = flops / do_bench(r.mine, warmup=5, rep=20, return_mode="median") / 1e9
                print(f"    {r.label:32} {speed:8.1f}", flush=True)
        if good:
            best["tkc"] = fastest([(r.label, r.mine) for r in good])
        if theirs:
            best["triton"] = fastest(theirs)
        ms = interleaved({k: v[1] for k, v in best.items()}, self.o.rounds)
        speed = {k: flops / v / 1e9 for k, v in ms.items()}
        ratio = speed.get("tkc", 0) / max(v for k, v in speed.items() if k != "tkc")
        print(f"{title:32} " + " ".join(f"{speed.get(k, 0):8.1f}" for k in ("tkc", "triton", "library")) +
              f" {ratio:6.3f}  {worst:8.1e}  {best.get('tkc', ('none',))[0]} / {best.get('triton', ('none',))[0]}", flush=True)
        self.rows.append(dict(kernel=title, **speed, ratio=ratio, error=worst, configuration={k: v[0] for k, v in best.items()}))


def gemm_rows(board, kind, shapes):
    torch.backends.cuda.matmul.allow_tf32 = True
    for m, n, k in shapes:
        a, b, c = kind.operands(m, n, k)
        want = wide(a) @ wide(b)
        title = f"gemm {kind.name} " + (f"{m}" if m == n == k else f"{m}x{n}x{k}")
        board.row(title, 2 * m * n * k, gemm_runs(board.o.tkc, kind, a, b, c), c, lambda: error(c, want), kind.limit,
                  kind.library(a, b, c))


def attention_reference(q, k, v, causal):
    """In float64, of the first and the last head."""
    heads = ((0, 0), (q.shape[0] - 1, q.shape[1] - 1))
    out = []
    for i, h in heads:
        s = q[i, h].double() @ k[i, h].double().t() * q.shape[3] ** -0.5
        if causal:
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)
        out.append(torch.softmax(s, 1) @ v[i, h].double())
    return heads, torch.stack(out)


def attention_rows(board, lengths):
    for d in (64, 128):
        for t in lengths:
            b, h = max(1, 32768 // t), 16
            q, k, v = (torch.randn(b, h, t, d, device="cuda", dtype=torch.float16) for _ in range(3))
            o = torch.empty_like(q)
            for causal in (False, True):
                heads, want = attention_reference(q, k, v, causal)

                def compare():
                    # The other heads: none may be left out.
                    if not torch.isfinite(o).all():
                        return math.inf
                    return error(torch.stack([o[i, j] for i, j in heads]), want)

                def library():
                    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

                flops = 4 * b * h * t * t * d // (2 if causal else 1)
                board.row(f"attention f16 d{d} T{t}" + (" causal" if causal else ""), flops,
                          attention_runs(board.o.tkc, q, k, v, o, causal), o, compare, 5e-3, library)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tkc", required=True)
    p.add_argument("--sizes", help="of the matrices, e.g. 1024,4096; default: those that each type is judged by")
    p.add_argument("--lengths", default="2048,8192", help="of attention's sequences")
    p.add_argument("--each", action="store_true", help="also tkc's speed in every configuration")
    p.add_argument("--only", help=f"some of {','.join(t.name for t in TYPES)},attention")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--check-only", action="store_true", help="compare with float64, on odd shapes too; time nothing")
    p.add_argument("--json")
    o = p.parse_args()
    only = o.only.split(",") if o.only else [t.name for t in TYPES] + ["attention"]
    unknown = [x for x in only if x not in [t.name for t in TYPES] + ["attention"]]
    if unknown:
        p.error(f"--only: there is no {unknown[0]}")
    torch.manual_seed(0)
    board = Board(o)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, triton {triton.__version__}")
    if not o.check_only:
        print(f"{'TFLOP/s':32} {'tkc':>8} {'Triton':>8} {'library':>8} {'ratio':>6}  {'error':>8}  tkc / Triton configuration")
    for kind in TYPES:
        if kind.name not in only:
            continue
        sizes = [int(x) for x in o.sizes.split(",")] if o.sizes else (512,) if o.check_only else kind.sizes
        gemm_rows(board, kind, [(s, s, s) for s in sizes] + list(ODD if o.check_only else ()))
    if "attention" in only:
        attention_rows(board, (1024,) if o.check_only else [int(x) for x in o.lengths.split(",")])
    if board.rows:
        mean = math.exp(sum(math.log(max(r["ratio"], 1e-3)) for r in board.rows) / len(board.rows))
        print(f"geometric mean of the ratios to the better of both {mean:.3f}, smallest {min(r['ratio'] for r in board.rows):.3f}")
    print(f"{board.wrong} wrong, {board.failed} without any configuration that runs")
    if o.json:
        json.dump(dict(device=torch.cuda.get_device_name(0), rows=board.rows, wrong=board.wrong), open(o.json, "w"), indent=1)
    sys.exit(1 if board.wrong or board.failed else 0)


if __name__ == "__main__":
    main()
