#!/usr/bin/env bash
# Time how long the composite action installs itself, as a fresh runner would: without any cache but
# that of the package index's own. With a commit, that commit's action: scripts/cold-start.sh v0.1.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch="$(mktemp --directory)"
trap 'rm --recursive --force "$scratch"' EXIT
git archive "${1:-HEAD}" | tar --extract --directory "$scratch"

# The step's own commands, with what the runner sets.
.venv/bin/python - "$scratch" >"$scratch/install.sh" <<'EOF'
import sys, yaml
steps = yaml.safe_load(open(f"{sys.argv[1]}/composite/action.yml"))["runs"]["steps"]
print(next(step["run"] for step in steps if step.get("name") == "Install skillopt-ci"))
EOF
export RUNNER_TEMP="$scratch/temp" SOURCE="$scratch/composite/.." HOME="$scratch/home"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1
unset PYTHONDONTWRITEBYTECODE
mkdir "$RUNNER_TEMP" "$HOME"

start="$(date +%s%N)"
PATH="$(dirname "$(readlink --canonicalize .venv/bin/python)"):$PATH" bash -euo pipefail "$scratch/install.sh"
installed="$(date +%s%N)"
"$RUNNER_TEMP/skillopt-ci/bin/skillopt-ci" --version
printf 'installed in %d.%d s, first start %d ms, %d MB, %d compiled files\n' \
  $(((installed - start) / 1000000000)) $(((installed - start) / 100000000 % 10)) \
  $((($(date +%s%N) - installed) / 1000000)) \
  $(($(du --summarize --bytes "$RUNNER_TEMP/skillopt-ci" | cut --fields 1) / 1000000)) \
  "$(find "$RUNNER_TEMP/skillopt-ci" -name '*.pyc' | wc --lines)"
