#!/bin/sh
# check.sh [TKC [DIR]]: every run test (DIR/*.tk) on the GPU, held against the interpreter. DEVICE=cuda:0 names another one.
# Prints a table; the last line is "N passed, N failed". Status 1 if one failed or nothing ran, 3 without a GPU.
#
# A run test's header has `# run:` lines, each the options of one `tkc run`, and `# with:` lines, which are put before
# each of them; `# source:` names another file that holds the kernel, seen from two folders above DIR. Files with expected
# findings (`#!`) are for the interpreter alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -x "$here/bin/tkc" ]; then
	tkc=${1:-$here/bin/tkc} dir=${2:-$here/tests/run}
else
	tkc=${1:-$here/../../build/tkc} dir=${2:-$here/../run}
fi
device=${DEVICE:-cuda:0}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

"$tkc" info 2>&1 | sed 's/^/# /'
case $device in
cuda*) "$tkc" info 2>&1 | grep -q '^cuda:' || {
	echo "check.sh: there is no GPU" >&2
	exit 3
} ;;
esac
for f in "$dir"/*.tk; do
	[ -f "$f" ] || continue
	grep -q '#!' "$f" && continue
	with=$(sed -n 's/^# with: *//p' "$f" | tr '\n' ' ')
	source=$(sed -n 's/^# source: *//p' "$f")
	tolerance=$(sed -n 's/^# tolerance: */--tolerance /p' "$f" | tail -n 1)
	n=0
	while IFS= read -r run; do
		n=$((n + 1))
		name=$(basename "$f" .tk)
		# xargs splits words and quotes as the test runner does, and gives parentheses and brackets no meaning.
		printf '%s' "$with$run $tolerance" | xargs "$tkc" run "${source:+$dir/../../}${source:-$f}" --device "$device" --check >"$log" 2>&1
		if [ $? = 0 ]; then
			passed=$((passed + 1))
			printf '%-40s passed  %s\n' "$name:$n" "$(tail -n 1 "$log")"
		else
			failed=$((failed + 1))
			printf '%-40s FAILED\n' "$name:$n"
			sed 's/^/    /' "$log" | head -n 20
		fi
	done <<RUNS
$(sed -n 's/^# run: *//p' "$f")
RUNS
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
