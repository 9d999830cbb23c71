"""The kernels of the benchmarks, in Triton's surface. tkc compiles this file as it is; Triton imports it."""
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


# ---- matrices: C = A B with any strides, in groups of rows; rows and columns past the end wrap around, K is masked

@triton.jit
def gemm_block(pid, a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
               GROUP: tl.constexpr, ACC: tl.constexpr):
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    first = pid // (GROUP * cols) * GROUP
    height = min(rows - first, GROUP)
    pm = first + pid % (GROUP * cols) % height
    pn = pid % (GROUP * cols) // height
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + (om % M)[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + (on % N)[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=ACC)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
        pa += BK * sak
        pb += BK * sbk
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def gemm(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
         ACC: tl.constexpr):
    gemm_block(tl.program_id(0), a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM, BN, BK, GROUP, ACC)


# The same by as many programs as there are multiprocessors, each of which makes one block after the other.

@triton.jit
def gemm_persistent(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    GROUP: tl.constexpr, ACC: tl.constexpr):
    for pid in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        gemm_block(pid, a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM, BN, BK, GROUP, ACC)


# ---- attention, forward: heads of T rows of D elements behind each other; T is a multiple of BM and BN

@triton.jit
def attention_step(q, k, v, at, acc, top, total, scale, rm, rn, rd, D: tl.constexpr, MASKED: tl.constexpr, LAZY: tl.constexpr):
    kt = tl.load(k + (at + rn)[None, :] * D + rd[:, None])
    s = tl.dot(q, kt)
    if MASKED:
        s = tl.where(rm[:, None] >= (at + rn)[None, :], s, -float("inf"))
    above = tl.maximum(top, tl.max(s, 1) * scale)
    if LAZY:  # what has been summed is scaled anew only when a row has grown by more than a factor of 256
        above = tl.where(above - top > 8, above, top)
    p = tl.exp2(s * scale - above[:, None])
    shrink = tl.exp2(top - above)
    total = total * shrink + tl.sum(p, 1)
    vt = tl.load(v + (at + rn)[:, None] * D + rd[None, :])
    acc = tl.dot(p.to(vt.dtype), vt, acc * shrink[:, None])
    return acc, above, total


# Programs that have most to do come first.

@triton.jit
def attention_rows(q, k, v, o, block, head, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, LAZY: tl.constexpr = False):
    start = block * BM
    head = head.to(tl.int64) * T * D
    rm = start + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    x = tl.load(q + head + rm[:, None] * D + rd[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    scale *= 1.44269504  # exp(x) is exp2(x / ln 2)
    full = T
    if CAUSAL:
        full = start // BN * BN
    for n in range(0, full, BN):
        acc, top, total = attention_step(x, k + head, v + head, n, acc, top, total, scale, rm, rn, rd, D, False, LAZY)
    if CAUSAL:
        for n in range(full, start + BM, BN):
            acc, top, total = attention_step(x, k + head, v + head, n, acc, top, total, scale, rm, rn, rd, D, True, LAZY)
    tl.store(o + head + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def attention(q, k, v, o, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, LAZY: tl.constexpr = False):
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    attention_rows(q, k, v, o, block, tl.program_id(1), scale, T, D, BM, BN, CAUSAL, LAZY)


@triton.jit
def attention_persistent(q, k, v, o, heads, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, LAZY: tl.constexpr = False):
    blocks = tl.cdiv(T, BM)
    for i in range(tl.program_id(0), blocks * heads, tl.num_programs(0)):
        attention_rows(q, k, v, o, blocks - 1 - i % blocks, i // blocks, scale, T, D, BM, BN, CAUSAL, LAZY)
