#!/bin/sh
# setup.sh demo | test: from a bare Debian 12 to a result.
#   demo   installs what is missing, builds, compiles examples/vector_add.tk and runs it on the best device
#   test   installs what is missing, builds, runs every test; the last line is "N passed, N failed"
# Needs apt, and root or sudo if a package is missing. Nothing is changed outside this folder but installed packages.
set -eu
cd "$(dirname "$0")/.."

build_packages="gcc g++ libc6-dev make re2c llvm-22-dev libclc-22 libcjson-dev libxxhash-dev libzstd-dev zlib1g-dev"
test_packages="libcriterion-dev clang-format-14 pkg-config"

case ${1:-} in
demo) packages=$build_packages ;;
test) packages="$build_packages $test_packages" ;;
*)
	sed -n '2,5s/^# *//p' "$0" >&2
	exit 2
	;;
esac

install_missing() {
	command -v dpkg-query >/dev/null || {
		echo "setup.sh: this is no Debian; install by hand: $packages" >&2
		return 0
	}
	missing=
	for p in $packages; do
		dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	echo "setup.sh: installing$missing"
	root=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || {
			echo "setup.sh: installing packages needs root or sudo" >&2
			exit 1
		}
		root=sudo
	fi
	$root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
	apt-cache show llvm-22-dev >/dev/null 2>&1 || {
		echo "setup.sh: apt knows no llvm-22-dev; on Debian 12 it comes from the security archive, which is missing here:" >&2
		echo "    deb http://deb.debian.org/debian-security bookworm-security main" >&2
		exit 1
	}
	# shellcheck disable=SC2086  # a list of words
	$root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing >/dev/null
}

install_missing
jobs=$(nproc)
[ "$jobs" -le 16 ] || jobs=16
exec make --no-print-directory -j "$jobs" "$1"
