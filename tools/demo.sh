#!/bin/sh
# demo.sh TKC: compiles examples/vector_add.tk to PTX, runs it on the best device there is, and checks the result.
set -eu
cd "$(dirname "$0")/.."
tkc=$1
ptx=$(dirname "$tkc")/vector_add.ptx
n=98432 # no multiple of the block: the last program's mask cuts off a tail
wanted='[0.5, 1.5, 2.5, ..., 98429.5, 98430.5, 98431.5]'

"$tkc" examples/vector_add.tk -o "$ptx"
echo "compiled   examples/vector_add.tk to $ptx: $(wc -c <"$ptx") bytes for $(sed -n 's/^\.target \([a-z0-9_]*\).*/\1/p' "$ptx")"
got=$("$tkc" run examples/vector_add.tk --grid 'cdiv(n, BLOCK)' --arg x=arange:f32[$n] --arg y='full(0.5)':f32[$n] \
	--arg out=zeros:f32[$n] --arg n=$n --device auto --print out)
device=$("$tkc" info | sed -n 's/^cuda:0  *\(.*\), compile for .*/\1/p')
echo "ran on     ${device:-the CPU}"
echo "x + y      $got"
[ "$got" = "$wanted" ] || {
	echo "demo.sh: wrong, expected $wanted" >&2
	exit 1
}
"$tkc" run examples/vector_add.tk --grid 'cdiv(n, BLOCK)' --arg x=randn:f32[$n] --arg y=randn:f32[$n] \
	--arg out=zeros:f32[$n] --arg n=$n --device auto --check 2>/dev/null
echo "checked    the sums in print, and $n random ones against the interpreter with all its checks"
