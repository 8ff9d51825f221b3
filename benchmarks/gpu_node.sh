#!/usr/bin/env bash
# Everything that only a GPU can show, in one command: tests, speed and memory, and one report.
#
#   benchmarks/gpu_node.sh                      on a machine with an NVIDIA GPU
#   benchmarks/gpu_node.sh --rehearse           every step, without a GPU, as far as it goes
#
# --python PATH   use this interpreter's environment instead of making .venv-gpu
# --torch SPEC    what to install as Torch (default: torch), for a driver that needs another build
# --report FILE   where the report goes (default: gpu-report.md)
#
# A failing step does not stop the later ones; the exit code is 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

rehearse=
python=
torch=torch
report=gpu-report.md
while [[ $# -gt 0 ]]; do
    case $1 in
        --rehearse) rehearse=1 ;;
        --python) python=${2:?--python needs a path}; shift ;;
        --torch) torch=${2:?--torch needs a requirement}; shift ;;
        --report) report=${2:?--report needs a file}; shift ;;
        *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
    esac
    shift
done

logs=$(mktemp -d) || exit 2
trap 'rm -rf "$logs"' EXIT
names=()
codes=()
seconds=()

# step NAME COMMAND...: run it, keep what it says and whether it succeeded.
step() {
    local name=$1 begin=$SECONDS code=0
    shift
    echo "$name ..."
    "$@" >"$logs/$name.out" 2>"$logs/$name.err" || code=$?
    names+=("$name")
    codes+=("$code")
    seconds+=($((SECONDS - begin)))
    [[ $code -eq 0 ]] || { echo "  failed with code $code:"; tail -n 3 "$logs/$name.err" "$logs/$name.out"; }
    return "$code"
}

# ---------------------------------------------------------------- the GPU and its environment

if nvidia-smi >"$logs/nvidia-smi" 2>&1; then
    cuda=$(sed -n 's/.*CUDA[A-Za-z ]*Version: *\([0-9]*\)\..*/\1/p' "$logs/nvidia-smi" | head -n 1)
elif [[ -n $rehearse ]]; then
    cuda=
    echo "no GPU: a rehearsal" >"$logs/nvidia-smi"
else
    echo "no GPU found: nvidia-smi is missing or fails. Run this where an NVIDIA GPU and its driver"
    echo "are, or rehearse the steps without one: benchmarks/gpu_node.sh --rehearse"
    exit 2
fi

# shellcheck disable=SC2329  # called by step
make_environment() {
    local extra
    case $cuda in
        12) extra=cupy-cuda12 ;;
        13) extra=cupy-cuda13 ;;
        *) echo "the driver is for CUDA '$cuda', and CuPy needs 12 or 13: update the driver"; return 1 ;;
    esac
    [[ -x .venv-gpu/bin/python ]] || python3 -m venv .venv-gpu || return 1
    .venv-gpu/bin/python -m pip install -q --upgrade 'pip>=25.1' &&
        .venv-gpu/bin/python -m pip install -q -e ".[demo,$extra]" --group gpu "$torch"
}

if [[ -z $python && -n $rehearse ]]; then
    python=.venv/bin/python
elif [[ -z $python ]]; then
    python=.venv-gpu/bin/python
    step environment make_environment
fi
if ! "$python" -c 'import slce_xp' 2>"$logs/import"; then
    cat "$logs/import"
    cat "$logs"/environment.* 2>/dev/null | tail -n 15
    echo "$python cannot import slce_xp, so nothing can run: mend the environment, or name another"
    echo "one with --python PATH"
    exit 2
fi

# ---------------------------------------------------------------- steps

# shellcheck disable=SC2329  # called by step
find_devices() {
    "$python" - "$rehearse" <<'PYTHON'
import sys

from benchmarks.memory import NAMES, available_on_gpu, devices
from benchmarks.timing import environment

print(environment())
found = available_on_gpu()
for backend, where in devices(found).items():
    print(f"{NAMES[backend]}: {where}")
missing = [name for backend, name in NAMES.items()
           if backend in ("cupy", "torch-cuda") and backend not in found]
if missing:
    print(f"no device for {' and '.join(missing)}: is it a CUDA build, and is the driver new enough "
          "for it? (--torch SPEC chooses another build of Torch)")
sys.exit(bool(missing) and not sys.argv[1])
PYTHON
}

if [[ -n $rehearse ]]; then
    small=--small
    quick=--quick
else
    small=
    quick=
fi
step devices find_devices
step tests "$python" -m pytest -m gpu -q -p no:cacheprovider
step speed "$python" -m benchmarks.gpu ${small:+"$small"}
step memory "$python" -m benchmarks.memory --backends cupy torch-cuda ${quick:+"$quick"} --output "$logs/memory"

# ---------------------------------------------------------------- report

show() { # show FILE LINES: the last lines of a file as a block
    if [[ -s $1 ]]; then
        echo '```text'
        tail -n "$2" "$1"
        echo '```'
    fi
}

failed=0
{
    echo "# GPU report of slce_xp"
    echo
    [[ -z $rehearse ]] || echo "**A rehearsal without a GPU: nothing in here was measured on one, and no time counts.**"
    echo
    echo "$(date -u '+%Y-%m-%d %H:%M') UTC, commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
    echo
    echo "| step | result | seconds |"
    echo "|---|---|---|"
    for i in "${!names[@]}"; do
        result=passed
        [[ ${codes[i]} -eq 0 ]] || { result="FAILED (code ${codes[i]})"; failed=1; }
        [[ ${names[i]} = tests && ${codes[i]} -eq 5 ]] && result="FAILED (no test has the marker gpu)"
        echo "| ${names[i]} | $result | ${seconds[i]} |"
    done
    echo
    echo "## Machine"
    echo
    show "$logs/nvidia-smi" 40
    show "$logs/devices.out" 20
    echo "## Tests"
    echo
    show "$logs/tests.out" 15
    echo "## Speed"
    echo
    cat "$logs/speed.out"
    echo
    echo "## Memory"
    echo
    [[ -f $logs/memory/memory.md ]] && cat "$logs/memory/memory.md"
    for i in "${!names[@]}"; do
        [[ ${codes[i]} -eq 0 ]] && continue
        echo
        echo "## What ${names[i]} said before it failed"
        echo
        show "$logs/${names[i]}.out" 60
        show "$logs/${names[i]}.err" 60
    done
} >"$report"
echo "wrote $report: please send it back"
exit "$failed"
