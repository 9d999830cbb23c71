#!/bin/sh
# test.sh DIR FUZZ_DIR [SUITE]: runs the built tests of DIR/tests and the fuzzers of FUZZ_DIR/tests, or only SUITE.
# The last line is "N passed, N failed"; the status is 1 if one failed, or if nothing ran (Criterion itself calls an
# empty run a success).
set -u
dir=$1 fuzz=$2 suite=${3:-}
passed=0 failed=0

criterion() { # PROGRAM
	log=$1.log
	"$1" --color=never ${suite:+--filter "$suite*/*"} >"$log" 2>&1
	status=$?
	grep -v 'Synthesis: ' "$log"
	set -- "$1" $(sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\1 \2 \3 \4/p' "$log")
	if [ $# != 5 ]; then
		echo "$1: no closing line (status $status)"
		failed=$((failed + 1))
		return
	fi
	echo "$1: $2 tests, $3 passed, $4 failed, $5 crashed"
	passed=$((passed + $3))
	failed=$((failed + $4 + $5))
	if [ "$2" = 0 ] && [ -z "$suite" ] || [ $status != 0 ] && [ $(($4 + $5)) = 0 ]; then
		echo "$1: status $status after $2 tests"
		failed=$((failed + 1))
	fi
}

one() { # NAME COMMAND...
	name=$1
	shift
	if "$@" >"$dir/tests/one.log" 2>&1; then
		echo "$name: passed ($(tail -n 1 "$dir/tests/one.log"))"
		passed=$((passed + 1))
	else
		cat "$dir/tests/one.log"
		echo "$name: FAILED"
		failed=$((failed + 1))
	fi
}

mkdir -p "$dir/tests"
for t in unit full; do
	[ -x "$dir/tests/$t" ] && criterion "$dir/tests/$t"
done
if [ -z "$suite" ]; then
	for f in "$fuzz"/tests/fuzz_*; do
		[ -x "$f" ] && one "$f" "$f"
	done
	one cli tests/cli.sh "$dir/tkc"
	case $dir in
	*/asan) ;; # these do not depend on how the code is compiled
	*)
		one layers tools/layers.sh
		one install tests/install.sh
		;;
	esac
fi
[ $((passed + failed)) != 0 ] || failed=1
echo "$passed passed, $failed failed"
[ $failed = 0 ]
