#!/bin/sh
# cases.sh TEST_FILES DIAG_TABLES TEXTS: the list of test files as macros that tests/*.c expand, each where it defines it:
#   TIR_CASE(area, name)  TK_CASE(area, name)  ERROR_CASE(name)  RUN_CASE(name)
#   DIAG_ID(table, id)    TEXT_FILE(path)
# A file whose name is no C identifier stops the build: it could not be a test.
set -eu

emit() { # MACRO ARGUMENTS-FORMAT PATH
	area=$(basename "$(dirname "$3")") name=$(basename "$3")
	name=${name%.*}
	case $area$name in
	*[!A-Za-z0-9_]*)
		echo "$3: the name of a test file must be an identifier" >&2
		exit 1
		;;
	esac
	case $2 in
	2) rows="$rows$1($area, $name)
" ;;
	1) rows="$rows$1($name)
" ;;
	esac
}

section() { # MACRO
	printf '#ifdef %s\n%s#endif\n' "$1" "$rows"
	rows=
}

rows=
for f in $1; do case $f in tests/golden/*.tir) emit TIR_CASE 2 "$f" ;; esac done
section TIR_CASE
for f in $1; do case $f in tests/golden/*.tk) emit TK_CASE 2 "$f" ;; esac done
section TK_CASE
for f in $1; do case $f in tests/error/*) emit ERROR_CASE 1 "$f" ;; esac done
section ERROR_CASE
for f in $1; do case $f in tests/run/*) emit RUN_CASE 1 "$f" ;; esac done
section RUN_CASE
[ -z "$2" ] || rows=$(awk 'match($0, /^[ \t]*DIAG\([a-z0-9_]+/) { id = substr($0, RSTART, RLENGTH); sub(/.*\(/, "", id); printf "DIAG_ID(\"%s\", %s)\n", FILENAME, id }' $2)
[ -z "$rows" ] || rows="$rows
"
section DIAG_ID
for f in $3; do rows="${rows}TEXT_FILE(\"$f\")
"; done
for f in $1; do case $f in tests/golden/*) rows="${rows}TEXT_FILE(\"$f\")
" ;; esac done
section TEXT_FILE
