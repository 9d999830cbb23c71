import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def place(tile, rows, cols, GROUP: tl.constexpr):
    in_group = GROUP * cols
    first = (tile // in_group) * GROUP
    size = min(rows - first, GROUP)
    return first + (tile % in_group) % size, (tile % in_group) // size


@triton.jit
def block_of_product(a, b, at_m, at_n, K):
    BM: tl.constexpr = a.block_shape[0]
    BK: tl.constexpr = a.block_shape[1]
    BN: tl.constexpr = b.block_shape[1]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(a.load([at_m, k * BK]), b.load([k * BK, at_n]), acc)
    return acc


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
                      PROGRAMS: tl.constexpr):
    tl.static_assert(isinstance(a, tl.tensor_descriptor) and a.dtype == b.dtype)
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), rows * cols, PROGRAMS):
        row, col = place(tile, rows, cols, GROUP)
        acc = block_of_product(a, b, row * BM, col * BN, K)
        c.store([row * BM, col * BN], acc.to(c.dtype))


def matmul(a, b, c, sms):
    BM, BN, BK = 64, 64, 32
    descriptors = [TensorDescriptor.from_tensor(t, s) for t, s in ((a, [BM, BK]), (b, [BK, BN]), (c, [BM, BN]))]
    matmul_persistent[(sms,)](*descriptors, *c.shape, a.shape[1], BM, BN, BK, 8, sms, num_warps=4)
