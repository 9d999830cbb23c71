"""Kernels in the forms of public code (forms_kernels.py): tkc beside Triton, on the same buffers, in one process.

    python3 tests/bench/forms.py --tkc build/tkc [--only attention,experts]

Needs an NVIDIA GPU, torch and triton. Every configuration of tkc's is first compared with the same in torch, its output poisoned
before; then the best configuration of each side is timed, in turn.
"""
import argparse
import math
import os
import subprocess
import sys

import torch
import triton

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import forms_kernels
from common import Kernel, error, fastest, interleaved, poison


def normal(*shape, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).half()


def whole(low, high, *shape, dtype=torch.int32):
    return torch.randint(low, high, shape, device="cuda", dtype=torch.int64).to(dtype)


def tiles(m, n, **more):
    """Configurations of products: BM, BN, BK, warps, stages; a grid of tiles in one axis."""
    for bm, bn, bk, warps, stages in ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 64, 4, 3), (64, 128, 64, 4, 4)):
        yield dict(BM=bm, BN=bn, BK=bk, **more), warps, stages, (triton.cdiv(m, bm) * triton.cdiv(n, bn), 1)


def weight_tiles(m, n, **more):
    shapes = ((16, 128, 128, 4, 4), (16, 64, 128, 4, 4), (16, 128, 64, 4, 5)) if m == 16 else (
        (128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (64, 128, 64, 4, 4), (128, 256, 64, 8, 3))
    for bm, bn, bk, warps, stages in shapes:
        yield dict(BM=bm, BN=bn, BK=bk, **more), warps, stages, (m // bm, n // bn)


def attention_tiles(t, heads, **more):
    shapes = ((128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 3)) + (((64, 128, 4, 3),) if "BIAS" in more else ())
    for bm, bn, warps, stages in shapes:
        yield dict(D=64, BM=bm, BN=bn, **more), warps, stages, (t // bm, heads)


def products(m, n, k):
    a, b, c = normal(m, k), normal(k, n), normal(m, n)
    strides = [*a.stride(), *b.stride(), *c.stride()]
    yield "product", "product", [a, b, c, m, n, k, *strides], tiles(m, n, GROUP=8), c, lambda: a.float() @ b.float()
    bias, residual = normal(n), normal(m, n)
    yield ("bias, gelu, residual", "product_with_residual", [a, b, c, bias, residual, m, n, k], tiles(m, n, GROUP=8), c,
           lambda: torch.nn.functional.gelu(a.float() @ b.float() + bias.float()) + residual.float())
    g = normal(k, n)
    yield ("gated", "gated", [a, b, g, c, m, n, k], list(tiles(m, n, GROUP=8))[1:], c,
           lambda: (a.float() @ b.float()) * torch.nn.functional.silu(a.float() @ g.float()))
    persistent = [(dict(x, PROGRAMS=132), w, s, (132, 1)) for x, w, s, _ in tiles(m, n, GROUP=8)]
    yield "persistent", "persistent", [a, b, c, m, n, k], persistent[:2], c, lambda: a.float() @ b.float()


def weights(m, n, k, per=128):
    a, c = normal(m, k), normal(m, n)
    w, s = whole(-127, 128, k, n, dtype=torch.int8), normal(n, scale=0.01)
    yield (f"i8 weights, {m} rows", "weights_i8", [a, w, s, c, m, n, k], weight_tiles(m, n), c, lambda: a.float() @ w.float() * s.float())
    packed, scales, zeros = whole(-2**31, 2**31, k // 8, n), normal(k // per, n, scale=0.01), whole(-2**31, 2**31, k // per, n // 8)
    nibbles = torch.arange(8, device="cuda") * 4

    def unpacked():
        y = (packed[:, None, :] >> nibbles[None, :, None] & 15).reshape(k, n).float()
        z = (zeros[:, :, None] >> nibbles & 15).reshape(k // per, n).float()
        return ((y - z.repeat_interleave(per, 0)) * scales.float().repeat_interleave(per, 0)).half().float()

    yield (f"i4 weights, {m} rows", "weights_i4", [a, packed, scales, zeros, c, m, n, k], weight_tiles(m, n, PER=per), c,
           lambda: a.float() @ unpacked())


def mixture(tokens, top, n, k, count):
    rows = tokens * top
    a, b, c = normal(tokens, k), normal(count, n, k), normal(rows, n)
    order = torch.randperm(rows, device="cuda").int()
    of_row = (torch.arange(rows, device="cuda") * count // rows)  # in that order
    configs = [(dict(BM=bm, BN=bn, BK=64, TOP=top), w, s, (n // bn, rows // bm))
               for bm, bn, w, s in ((64, 128, 4, 4), (64, 256, 4, 3), (128, 128, 8, 4))]

    def want():
        out = torch.empty(rows, n, device="cuda")
        for e in range(count):
            mine = order[of_row == e].long()
            out[mine] = a[mine // top].float() @ b[e].float().t()
        return out

    for x, w, s, grid in configs:
        expert = of_row[::x["BM"]].int().contiguous()
        yield f"experts, {x['BM']} x {x['BN']}", "experts", [a, b, order, expert, c, n, k, rows], [(x, w, s, grid)], c, want


def attentions(t, heads):
    q, k, v, o = (normal(heads, t, 64) for _ in range(4))
    lse = torch.empty(heads, t, device="cuda")
    attend = torch.nn.functional.scaled_dot_product_attention
    yield ("attention, causal", "attention_block_pointers", [q, k, v, o, lse, t, 0.125], attention_tiles(t, heads), o,
           lambda: attend(q.float(), k.float(), v.float(), is_causal=True))
    pages = torch.randperm(t // 64, device="cuda").int()
    bias = normal(heads, t, t) if t <= 2048 else q
    general = [q, k, v, o, bias, pages, t, 0.125]
    yield ("attention", "attention_general", general, attention_tiles(t, heads, BIAS=False, PAGED=False), o,
           lambda: attend(q.float(), k.float(), v.float()))
    if t <= 2048:
        yield ("attention, bias", "attention_general", general, attention_tiles(t, heads, BIAS=True, PAGED=False), o,
               lambda: attend(q.float(), k.float(), v.float(), attn_mask=bias.float()))
    there = (pages.long()[:, None] * 64 + torch.arange(64, device="cuda")).reshape(-1)
    yield ("attention, paged", "attention_general", general, list(attention_tiles(t, heads, BIAS=False, PAGED=True))[:2], o,
           lambda: attend(q.float(), k[:, there].float(), v[:, there].float()))


def convolutions(images, size, c, out):
    x, w, y = normal(images, size, size, c), normal(out, 3, 3, c, scale=0.05), normal(images, size, size, out)
    configs = [(dict(R=3, BM=bm, BN=bn, BK=64), 8, 3, (triton.cdiv(images * size * size, bm), out // bn)) for bm, bn in ((128, 128), (128, 256))]
    yield ("convolution 3 x 3", "convolution", [x, w, y, images, size, size, c, out], configs, y,
           lambda: torch.nn.functional.conv2d(x.float().permute(0, 3, 1, 2), w.float().permute(0, 3, 1, 2), padding=1).permute(0, 2, 3, 1))


def cases():
    yield from products(4096, 4096, 4096)
    yield from weights(16, 8192, 8192)
    yield from weights(4096, 4096, 4096)
    yield from mixture(8192, 2, 4096, 4096, 8)
    yield from attentions(2048, 64)
    yield from attentions(8192, 16)
    yield from convolutions(32, 56, 256, 256)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tkc", required=True)
    p.add_argument("--only", default="", help="words that a form's name has one of")
    o = p.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, triton {triton.__version__}")
    print(f"{'milliseconds':24} {'tkc':>8} {'Triton':>8} {'ratio':>6}  {'error':>8}  tkc / Triton configuration")
    wrong, ratios = 0, []
    for title, name, args, configs, out, want in cases():
        if not any(word in title for word in o.only.split(",")):
            continue
        expected, mine, theirs, worst = want(), [], [], 0.0
        for constants, warps, stages, grid in configs:
            label = " ".join(str(v) for k, v in constants.items() if k in ("BM", "BN", "BK")) + f" w{warps} s{stages}"
            try:
                kernel = Kernel(o.tkc, name, args, constants, warps, stages, forms_kernels).load()
                poison(out)
                kernel(grid)
                torch.cuda.synchronize()
                e = error(out.reshape(expected.shape), expected)
                worst = max(worst, e)
                wrong += not e < 5e-3
                mine.append((label, lambda kernel=kernel, grid=grid: kernel(grid)))
            except (subprocess.CalledProcessError, RuntimeError) as e:
                print(f"{title}: {label}: tkc: {str(e).splitlines()[0][:120]}")
            launch = getattr(forms_kernels, name)[grid]
            run = lambda launch=launch, c=constants, w=warps, s=stages: launch(*args, **c, num_warps=w, num_stages=s)
            try:
                run()
                torch.cuda.synchronize()
                theirs.append((label, run))
            except Exception as e:  # what Triton raises for a configuration that does not fit
                print(f"{title}: {label}: Triton: {str(e).splitlines()[0][:120]}")
        best = {"tkc": fastest(mine, finalists=2), "triton": fastest(theirs, finalists=2)}
        ms = interleaved({k: v[1] for k, v in best.items()}, 5)
        ratios.append(ms["triton"] / ms["tkc"])
        print(f"{title:24} {ms['tkc']:8.4f} {ms['triton']:8.4f} {ratios[-1]:6.3f}  {worst:8.1e}  {best['tkc'][0]} / {best['triton'][0]}", flush=True)
    print(f"geometric mean of Triton / tkc {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, smallest {min(ratios):.3f}; {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
