#!/bin/sh
# install.sh BUILT DESTDIR PREFIX VERSION LLVM_LIBS: libraries, public headers, pkg-config files and the command.
# libtkc names LLVM's shared library to those who link it: the static one is built into tkc alone.
set -eu
built=$1 prefix=$3 version=$4 llvm=$5
to=$2$3
mkdir -p "$to/bin" "$to/lib/pkgconfig" "$to/include"
[ ! -x "$built/tkc" ] || cp "$built/tkc" "$to/bin/"
cp "$built/libtk.a" "$built/libtkc.a" "$to/lib/"
cp runtime/tk.h compiler/tkc.h "$to/include/"

pc() { # NAME DESCRIPTION LIBS REQUIRES
	cat >"$to/lib/pkgconfig/$1.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $version
Requires: $4
Cflags: -I\${includedir}
Libs: -L\${libdir} $3
PC
}
pc tk "runtime of the tile-language compiler tkc: loads and launches PTX" "-ltk -lcjson -lxxhash -ldl -lm -pthread" ""
pc tkc "the tile-language compiler tkc, its interpreter and JIT" "-ltkc -ltk $llvm" "tk"
echo "installed to $to"
