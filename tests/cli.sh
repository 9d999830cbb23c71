#!/bin/sh
# cli.sh TKC: what the command line promises: exit status, outputs that are whole or not there, hostile input.
# Prints each broken promise; the last line counts. Status 1 if one is broken.
set -u
cd "$(dirname "$0")/.."
tkc=$1
case $tkc in /*) ;; *) tkc=$PWD/$tkc ;; esac
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
good=0 bad=0
add=examples/vector_add.tk

is() { # WHAT CONDITION...
	what=$1
	shift
	if "$@"; then good=$((good + 1)); else
		bad=$((bad + 1))
		echo "cli: $what"
		head -n 5 "$d/err" | sed 's/^/    /'
	fi
}

status() { # WANTED ARGUMENTS... : runs tkc; a crash or a hang is a status too
	wanted=$1
	shift
	timeout 60 "$tkc" "$@" >"$d/out" 2>"$d/err" </dev/null
	got=$?
	is "status $got, wanted $wanted: tkc $*" [ $got = "$wanted" ]
}

says() { is "'$1' is not on $2" grep -q -e "$1" "$d/$2"; }
silent() { is "something is on $1" [ ! -s "$d/$1" ]; }

# right
status 0 $add -o "$d/a.ptx"
silent out
silent err
is 'no PTX was written' grep -q '^\.visible \.entry add' "$d/a.ptx"
status 0 $add -o -
is '-o - differs from -o FILE' cmp -s "$d/out" "$d/a.ptx"
status 0 $add -o "$d/b.ptx"
is 'two runs differ' cmp -s "$d/a.ptx" "$d/b.ptx"
status 0 $add --no-tensor-maps -o "$d/b.ptx"
is '--no-tensor-maps changes a kernel that has none' cmp -s "$d/a.ptx" "$d/b.ptx"
for emit in ast tile llvm ptx; do
	status 0 $add --emit $emit -o -
	is "--emit $emit writes nothing" [ -s "$d/out" ]
done
status 0 $add --emit tile --stop-after=canon -o "$d/canon.tir"
status 0 "$d/canon.tir" --emit tile --stop-after=canon -o "$d/again.tir"
status 0 $add --dump-after=canon --time-passes -o "$d/b.ptx"
says canon err
status 0 $add --resource-usage -o "$d/b.ptx"
says '^kernel add for sm_80: 4 warps' err
says 'occupancy: ' err
says 'vector_add\.tk:[0-9]*: load of f32\[1024\] from x' err
says 'bytes per access: the alignment is .* (x is not known to be aligned to 16 bytes' err
is 'the report changes the PTX' cmp -s "$d/a.ptx" "$d/b.ptx"
status 0 $add --resource-usage --emit tile -o -
says 'registers: not known' err
for arch in sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_100a sm_103a sm_120 sm_120a; do
	status 0 $add --arch $arch -o -
	says "^\.target $arch" out
done
status 0 --help
says 'Exit status' out
status 0 info
status 0 run $add --grid 'cdiv(n, BLOCK)' -D BLOCK=64 --arg 'x=arange:f32[100]' --arg 'y=full(1):f32[100]' \
	--arg 'out=zeros:f32[n]' --arg n=100 --device cpu --check --print out --save "out=$d/out.npy"
says '^\[1, 2, 3, .* 99, 100\]$' out
status 0 run $add --arg "x=@$d/out.npy" --arg "y=@$d/out.npy" --arg 'out=zeros:f32[100]' --arg 'n=x.shape[0]' \
	--device cpu --print out
says '^\[2, 4, 6, .* 198, 200\]$' out
status 0 run "$d/a.ptx" --grid 'cdiv(n, BLOCK)' --arg 'x=ones:f32[9]' --arg 'y=ones:f32[9]' --arg 'out=zeros:f32[9]' \
	--arg n=9 --device cpu --print out
says '2, 2, 2' out
for f in 'tkc run --help' 'tkc info -h' "tkc $add --help"; do
	# shellcheck disable=SC2086  # words
	status 0 ${f#tkc }
	says 'Exit status' out
done
status 0 run $add --arg 'x=arange:f32[4]' --arg 'y=full(2):f32[4]' --arg 'out=zeros:f32[2,4]' --arg 'n=out.shape[-1]' \
	--grid 'cdiv(x.shape[-1], BLOCK)' --device cpu --print out
says '^\[\[2, 3, 4, 5\],' out
printf '@kernel\ndef k(o: *f32, n: i32):\n    static_print("of type", n.dtype)\n    device_print("n", n)\n    store(o, n)\n' >"$d/print.tk"
status 0 run "$d/print.tk" --grid 1 --arg 'o=zeros:f32[1]' --arg n=3 --device cpu --check
is 'a kernel that prints once' [ "$(grep -c 'n: 3' "$d/out")" = 1 ]
is 'static_print at a launch, once' [ "$(grep -c 'of type' "$d/out")" = 1 ]

# a tensor descriptor, by what the source says, by the command line, and of a .ptx
printf '@kernel\ndef k(x, o: tensordesc[f32[2, 4]]):\n    o.store([0, 0], x.load([1, 0]) * 2)\n' >"$d/desc.tk"
status 0 run "$d/desc.tk" --grid 'x.shape[0] - 2' --arg 'x=arange:f32[3,4]/[2,o.shape[1]]' --arg 'o=ones:f32[3,4]' \
	--device cpu --print o
says '^\[\[8, 10, 12, 14\],' out
status 0 "$d/desc.tk" --signature 'x=tensordesc<fp32[2, 4]>' -o "$d/desc.ptx"
status 0 run "$d/desc.ptx" --grid 1 --arg 'x=arange:f32[3,4]' --arg 'o=ones:f32[3,4]/[2,4]' --device cpu --print o
says '^\[\[8, 10, 12, 14\],' out
status 1 run "$d/desc.ptx" --grid 1 --arg 'x=arange:f32[3,5]' --arg 'o=ones:f32[3,4]' --device cpu
says 'argument 1 .*(x: tensordesc<f32\[2, 4\]>) has a stride of 5 elements at axis 0: in bytes no multiple of 16' err
status 1 run "$d/desc.tk" --grid 1 --arg 'x=arange:f32[3,4]' --arg 'o=ones:f32[3,4]' --device cpu
says "desc.tk:3:.*\*f32 has no member 'load'" err
status 1 "$d/desc.tk" -o -
says "the type of parameter 'x' is not known" err
status 2 run "$d/desc.tk" --grid 1 --arg 'x=arange:f32[3,4]/[4]' --arg 'o=ones:f32[3,4]' --device cpu
says 'the block \[4\] has 1 extents, the array 2' err
status 2 run "$d/desc.tk" --grid 1 --arg 'x=arange:f32[3,4]/[B,4]' --arg 'o=ones:f32[3,4]' --device cpu
says "'B' has no integer value" err

status 0 run "$d/desc.tk" --grid 1 --arg 'x=arange:f32[2,4]/[x.shape[0],4]:nan' --arg 'o=ones:f32[2,4]' --device cpu \
	--print o
says '\[nan, nan, nan, nan\]\]' out
status 1 run "$d/desc.ptx" --grid 1 --arg 'x=arange:f32[3,4]/[2,4]:nan' --arg 'o=ones:f32[3,4]' --device cpu
says 'was given with NaN outside' err
status 2 run "$d/desc.tk" --grid 1 --arg 'x=arange:f32[2,4]/[2,4]:16' --arg 'o=ones:f32[2,4]' --device cpu

# what is no file is written as it is; a link's target is replaced, not the link
mkfifo "$d/pipe"
cat "$d/pipe" >"$d/piped" &
status 0 $add -o "$d/pipe"
wait
is 'a pipe is no pipe any more' [ -p "$d/pipe" ]
is 'the pipe received something else' cmp -s "$d/a.ptx" "$d/piped"
: >"$d/target"
ln -s target "$d/link"
status 0 $add -o "$d/link"
is 'a link is no link any more' [ -L "$d/link" ]
is "the link's target is something else" cmp -s "$d/a.ptx" "$d/target"

# wrong input: 1, a message with a place, and no output
printf 'import tl\n@kernel\ndef k(x: *f32):\n    store(x, load(y)\n' >"$d/wrong.tk"
status 1 "$d/wrong.tk" -o "$d/wrong.ptx"
says 'wrong\.tk:[0-9]*:[0-9]*: error:' err
is 'an output despite errors' [ ! -e "$d/wrong.ptx" ]
cp "$d/a.ptx" "$d/kept.ptx"
status 1 "$d/wrong.tk" -o "$d/kept.ptx"
is 'an older output was touched' cmp -s "$d/a.ptx" "$d/kept.ptx"
status 1 "$d/wrong.tk" --diagnostics=line -o -
says '^[^ ]*wrong\.tk:[0-9]*:[0-9]*: error: .* \[[a-z_]*\]$' err
status 1 "$d/wrong.tk" --diagnostics=json -o -
says '"line":' err
silent out
status 1 "$d/nowhere.tk" -o -
status 1 $add -D NOWHERE=1 -o -
status 1 $add -o "$d/no/such/folder/x.ptx"
status 1 $add --emit cubin -o "$d/no/such/folder/x.cubin"
status 1 $add -o "$d"
says "cannot write $d: Is a directory" err
status 1 "$d" -o -
status 1 $add --signature 'x=*f32:3' -o -
says 'a power of 2 up to 4096' err
status 1 run $add --arg "x=@$d/nowhere.npy"
status 1 run $add --arg 'x=zeros:f32[10]' --arg 'y=zeros:f32[10]' --arg 'out=zeros:f32[5]' --arg n=10 --device cpu
says 'vector_add\.tk:[0-9]*:[0-9]*' err
status 1 run $add --arg 'x=zeros:f16[10]' --arg 'y=zeros:f32[10]' --arg 'out=zeros:f32[10]' --arg n=10 --device cpu

# wrong use: 2
status 2
status 2 $add --no-such-option
status 2 $add --arch sm_1 -o -
status 2 $add --stop-after=nothing --emit tile -o -
status 2 $add --emit cobol
status 2 $add -Wnowhere -o -
says 'warnings: all, int32-offset' err
status 2 $add --num-warps 3 -o -
status 2 run $add --arg x
status 2 run $add --arg 'x=zeros:f32[10]' --device cpu
says "'y' of the kernel is missing: --arg y=..., or -D y=None" err
status 2 run $add --arg 'x=zeros:f99[10]' --device cpu
status 2 run $add --arg 'x=randint(3,3):i32[10]' --device cpu
status 2 run $add --arg 'x=zeros:f32[1]' --print n --device cpu
status 2 run $add --arg 'x=zeros:f32[1]' --save x --device cpu
status 2 run $add --arg 'n=nowhere' --device cpu
says "'nowhere' has no integer value" err
status 2 run $add --device toaster --arg 'x=zeros:f32[1]' --arg 'y=zeros:f32[1]' --arg 'out=zeros:f32[1]' --arg n=1
# no device: 3
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES
status 3 run $add --device cuda:0 --arg 'x=zeros:f32[1]' --arg 'y=zeros:f32[1]' --arg 'out=zeros:f32[1]' --arg n=1
says 'tkc: ' err

# any bytes: an error, never a crash or a hang
head -c 4096 /dev/urandom >"$d/noise" || head -c 4096 "$tkc" >"$d/noise"
: >"$d/empty"
head -c 300 $add >"$d/cut"
head -c 100000 /dev/zero | tr '\0' '(' >"$d/deep"
head -c 700 "$d/a.ptx" >"$d/half"
head -c 90 "$d/out.npy" >"$d/half.npy"
for text in noise empty cut deep half half.npy; do
	for kind in tk py tir; do
		cp "$d/$text" "$d/in.$kind"
		status 1 "$d/in.$kind" -o "$d/in.out"
		is "an output from $text as .$kind" [ ! -e "$d/in.out" ]
	done
	cp "$d/$text" "$d/in.ptx"
	status 1 run "$d/in.ptx" --grid 1 --arg 'x=zeros:f32[1]' --device cpu
	cp "$d/$text" "$d/in.npy"
	status 1 run $add --arg "x=@$d/in.npy" --arg 'y=zeros:f32[1]' --arg 'out=zeros:f32[1]' --arg n=1 --device cpu
	says 'in.npy: byte [0-9]*: ' err
done

echo "cli: $good promises kept, $bad broken"
[ $bad = 0 ]
