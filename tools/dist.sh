#!/bin/sh
# dist.sh BUILT: makes dist/tkc-ARCH-linux, a folder that works on another Linux of this architecture (glibc 2.34 or newer)
# with nothing installed: tkc, the runtime as a library, the examples with their PTX, and the run tests for a GPU.
set -eu
cd "$(dirname "$0")/.."
built=$1
name=tkc-$(uname -m)-linux
to=dist/$name
rm -rf "$to"
mkdir -p "$to/bin" "$to/lib" "$to/include" "$to/examples" "$to/tests/run"

strip -o "$to/bin/tkc" "$built/tkc"
cp runtime/tk.h "$to/include/"
cp "$built/libtk.a" "$(${CC:-gcc} -print-file-name=libxxhash.a)" "$to/lib/"
strip --strip-debug "$to/lib/libtk.a"
# Debian has no static cJSON; tkc finds this copy beside itself (its rpath is $ORIGIN/../lib).
cp -L "$(${CC:-gcc} -print-file-name=libcjson.so.1)" "$to/lib/libcjson.so.1"
ln -s libcjson.so.1 "$to/lib/libcjson.so"

for f in examples/*.tk; do
	cp "$f" "$to/examples/"
	"$to/bin/tkc" "$f" -o "$to/examples/$(basename "$f" .tk).ptx"
done
for f in examples/*.c examples/*.py tests/run/*.tk tests/run/*.npy; do
	[ ! -f "$f" ] || cp "$f" "$to/${f%/*}/"
done
cp tests/gpu/check.sh "$to/gpu_check.sh"

cat >"$to/README.md" <<'TXT'
# tkc, ready to run

Needs an x86-64 Linux with glibc 2.34 or newer; for the GPU, NVIDIA's driver. Nothing is installed.

    bin/tkc info                                    what is there: driver, GPUs, what they can do
    bin/tkc examples/vector_add.tk -o add.ptx       compile (examples/*.ptx are compiled already, for sm_80)
    bin/tkc run examples/vector_add.tk --grid 'cdiv(n, BLOCK)' --arg x=randn:f32[1000] --arg y=randn:f32[1000] \
        --arg out=zeros:f32[1000] --arg n=1000 --check
    ./gpu_check.sh                                  every test kernel on the GPU against the interpreter

A C program that launches PTX, such as examples/embed_ptx.c (those with tk_jit() compile at run time, for which the compiler
as a library has to be built and installed from the sources):

    cc prog.c -Iinclude -Llib -ltk -lcjson -lxxhash -ldl -lm -pthread -Wl,-rpath,$PWD/lib -o prog
TXT

newest=$(objdump -T "$to/bin/tkc" | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -n 1)
size=$(du -sm "$to" | cut -f 1)
echo "$to: $size MB, needs glibc $newest"
[ "$size" -lt 60 ] || { echo "dist.sh: more than 60 MB" >&2; exit 1; }
case $newest in 2.3[5-9] | 2.[4-9]*) echo "dist.sh: needs a glibc newer than 2.34" >&2; exit 1 ;; esac
