"""What the benchmarks share: kernels compiled by tkc and launched through the driver, errors, and fair timing."""
import concurrent.futures
import ctypes
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import torch
from triton.testing import do_bench

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import kernels

TYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8e4nv",
         torch.int8: "i8", torch.int32: "i32"}
SHARED_WITHOUT_ASKING = 48 * 1024  # bytes of dynamic shared memory that need no attribute
MAX_DYNAMIC_SHARED = 8             # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
# CUtensorMapDataType and CUtensorMapSwizzle
MAP_TYPES = {"i8": 0, "u8": 0, "f8e4m3": 0, "f8e5m2": 0, "i32": 3, "f16": 6, "f32": 7, "bf16": 9, "tf32": 11}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_BYTES, MAP_ALIGN, L2_PROMOTION_128 = 128, 64, 2


class Programs(ctypes.Structure):
    """The last parameter of a kernel whose blocks run several programs."""
    _fields_ = [("counter", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3), ("turns", ctypes.c_uint32)]


cuda = ctypes.CDLL("libcuda.so.1")


def check(status):
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA: {text.value.decode() if text.value else status}")


def tensor_map(about, names, addresses):
    """The tensor map that a line of metadata describes, made from arguments by name: 128 bytes in a buffer, and where."""
    kept = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
    at = -(-ctypes.addressof(kept) // MAP_ALIGN) * MAP_ALIGN
    box = [int(x) for x in about["box"].split(",")]
    n = len(box)
    sizes, strides = (eval(f"({about[k]},)", {}, names) for k in ("sizes", "strides"))
    width = {"f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "i32": 4}.get(about["dtype"], 1)
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    check(cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), MAP_TYPES[about["dtype"]], n, ctypes.c_void_p(addresses[about["param"]]), (u64 * n)(*sizes),
        (u64 * n)(*[s * width for s in strides[1:]], 0), (u32 * n)(*box), (u32 * n)(*[1] * n), 0,
        MAP_SWIZZLES[about["swizzle"]], L2_PROMOTION_128, 0))
    return kept, at


def constant(value):
    """A constexpr as tkc reads it: dtypes by name, everything else as Python writes it."""
    return str(getattr(value, "name", value))


class Kernel:
    """A kernel of kernels.py, or another module, compiled by tkc for the arguments at hand, launched through the driver."""

    texts, functions = {}, {}

    def __init__(self, tkc, name, args, constants, warps, stages=0, module=kernels):
        self.tkc, self.name, self.constants, self.warps, self.stages = tkc, name, constants, warps, stages
        self.source = module.__file__
        params = [p for p in getattr(module, name).arg_names if p not in constants]
        self.types = []
        for p, a in zip(params, args):
            if isinstance(a, torch.Tensor):
                self.types.append(f"{p}=*{TYPES[a.dtype]}" + (":16" if a.data_ptr() % 16 == 0 else ""))
            elif isinstance(a, int):
                self.types.append(f"{p}=i32" + (":16" if a % 16 == 0 else ":1" if a == 1 else ""))
            else:
                self.types.append(f"{p}=fp32")
        self.key = (name, tuple(self.types), tuple((k, constant(v)) for k, v in constants.items()), warps, stages)
        self.values = []
        for a in args:
            if isinstance(a, torch.Tensor):
                self.values.append(ctypes.c_uint64(a.data_ptr()))
            elif isinstance(a, float):
                self.values.append(ctypes.c_float(a))
            elif a != 1:
                self.values.append(ctypes.c_int32(a))
        self.names = {p: a for p, a in zip(params, args) if isinstance(a, int)}
        self.names.update({k: v for k, v in constants.items() if isinstance(v, int)})
        self.addresses = {p: a.data_ptr() for p, a in zip(params, args) if isinstance(a, torch.Tensor)}

    def compile(self):
        """PTX by tkc; raises CalledProcessError if there is none, the first time with tkc's words on stderr."""
        if self.key not in self.texts:
            with tempfile.TemporaryDirectory() as d:
                out = os.path.join(d, "k.ptx")
                cmd = [self.tkc, self.source, "--kernel", self.name, "--arch", "sm_90a", "-o", out]
                cmd += ["--signature", ",".join(self.types), f"--num-warps={self.warps}"]
                cmd += [f"--num-stages={self.stages}"] if self.stages else []
                cmd += [x for k, v in self.constants.items() for x in ("-D", f"{k}={constant(v)}")]
                try:
                    subprocess.run(cmd, check=True)
                    self.texts[self.key] = open(out).read()
                except subprocess.CalledProcessError as e:
                    self.texts[self.key] = e
        text = self.texts[self.key]
        if isinstance(text, Exception):
            raise text
        return text

    def load(self):
        """Compiles and loads; returns itself. May raise as compile does, or RuntimeError if the driver refuses it."""
        if self.key not in self.functions:
            ptx = self.compile()
            lines = [l.split(" ", 3)[2:] for l in ptx.splitlines() if l.startswith("// tkc ")]
            about = json.loads(next(text for kind, text in lines if kind == "kernel"))
            maps = [json.loads(text) for kind, text in lines if kind == "map"]
            shared, threads = about["dynamic_shared"], 32 * (about["warps"] * about.get("gang", 1) + about.get("producer_warps", 0))
            module, fn = ctypes.c_void_p(), ctypes.c_void_p()
            check(cuda.cuModuleLoadData(ctypes.byref(module), ptx.encode()))
            check(cuda.cuModuleGetFunction(ctypes.byref(fn), module, self.name.encode()))
            if shared > SHARED_WITHOUT_ASKING:
                check(cuda.cuFuncSetAttribute(fn, MAX_DYNAMIC_SHARED, shared))
            room = self.room(fn, shared, threads) if about.get("persistent") else 0
            self.functions[self.key] = (fn, shared, threads, maps, room, about.get("gang", 1))
        self.fn, self.shared, self.threads, maps, self.blocks, self.gang = self.functions[self.key]
        self.maps = [tensor_map(m, self.names, self.addresses) for m in maps]
        places = [ctypes.addressof(v) for v in self.values] + [at for _, at in self.maps]
        self.programs = Programs()
        if self.blocks:
            self.counter = torch.zeros(1, dtype=torch.int32, device="cuda")
            places.append(ctypes.addressof(self.programs))
        self.pointers = (ctypes.c_void_p * len(places))(*places)
        return self

    @staticmethod
    def room(fn, shared, threads):
        """Blocks that the GPU has room for at a time."""
        n = ctypes.c_int()
        check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(n), fn, threads, ctypes.c_size_t(shared)))
        return n.value * torch.cuda.get_device_properties(0).multi_processor_count

    def __call__(self, grid):
        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        turns = -(-x // self.gang) * y
        if turns > self.blocks > 0 or self.gang > 1:
            self.programs.counter, self.programs.turns = self.counter.data_ptr() if turns > self.blocks else 0, turns
            self.programs.grid[:] = (x, y, 1)
            x, y = min(turns, self.blocks), 1
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(cuda.cuLaunchKernel(self.fn, x, y, 1, self.threads, 1, 1, self.shared, stream, self.pointers, None))


def compile_all(wanted):
    """Compiles kernels at the same time; whoever fails is told, and fails again when it is loaded."""

    def one(k):
        try:
            k.compile()
        except subprocess.CalledProcessError:
            pass

    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        list(pool.map(one, wanted))


def poison(t):
    """Fills an output so that no element that is left out can look right."""
    if t.dtype.is_floating_point:
        t.fill_(float("nan"))
    else:
        t.fill_(0x55 if t.dtype == torch.int8 else 0x55555555)


def wide(t):
    """In float64, where every product of two elements is exact."""
    return t.float().double() if t.dtype == torch.float8_e4m3fn else t.double()


def error(got, want):
    """Relative error in the Euclidean norm; infinite if there is any NaN."""
    got, want = wide(got), wide(want)
    e = ((got - want).norm() / want.norm()).item()
    return e if e == e else math.inf


def fastest(runs, rep=15, finalists=4, rounds=3):
    """The quickest of (label, function) pairs: by a short look, then the first few again, in turns. The power limit slows the
    GPU down while it is busy, so that whoever comes first would look best."""
    random.shuffle(runs)
    look = {label: do_bench(f, warmup=5, rep=rep, return_mode="median") for label, f in runs}
    best = sorted(runs, key=lambda r: look[r[0]])[:finalists]
    ms = interleaved(dict(best), rounds, rep)
    return min(best, key=lambda r: ms[r[0]])


def interleaved(sides, rounds, rep=50):
    """Milliseconds of each function of a dict: the median over rounds, each of which runs all of them in random order."""
    times = {k: [] for k in sides}
    for _ in range(rounds):
        for k in random.sample(sorted(sides), len(sides)):
            times[k].append(do_bench(sides[k], warmup=5, rep=rep, return_mode="median"))
    return {k: sorted(v)[len(v) // 2] for k, v in times.items()}
