#!/usr/bin/env bash
# Installs the wheel into a fresh environment of Python and tests it there. usage: python.sh CMAKE BUILD_FOLDER CC. PYTHON names
# the interpreter; exits with 77 where there is none with numpy and venv.
set -euo pipefail
cmake=$1 build=$(realpath "$2") cc=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for python in "${PYTHON:-python3}" /usr/bin/python3 ''; do
    [[ $python ]] || { echo "no Python with numpy and venv: python3-numpy, python3-venv"; exit 77; }
    ! "$python" -c 'import ensurepip, numpy, venv' 2>/dev/null || break
done
"$cmake" --build "$build" --target wheel >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --install "$build" --prefix "$work/installed" --component development >/dev/null
"$python" -m venv --system-site-packages "$work/venv" # numpy is the system's
wheel=("$build"/sparge_gen-*.whl)
"$work/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "${wheel[@]}"
cd "$work"
env CC="$cc" INCLUDE="$work/installed/include" PROGRAM="$build/sparge-gen" "$work/venv/bin/python" "$here/test_python.py"
