#!/bin/sh
# layers.sh: who may include whom. Prints each violation as file:line and exits 1 if there is one.
# A line of the table: LAYER its folder or file (longest match wins): the layers it may include, <x> for system headers
# beyond libc. Every layer may include itself.
set -eu
cd "$(dirname "$0")/.."
find lang compiler runtime tools tests examples \( -name '*.[ch]' -o -name '*.re' -o -name '*.def' \) -print |
	LC_ALL=C sort | awk '
BEGIN {
	rule("base      compiler/base/      :")
	rule("arch      compiler/arch/      : base")
	rule("ir        compiler/ir/        : base")
	rule("analysis  compiler/analysis/  : base arch ir")
	rule("passes    compiler/passes/    : base arch ir analysis")
	rule("interp    compiler/interp/    : base ir")
	rule("llvm      compiler/llvm/      : base arch ir analysis <llvm-c>")
	rule("ptx       compiler/ptx/       : base arch")
	rule("lang      lang/               : base ir")
	rule("driver    compiler/           : base arch ir analysis passes interp llvm ptx lang tkc artifact <cjson> <xxhash>")
	rule("artifact  runtime/artifact    : runtime <cjson> <xxhash>")
	rule("runtime   runtime/            : artifact emu <cjson> <xxhash>")
	rule("jit       runtime/jit.c       : runtime artifact tkc")
	rule("emu       runtime/emu/        :")
	rule("tkc       compiler/tkc.h      : base")
	rule("tools     tools/              : tkc base ir passes runtime artifact")
	rule("libclc    tools/clc_subset.c  : llvm <llvm-c>")
	rule("examples  examples/           : runtime tkc")
	rule("tests     tests/              : * <criterion> <llvm-c> <cjson> <xxhash>")
	libc = "^(assert|ctype|dirent|dlfcn|elf|errno|fcntl|fenv|float|getopt|glob|inttypes|limits|locale|math|poll|pthread|sched|" \
	       "sanitizer/asan_interface|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|threads|" \
	       "sys/(mman|random|resource|stat|time|types|wait)|time|unistd)[.]h$"
}
function rule(text,   f, n, i) {
	n = split(text, f, " ")
	where[f[2]] = f[1]
	may[f[1], f[1]] = 1
	for (i = 4; i <= n; i++) may[f[1], f[i]] = 1
}
function layer(path,   p, best) {
	for (p in where) if (index(path, p) == 1 && length(p) > length(best)) best = p
	return best == "" ? "" : where[best]
}
function complain(file, line, text) { printf "%s:%d: %s\n", file, line, text; bad++ }
function check(file, line, text,   name, from, to) {
	from = layer(file)
	name = text
	sub(/^[^"<]*["<]/, "", name)
	sub(/[">].*/, "", name)
	if (text ~ /include[ \t]*</) {
		if (name ~ libc) return
		to = name
		sub(/[\/.].*/, "", to)
		if (!((from, "<" to ">") in may)) complain(file, line, from " may not include <" name ">")
		return
	}
	if (from == "examples" && name !~ /\//) name = (name == "tkc.h" ? "compiler/" : "runtime/") name
	to = layer(name)
	if (to == "") complain(file, line, "\"" name "\" is not relative to the root")
	else if (!((from, to) in may) && !((from, "*") in may))
		complain(file, line, from " may not include " name " (" to ")")
}
{
	file = $0; line = 0
	while ((getline text < file) > 0) {
		line++
		if (text ~ /^[ \t]*#[ \t]*include[ \t]*["<]/) check(file, line, text)
	}
	close(file)
	files++
}
END {
	printf "layers: %d files, %d violation%s\n", files, bad, bad == 1 ? "" : "s"
	exit bad > 0
}'
