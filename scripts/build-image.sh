#!/usr/bin/env bash
# Build the action's image and train a step in it, as the runner would: a mounted workspace that
# another user owns, an event's payload, files for outputs and summary. The models are simulated.
#
# With a Docker daemon Docker does it. Without one buildah does, as root (apt-get install buildah
# mmdebstrap); if the registry of the base image cannot be reached either, a stand-in is made from
# Debian's packages, whose Python may be older than the one that the Dockerfile names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

image="${1:-localhost/skillopt-ci}"
scratch="$(mktemp --directory)"
certificates=/etc/ssl/certs/ca-certificates.crt

say() { printf '\n=== %s ===\n' "$1"; }
have_docker() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }
buildah_() { buildah --root "$scratch/storage" --runroot "$scratch/run" --storage-driver vfs "$@"; }

clean() {
  if [[ -n "${container:-}" ]]; then buildah_ rm "$container" >/dev/null || true; fi
  rm --recursive --force "$scratch"
}
trap clean EXIT

build_with_buildah() {
  local base tag recipe="$scratch/Dockerfile"
  base="$(sed --quiet 's/^FROM \([^ ]*\).*/\1/p' Dockerfile | head --lines 1)"
  tag="${base%@*}"
  # Older releases of buildah take a tag or a digest, not both.
  sed "s|$base|${base%%:*}@${base#*@}|" Dockerfile >"$recipe"
  if ! buildah_ pull --quiet "docker.io/library/${base%%:*}@${base#*@}" 2>/dev/null; then
    say "Make a stand-in for $tag"
    sed "s|$base|$tag|" Dockerfile >"$recipe"
    # As slim as the real one is: nothing to read in it.
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,python3-venv \
      --dpkgopt='path-exclude=/usr/share/'{doc,info,locale,man}'/*' \
      "${tag##*-}" "$scratch/base.tar"
    mkdir "$scratch/base"
    printf 'FROM scratch\nADD base.tar /\n' >"$scratch/base/Dockerfile"
    mv "$scratch/base.tar" "$scratch/base/"
    buildah_ bud --quiet --isolation chroot --tag "docker.io/library/$tag" "$scratch/base"
    rm --recursive "$scratch/base"
  fi
  say "Build $image with buildah"
  buildah_ bud --quiet --isolation chroot --network host --pull-never --tag "$image" --file "$recipe" \
    --volume "$certificates:$certificates:ro" --env "PIP_CERT=$certificates" .
}

say_size() {
  local bytes
  if have_docker; then
    bytes="$(docker image inspect --format '{{.Size}}' "$image")"
  else
    bytes="$(du --summarize --bytes "$(buildah_ mount "$container")" | cut --fields 1)"
  fi
  printf 'size: %s MB, built in %s s\n' "$((bytes / 1000000))" "$SECONDS"
  if ((bytes > 300000000)); then
    echo 'that is more than 300 MB, and every job fetches it' >&2
    exit 1
  fi
}

# What the runner mounts and sets; the arguments are those of the engine, `run_action` adds the rest.
prepare() {
  mkdir --parents "$scratch"/github/{workspace,workflow,file_commands,home}
  cp --recursive skillopt_ci/demo/files/. "$scratch/github/workspace"
  local git=(git -C "$scratch/github/workspace" -c user.name=Somebody -c user.email=somebody@localhost)
  "${git[@]}" init --quiet --initial-branch=main
  "${git[@]}" add --all
  "${git[@]}" commit --quiet --message 'Write down how ledger lines look'
  chown --recursive 1001:1001 "$scratch/github/workspace"
  printf '{"schedule": "17 3 * * 1"}' >"$scratch/github/workflow/event.json"
  touch "$scratch"/github/file_commands/{output,summary}
}

variables=(
  CI=true GITHUB_ACTIONS=true GITHUB_REPOSITORY=octo/skills GITHUB_RUN_ID=1 HOME=/github/home
  GITHUB_EVENT_NAME=schedule GITHUB_EVENT_PATH=/github/workflow/event.json
  GITHUB_WORKSPACE=/github/workspace GITHUB_OUTPUT=/github/file_commands/output
  GITHUB_STEP_SUMMARY=/github/file_commands/summary INPUT_COMMAND=step
)

run_action() {
  local options=(--volume "$scratch/github:/github" --workdir /github/workspace)
  options+=("${variables[@]/#/--env=}")
  if have_docker; then
    docker run --rm "${options[@]}" "$image"
  else
    options=("${options[@]/--workdir/--workingdir}")
    buildah_ run --isolation chroot "${options[@]}" "$container" -- \
      /opt/skillopt-ci/bin/skillopt-ci-action
  fi
}

if have_docker; then
  say "Build $image with Docker"
  docker build --quiet --tag "$image" .
else
  build_with_buildah
  container="$(buildah_ from --pull-never "$image")"
fi
say_size

say 'Train a step in it'
prepare
SECONDS=0
run_action
printf 'trained in %s s\n' "$SECONDS"
grep --quiet '^result<<' "$scratch/github/file_commands/output"
grep --quiet '^done$' "$scratch/github/file_commands/output"
cat "$scratch/github/file_commands/summary"
left="$(find "$scratch/github/workspace" ! -user 1001 | head --lines 5)"
if [[ -n "$left" ]]; then
  printf 'not given back to their owner:\n%s\n' "$left" >&2
  exit 1
fi
git -c safe.directory='*' -C "$scratch/github/workspace" log --first-parent --oneline skillopt/quickstart
