#!/usr/bin/env bash
# The page of a comparison in a headless Chromium. usage: run.sh PROGRAM. Exit code 77 is a skip.
set -euo pipefail
program=$(readlink -f "${1:?usage: run.sh PROGRAM}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
skip() { echo "skipped: $*"; exit 77; }
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no Chromium"
command -v python3 >/dev/null || skip "there is no Python"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# shellcheck disable=SC2016
hostile='a red ball </script><b>"& <!-- ${x} `'
"$program" compare -q -p "$hostile" --size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dense-steps 0.5 \
    --arms 'dense,sage,sparge:topk=0.3:dense-layers=0:name=<i>three</i>' -o apart >/dev/null
"$program" compare -q -p ball --size 32x32 --frames 5 --steps 2 --cfg-scale 1 -o same >/dev/null 2>log && exit 1
python3 -B "$here/report_arms.py" apart same "$hostile"
