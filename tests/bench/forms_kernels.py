"""Kernels in the forms that public code has them in: pointers that the loop advances, `acc += tl.dot(..)`, tl.exp, masks, wraps."""
import triton
import triton.language as tl


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows = tl.cdiv(M, BM)
    columns = tl.cdiv(N, BN)
    group = pid // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    within = pid % (GROUP * columns)
    return first + within % height, within // height


@triton.jit
def product(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            GROUP: tl.constexpr):
    i, j = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = (i * BM + tl.arange(0, BM)) % M
    rn = (j * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(x, y)
        pa += BK * sak
        pb += BK * sbk
    om = i * BM + tl.arange(0, BM)
    on = j * BN + tl.arange(0, BN)
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def product_with_residual(a, b, c, bias, residual, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    i, j = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = i * BM + tl.arange(0, BM)
    rn = j * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(rm[:, None] < M) & ((k + rk)[None, :] < K), other=0.0)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=((k + rk)[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(x, y)
    acc += tl.load(bias + rn, mask=rn < N, other=0.0)[None, :].to(tl.float32)
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.70710678))
    there = (rm[:, None] < M) & (rn[None, :] < N)
    acc += tl.load(residual + rm[:, None] * N + rn[None, :], mask=there, other=0.0)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=there)


@triton.jit
def gated(a, b, g, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    i, j = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rm = i * BM + tl.arange(0, BM)
    rn = j * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    pg = g + rk[:, None] * N + rn[None, :]
    value = tl.zeros((BM, BN), dtype=tl.float32)
    gate = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa)
        value += tl.dot(x, tl.load(pb))
        gate += tl.dot(x, tl.load(pg))
        pa += BK
        pb += BK * N
        pg += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], (value * gate * tl.sigmoid(gate)).to(c.dtype.element_ty))


@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr):
    start = tl.program_id(0)
    rk = tl.arange(0, BK)
    behind = start - PROGRAMS
    for tile in tl.range(start, tl.cdiv(M, BM) * tl.cdiv(N, BN), PROGRAMS):
        i, j = tile_of(tile, M, N, BM, BN, GROUP)
        rm = i * BM + tl.arange(0, BM)
        rn = j * BN + tl.arange(0, BN)
        rm = tl.max_contiguous(tl.multiple_of(tl.where(rm < M, rm, 0), BM), BM)
        rn = tl.max_contiguous(tl.multiple_of(tl.where(rn < N, rn, 0), BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            x = tl.load(a + rm[:, None] * K + (k * BK + rk)[None, :], mask=rk[None, :] < K - k * BK, other=0.0)
            y = tl.load(b + (k * BK + rk)[:, None] * N + rn[None, :], mask=rk[:, None] < K - k * BK, other=0.0)
            acc = tl.dot(x, y, acc)
        behind += PROGRAMS
        i, j = tile_of(behind, M, N, BM, BN, GROUP)
        om = i * BM + tl.arange(0, BM)
        on = j * BN + tl.arange(0, BN)
        tl.store(c + om[:, None] * N + on[None, :], acc.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def weights_i8(a, b, scale, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa)
        acc += tl.dot(x, tl.load(pb).to(x.dtype))
        pa += BK
        pb += BK * N
    acc *= tl.load(scale + rn)[None, :].to(tl.float32)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def weights_i4(a, b, scales, zeros, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PER: tl.constexpr):
    """Eight weights in an i32, along K; PER rows share a scale and a zero."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + (rk[:, None] // 8) * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa)
        packed = tl.load(pb)
        group = k * BK // PER
        s = tl.load(scales + group * N + rn)
        z = tl.load(zeros + group * (N // 8) + rn // 8)
        z = (z >> (rn % 8 * 4)) & 15
        y = (packed >> (rk % 8 * 4)[:, None]) & 15
        acc += tl.dot(x, ((y - z[None, :]) * s[None, :]).to(x.dtype))
        pa += BK
        pb += BK // 8 * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def experts(a, b, order, expert, c, N, K, rows, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TOP: tl.constexpr):
    """Rows of a in the order of their experts, whose weights are [N, K] each; every BM rows belong to one."""
    j = tl.program_id(0)
    i = tl.program_id(1)
    row = tl.load(order + i * BM + tl.arange(0, BM))
    there = row < rows
    weights = b + tl.load(expert + i).to(tl.int64) * N * K
    rn = (j * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + (row[:, None] // TOP) * K + rk[None, :]
    pb = weights + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=there[:, None] & (rk[None, :] < K - k * BK), other=0.0)
        y = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(x, y)
        pa += BK
        pb += BK
    on = j * BN + tl.arange(0, BN)
    tl.store(c + row[:, None] * N + on[None, :], acc.to(c.dtype.element_ty), mask=there[:, None] & (on[None, :] < N))


@triton.jit
def over_keys(acc, total, top, x, kb, vb, lo, hi, start, scale, BM: tl.constexpr, BN: tl.constexpr, DIAGONAL: tl.constexpr):
    kb = tl.advance(kb, (0, lo))
    vb = tl.advance(vb, (lo, 0))
    for n in range(lo, hi, BN):
        n = tl.multiple_of(n, BN)
        s = tl.dot(x, tl.load(kb)) * scale
        if DIAGONAL:
            s += tl.where(start + tl.arange(0, BM)[:, None] >= n + tl.arange(0, BN)[None, :], 0, -1.0e6)
        above = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - above[:, None])
        shrink = tl.exp2(top - above)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(p.to(tl.float16), tl.load(vb), acc)
        top = above
        kb = tl.advance(kb, (0, BN))
        vb = tl.advance(vb, (BN, 0))
    return acc, total, top


@triton.jit
def attention_block_pointers(q, k, v, o, lse, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start = tl.program_id(0) * BM
    head = tl.program_id(1).to(tl.int64) * T * D
    qb = tl.make_block_ptr(q + head, (T, D), (D, 1), (start, 0), (BM, D), (1, 0))
    kb = tl.make_block_ptr(k + head, (D, T), (1, D), (0, 0), (D, BN), (0, 1))
    vb = tl.make_block_ptr(v + head, (T, D), (D, 1), (0, 0), (BN, D), (1, 0))
    ob = tl.make_block_ptr(o + head, (T, D), (D, 1), (start, 0), (BM, D), (1, 0))
    top = tl.zeros([BM], dtype=tl.float32) - float("inf")
    total = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    scale *= 1.44269504
    x = tl.load(qb)
    acc, total, top = over_keys(acc, total, top, x, kb, vb, 0, start, start, scale, BM, BN, False)
    acc, total, top = over_keys(acc, total, top, x, kb, vb, start, start + BM, start, scale, BM, BN, True)
    tl.store(lse + tl.program_id(1) * T + start + tl.arange(0, BM), top + tl.log2(total))
    tl.store(ob, (acc / total[:, None]).to(tl.float16))


@triton.jit
def attention_general(q, k, v, o, bias, pages, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BIAS: tl.constexpr,
                      PAGED: tl.constexpr):
    """By exp; plus a bias for each pair if BIAS; keys and values in pages of BN rows, which a table lists, if PAGED."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    x = tl.load(q + head * T * D + rm[:, None] * D + rd[None, :], mask=rm[:, None] < T, other=0.0)
    pk = k + head * T * D + rn[None, :] * D + rd[:, None]
    pv = v + head * T * D + rn[:, None] * D + rd[None, :]
    top = tl.zeros([BM], dtype=tl.float32) - float("inf")
    total = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    for n in range(0, T, BN):
        at = n
        if PAGED:
            at = tl.load(pages + n // BN) * BN
        kt = tl.load(pk + at * D) if PAGED else tl.load(pk)
        s = tl.dot(x, kt)
        s = s * scale
        if BIAS:
            s += tl.load(bias + head * T * T + rm[:, None] * T + (n + rn)[None, :])
        s = tl.where((n + rn)[None, :] < T, s, float("-inf"))
        above = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - above[:, None])
        shrink = tl.exp(top - above)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        vt = tl.load(pv + at * D) if PAGED else tl.load(pv)
        acc += tl.dot(p.to(vt.dtype), vt)
        top = above
        if not PAGED:
            pk += BN * D
            pv += BN * D
    acc = acc / total[:, None]
    tl.store(o + head * T * D + rm[:, None] * D + rd[None, :], acc.to(tl.float16), mask=rm[:, None] < T)


@triton.jit
def convolution(x, w, y, IMAGES, H, W, C, OUT, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """R x R, padded to the same size; images [n, H, W, C], weights [OUT, R, R, C]."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    image = rm // (H * W)
    row = rm % (H * W) // W
    column = rm % W
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for tap in range(R * R):
        i = row + tap // R - R // 2
        j = column + tap % R - R // 2
        inside = (i >= 0) & (i < H) & (j >= 0) & (j < W) & (image < IMAGES)
        for first in range(0, C, BK):
            c = first + tl.arange(0, BK)
            a = tl.load(x + ((image * H + i) * W + j)[:, None] * C + c[None, :], mask=inside[:, None] & (c[None, :] < C), other=0.0)
            b = tl.load(w + rn[None, :] * (R * R * C) + tap * C + c[:, None], mask=(rn[None, :] < OUT) & (c[:, None] < C), other=0.0)
            acc += tl.dot(a, b)
    tl.store(y + rm[:, None] * OUT + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < IMAGES * H * W) & (rn[None, :] < OUT))
