#!/usr/bin/env bash
# Send our client through a real LiteLLM proxy whose models are mocked: an independent opinion of
# what we send and read. The proxy gets an environment of its own, for its pins are strict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch="$(mktemp --directory)"
clean() {
  if [[ -n "${proxy:-}" ]]; then kill "$proxy" 2>/dev/null || true; fi
  rm --recursive --force "$scratch"
}
trap clean EXIT

python3 scripts/bootstrap.py --dev
python="${PYTHON:-.venv/bin/python}"
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet 'litellm[proxy]'

cat >"$scratch/proxy.yaml" <<'YAML'
model_list:
  - model_name: answering
    litellm_params: {model: openai/gpt-4o-mini, api_key: none, mock_response: "hello from the proxy"}
  - model_name: busy
    litellm_params: {model: openai/gpt-4o-mini, api_key: none, mock_response: "litellm.RateLimitError"}
  - model_name: claude
    litellm_params: {model: anthropic/claude-haiku-4-5, api_key: none, mock_response: "hello, Claude"}
general_settings: {master_key: sk-check}
router_settings: {num_retries: 0}
YAML

export LITELLM_LOCAL_MODEL_COST_MAP=True NO_PROXY=127.0.0.1,localhost
port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
"$scratch/venv/bin/litellm" --config "$scratch/proxy.yaml" --host 127.0.0.1 --port "$port" \
  >"$scratch/log" 2>&1 &
proxy=$!

if ! "$python" scripts/litellm_check.py "http://127.0.0.1:$port"; then
  tail --lines 40 "$scratch/log" >&2
  exit 1
fi
