#!/bin/sh
# embed.sh: files as C arrays, on stdout.
#   embed.sh bytes NAME FILE      const unsigned char NAME[] (NUL after the last byte) and NAME_len
#   embed.sh std FILE...          the table of lang/std.h
set -eu
export LC_ALL=C

bytes() { # NAME FILE
	printf 'const unsigned char %s[] = {\n' "$1"
	od -An -v -tu1 "$2" | sed 's/  */,/g; s/^,//; s/$/,/'
	printf '0};\n'
}

case $1 in
bytes)
	printf 'extern const unsigned char %s[];\nextern const unsigned long %s_len;\n' "$2" "$2"
	bytes "$2" "$3"
	printf 'const unsigned long %s_len = sizeof %s - 1;\n' "$2" "$2"
	;;
std)
	shift
	printf '#include "lang/std.h"\n'
	for f in "$@"; do
		printf 'static '
		bytes "std_$(basename "$f" .tk)" "$f"
	done
	printf 'const lang_std_file lang_std_files[] = {\n'
	for f in "$@"; do
		n=$(basename "$f" .tk)
		printf '{"std/%s.tk", (const char *)std_%s, sizeof std_%s - 1},\n' "$n" "$n" "$n"
	done
	printf '{0, 0, 0}};\nconst int lang_n_std_files = %d;\n' $#
	;;
*)
	echo "embed.sh: unknown mode $1" >&2
	exit 2
	;;
esac
