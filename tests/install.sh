#!/bin/sh
# install.sh: installs into a folder of its own, builds every C example there the way runtime/README.md says, with nothing
# but pkg-config, and runs it on the CPU. Also: the public headers stand alone, in C and in C++.
set -eu
cd "$(dirname "$0")/.."
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
${MAKE:-make} --no-print-directory PREFIX="$to/prefix" install >"$to/log" 2>&1 || { cat "$to/log"; exit 1; }
export PKG_CONFIG_PATH="$to/prefix/lib/pkgconfig" CUDA_VISIBLE_DEVICES=
cc=${CC:-gcc}

for h in tk tkc; do
	printf '#include <%s.h>\nint main(void) { return %s_version() != 1; }\n' $h $h >"$to/$h.c"
	cp "$to/$h.c" "$to/$h.cc"
	# shellcheck disable=SC2046  # a list of flags
	$cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$to/$h.c" $(pkg-config --cflags --libs $h) -o "$to/$h"
	"$to/$h" || { echo "$h: header and library differ in version"; exit 1; }
	# shellcheck disable=SC2046
	${CXX:-g++} -Wall -Wextra -Werror -fsyntax-only "$to/$h.cc" $(pkg-config --cflags $h)
done

# An example's head comment ends with how it is called; its last word names the kernel, .tk or compiled to .ptx.
n=0
for f in examples/*.c; do
	name=$(basename "$f" .c)
	kernel=$(sed -n "s/^ \*   .*$name.*[[ ]\([a-z_]*\)\.\(tk\|ptx\)[] ]*\(\*\/\)*$/\1/p" "$f")
	[ -f "examples/$kernel.tk" ] || { echo "$f: its head comment does not say how it is called"; exit 1; }
	input=$to/$kernel.ptx library=tk
	"$to/prefix/bin/tkc" "examples/$kernel.tk" -o "$input"
	grep -q 'tk_jit' "$f" && input=examples/$kernel.tk library=tkc
	# shellcheck disable=SC2046
	$cc -std=c11 "$f" $(pkg-config --cflags --libs $library) -o "$to/example"
	"$to/example" "$input" >"$to/log" || { cat "$to/log"; echo "$f: status $?"; exit 1; }
	case $name in
	embed_*) [ "$(wc -l <"$f")" -lt 80 ] || { echo "$f: an introduction has less than 80 lines"; exit 1; } ;;
	esac
	n=$((n + 1))
done
[ $n != 0 ]
echo "$n examples build against the installed libraries and run"
