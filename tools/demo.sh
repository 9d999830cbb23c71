#!/bin/sh
# demo.sh TKC: compiles examples/vector_add.tk to PTX and runs it on the best device, checked against the interpreter.
set -eu
cd "$(dirname "$0")/.."
tkc=$1
ptx=$(dirname "$tkc")/vector_add.ptx

"$tkc" examples/vector_add.tk -o "$ptx"
echo "compiled examples/vector_add.tk to $ptx ($(wc -c <"$ptx") bytes, $(sed -n 's/^\.target \([a-z0-9_]*\).*/\1/p' "$ptx"))"
"$tkc" run examples/vector_add.tk --grid 'cdiv(n, BLOCK)' --arg x=randn:f32[98432] --arg y=randn:f32[98432] \
	--arg out=zeros:f32[98432] --arg n=98432 --device auto --check
