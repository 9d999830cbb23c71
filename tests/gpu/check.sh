#!/bin/sh
# check.sh [TKC [DIR]]: every run test (DIR/*.tk) on the GPU, held against the interpreter. DEVICE=cuda:0 names another one,
# JOBS=8 how many tests run side by side. Prints a table; the last line is "N passed, N failed". Status 1 if one failed or
# nothing ran, 3 without a GPU.
#
# A run test's header has `# run:` lines, each the options of one `tkc run`, and `# with:` lines, which are put before
# each of them; `# source:` names another file that holds the kernel, seen from two folders above DIR. Files with expected
# findings (`#!`) are for the interpreter alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda:0}

# One file, for the run of this script that starts them: its lines of the table.
check_file() {
	tkc=$1 dir=$2 f=$3
	with=$(sed -n 's/^# with: *//p' "$f" | tr '\n' ' ')
	source=$(sed -n 's/^# source: *//p' "$f")
	tolerance=$(sed -n 's/^# tolerance: */--tolerance /p' "$f" | tail -n 1)
	n=0
	while IFS= read -r run; do
		n=$((n + 1))
		name=$(basename "$f" .tk):$n
		# xargs splits words and quotes as the test runner does, and gives parentheses and brackets no meaning.
		if said=$(printf '%s' "$with$run $tolerance" |
			xargs "$tkc" run "${source:+$dir/../../}${source:-$f}" --device "$device" --check 2>&1); then
			printf '%-40s passed  %s\n' "$name" "$(printf '%s\n' "$said" | tail -n 1)"
		else
			printf '%-40s FAILED\n%s\n' "$name" "$(printf '%s\n' "$said" | sed 's/^/    /' | head -n 20)"
		fi
	done <<RUNS
$(sed -n 's/^# run: *//p' "$f")
RUNS
}

if [ "${1:-}" = --file ]; then
	check_file "$2" "$3" "$5" >"$4/$(basename "$5")"
	exit 0
fi
if [ -x "$here/bin/tkc" ]; then
	tkc=${1:-$here/bin/tkc} dir=${2:-$here/tests/run}
else
	tkc=${1:-$here/../../build/tkc} dir=${2:-$here/../run}
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

"$tkc" info 2>&1 | sed 's/^/# /'
case $device in
cuda*) "$tkc" info 2>&1 | grep -q '^cuda:' || {
	echo "check.sh: there is no GPU" >&2
	exit 3
} ;;
esac
grep -L '#!' "$dir"/*.tk | xargs -P "${JOBS:-8}" -n 1 sh "$0" --file "$tkc" "$dir" "$logs"
cat "$logs"/*
passed=$(cat "$logs"/* | grep -c '^[^ ]* *passed')
failed=$(cat "$logs"/* | grep -c '^[^ ]* *FAILED$')
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
