#!/bin/sh
# install.sh BUILT: installs into a folder of its own and builds every C example there the way the guide says, with
# nothing but pkg-config; each that needs no GPU must run. Also: the public headers stand alone, in C and in C++.
set -eu
cd "$(dirname "$0")/.."
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
make --no-print-directory PREFIX="$to/tkc" install >"$to/log" 2>&1 || { cat "$to/log"; exit 1; }
export PKG_CONFIG_PATH="$to/tkc/lib/pkgconfig"
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

n=0
for f in examples/*.c; do
	[ -f "$f" ] || continue
	# shellcheck disable=SC2046
	$cc "$f" -o "$to/example" $(pkg-config --cflags --libs tkc)
	n=$((n + 1))
done
echo "installed; $n examples compile against it"
