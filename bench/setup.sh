#!/bin/sh
# Makes the environments of the systems that are compared, in the folder that is given.
set -eu
cache=${1:?usage: bench/setup.sh CACHE_FOLDER}
python=${PYTHON:-python3}
mkdir -p "$cache"
"$python" -m venv "$cache/skillopt"
"$cache/skillopt/bin/pip" install --quiet skillopt==0.2.0
# The released wheel lacks SkillOpt's prompt files, without which it cannot train. Ours have the same
# names and ask for the same JSON; the world reads the material in a prompt, not its instructions.
prompts=$("$cache/skillopt/bin/python" -c 'import skillopt.prompts as p; print(p.__path__[0])')
cp -n "$(dirname "$0")"/../skillopt_ci/prompts/*.md "$prompts"
"$python" -m venv "$cache/gepa"
"$cache/gepa/bin/pip" install --quiet gepa==0.1.4 httpx
# Ours without the packages of development: some of them are imported where they are found.
"$python" -m venv "$cache/ours"
"$cache/ours/bin/pip" install --quiet "$(dirname "$0")/.."
"$cache/ours/bin/python" -c 'import openai, skillopt_ci.training.trainer'
"$cache/skillopt/bin/python" -c 'import skillopt.engine.trainer'
"$cache/gepa/bin/python" -c 'import gepa, httpx'
