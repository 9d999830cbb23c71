"""The memory-bound kernels of the benchmark, in Triton's surface. tkc compiles this file as it is; Triton imports it."""
import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, o, sx, so, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * sx + c, mask=c < n, other=-float("inf")).to(tl.float32)
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    tl.store(o + r * so + c, (e / tl.sum(e, 0)).to(o.dtype.element_ty), mask=c < n)


@triton.jit
def layer_norm(x, o, w, b, s, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * s + c, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(m, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    g = tl.load(w + c, mask=m).to(tl.float32)
    h = tl.load(b + c, mask=m).to(tl.float32)
    tl.store(o + r * s + c, (d * rstd * g + h).to(o.dtype.element_ty), mask=m)


@triton.jit
def total(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))
