#!/bin/sh
# Runs tests with the extension built under AddressSanitizer and UndefinedBehaviorSanitizer, in a copy outside the repository.
#   tools/sanitize.sh tests/test_guards*.py       PYTHON=... chooses the environment (default: the project's .venv)
set -e
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
[ $# -gt 0 ] || set -- tests/test_guards.py tests/test_guards_tensor.py tests/test_guards_tree.py
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/setup.py" "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$root/guards" "$root/runtime_c" "$root/tests" "$copy" 2>/dev/null || true
mkdir "$copy/links"
cp -r "$root/jit" "$copy/jit"
rm -rf "$copy/jit/guards" "$copy"/jit/_runtime*.so
ln -s ../guards "$copy/jit/guards"
ln -s ../jit "$copy/links/framejit"
cd "$copy"
flags="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
CFLAGS="$flags" LDFLAGS="$flags" "$python" setup.py -q build_ext --inplace
# CPython's own memory is not freed at exit: leaks are looked for by the tests themselves. Its small-object allocator would hide overruns.
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
    PYTHONPATH="$copy/links" "$python" -m pytest -q -p no:cacheprovider -p no:faulthandler "$@"
