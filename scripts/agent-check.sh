#!/usr/bin/env bash
# Run the makers' own agents (Claude Code, Codex, Copilot, Gemini) with our solver against a scripted
# model: an independent opinion of how we start them and what we read. No key, no account, no model.
#
#   scripts/agent-check.sh            the versions that docs/agents.md names
#   scripts/agent-check.sh latest     the newest ones; what passes is written into docs/agents.md
#   scripts/agent-check.sh record     those of the page; the tests' recorded streams are written anew
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted="${1:-checked}"
scratch="$(mktemp --directory)"
clean() { rm --recursive --force "$scratch"; }
trap clean EXIT
# A sandbox works as another user, who must get in.
chmod 755 "$scratch"

python3 scripts/bootstrap.py --dev
python="${PYTHON:-.venv/bin/python}"

packages=()
while read -r package; do
  if [[ "$wanted" == latest ]]; then packages+=("${package%@*}@latest"); else packages+=("$package"); fi
done < <("$python" scripts/agent_versions.py packages)

echo "{}" >"$scratch/package.json"
npm install --prefix "$scratch" --no-audit --no-fund --loglevel=error "${packages[@]}"
# They look for it beside themselves.
ln --symbolic --force "$(command -v node)" "$scratch/node_modules/.bin/node"

export SKILLOPT_CI_TEST_AGENTS="$scratch/node_modules/.bin"
if [[ "$wanted" == record ]]; then export SKILLOPT_CI_RECORD_AGENTS=1; fi
"$python" -m pytest -n0 -q -rs tests/rollout/solvers/test_real_agents.py

if [[ "$wanted" == latest ]]; then "$python" scripts/agent_versions.py keep "$scratch"; fi
