#!/bin/sh
# Test correctness on a GPU, then time training and testing beside the authors' loops. Writes a Markdown page in about eight
# minutes. Install with `pip install '.[test]'` first, then run in the checkout: assets/benchmarks/gpu.sh [cuda|cpu] [FILE]
# `cpu` tests correctness only. FRN_SHARED can name a folder with recorded arrays of the authors' code.
set -eu
device=${1:-cuda}
page=${2:-gpu.md}
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
export PYTHONPATH="$PWD:$PWD/export:$PWD/tui"
{
  echo "# On a GPU"
  echo
  "$python" - "$device" <<'PY'
import platform, sys
import torch
from frn import __version__
from frn.system.precision import choose_device
device = choose_device(sys.argv[1])
name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
print(f"{name}; frn {__version__}, torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}")
PY
  echo
  echo '```'
  echo "\$ FRN_TEST_DEVICE=$device pytest tests/frn/training/test_device.py"
} >"$page"
status=0
FRN_TEST_DEVICE=$device timeout 240 "$python" -m pytest -p no:cacheprovider -vv tests/frn/training/test_device.py >>"$page" 2>&1 || status=$?
if [ "$device" != cpu ] && [ $status = 0 ]; then
  for bench in "train.py --rounds 10 --way 10" eval.py; do
    echo "\$ python assets/benchmarks/$bench --device $device" >>"$page"
    # shellcheck disable=SC2086
    timeout 140 "$python" assets/benchmarks/$bench --device "$device" >>"$page" 2>&1 || status=$?
  done
fi
echo '```' >>"$page"
cat "$page"
exit $status
