#!/bin/sh
# Runs tests with the extension built under AddressSanitizer and UndefinedBehaviorSanitizer, in a copy outside the repository, and then
# under Python's debugging allocator, whose findings the sanitizers don't have: use of memory without the GIL, overruns of small blocks.
#   tools/sanitize.sh tests/guards       PYTHON=... chooses the environment (default: the project's .venv)
set -e
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
[ $# -gt 0 ] || set -- tests/runtime tests/codegen/test_direct.py tests/codegen/test_resume.py tests/guards/test_guards*.py \
    tests/guards/test_guard_changes_modules.py tests/driver/test_native_calls.py tests/objects/types/test_peeked_iterators.py \
    tests/objects/types/test_generators_from_outside.py \
    tests/behaviour/test_threads.py tests/behaviour/test_lifetime.py tests/codegen/test_rerun.py tests/user/test_compile_eager_operators.py
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/setup.py" "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$root/guards" "$root/runtime_c" "$root/tests" "$copy"
mkdir "$copy/links"
cp -r "$root/jit" "$copy/jit"
rm -rf "$copy/jit/guards" "$copy"/jit/_*.so
ln -s ../guards "$copy/jit/guards"
ln -s ../jit "$copy/links/framejit"
cd "$copy"
# These measure the process: how deep its stack is, how much memory it takes, how fast it runs. A sanitizer changes all three.
measuring="grow or stress or hundred_thousand or full_speed or recursion_is_as_deep or debugging_allocator"
# Kernels of operators are compiled by Inductor, which would wait for the locks of other processes in a cache that all share.
export FRAMEJIT_STRICT=1 OMP_NUM_THREADS=1 PYTHONPATH="$copy/links" TORCHINDUCTOR_CACHE_DIR="$copy/inductor"

echo "== AddressSanitizer, UndefinedBehaviorSanitizer"
flags="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
CFLAGS="$flags" LDFLAGS="$flags" "$python" setup.py -q build_ext --inplace
# CPython's own memory is not freed at exit: leaks are looked for by the tests themselves. Its small-object allocator would hide overruns.
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
    "$python" -m pytest -q -p no:cacheprovider -p no:faulthandler --timeout=0 -k "not ($measuring)" "$@"

echo "== PYTHONMALLOC=debug"
rm -rf build jit/_*.so
"$python" setup.py -q build_ext --inplace
PYTHONMALLOC=debug "$python" -m pytest -q -p no:cacheprovider --timeout=0 -k "not ($measuring)" "$@"
