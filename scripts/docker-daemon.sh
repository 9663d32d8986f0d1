#!/usr/bin/env bash
# A Docker engine and a small image for the tests, without any registry.
#
#   scripts/docker-daemon.sh FOLDER
#
# Prints the variables that the tests read, to be eval'ed. An engine that already answers is used
# (DOCKER_HOST, or the usual socket); otherwise, as root and with `dockerd` installed, one is started
# with all its files in FOLDER. The image is made of this machine's own programs. Doing it again
# changes nothing.
set -euo pipefail

folder=$(mkdir -p "$1" && cd "$1" && pwd)
image=skillopt-ci-test:1
own=unix://$folder/docker.sock

answers() { DOCKER_HOST=$1 timeout 10 docker version >/dev/null 2>&1; }

start_engine() {
  command -v dockerd >/dev/null || { echo "docker-daemon.sh: no engine answers, and there is no dockerd" >&2; exit 3; }
  ((EUID == 0)) || { echo "docker-daemon.sh: no engine answers, and only root can start one" >&2; exit 3; }
  rm -f "$folder/pid"
  setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" --host "$own" \
    --pidfile "$folder/pid" >"$folder/log" 2>&1 </dev/null &
  local end=$((SECONDS + 90))
  while ((SECONDS < end)) && kill -0 "$!"; do
    if answers "$own"; then return; fi
    sleep 0.5
  done 2>/dev/null
  echo "docker-daemon.sh: dockerd did not start within 90 s, or ended; it said:" >&2
  tail -n 20 "$folder/log" >&2
  exit 3
}

# Programs, the libraries that they are linked with, and Python's own library.
image_files() {
  local programs=(bash cat chmod cp dash df env find grep head id kill ln ls mkdir mv ps rm setsid sh
    sleep stat sync tail tar tee touch true false unshare wc mount chroot python3) program files=()
  for program in "${programs[@]}"; do
    files+=("$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v "$program" || true)")
  done
  local python=/usr/lib/python3.$(/usr/bin/python3 -c 'import sys; print(sys.version_info.minor)')
  printf '%s\n' "${files[@]}" | grep '^/' | while read -r program; do
    printf '%s\n' "$program" "$(readlink -f "$program")"
  done
  find "$python" -name __pycache__ -prune -o -name dist-packages -prune -o -type f -print
  { printf '%s\n' "${files[@]}" | grep '^/'; find "$python/lib-dynload" -name '*.so'; } |
    xargs ldd 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$' | while read -r library; do
    printf '%s\n' "$library" "$(readlink -f "$library")"
  done
}

make_image() {
  local root
  root=$(mktemp -d "$folder/image.XXXXXX")
  for link in bin sbin lib lib64; do
    if [[ -L /$link ]]; then
      mkdir -p "$root/usr/$link" && ln -s "usr/$link" "$root/$link"
    fi
  done
  mkdir -p "$root"/{etc,tmp,proc,dev,sys,workspace,home/agent}
  image_files | sort -u | sed 's,^/,,' | (cd / && tar -cf - --no-recursion -T -) |
    tar -xf - -C "$root" --keep-directory-symlink
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
  tar -cf - -C "$root" . | DOCKER_HOST=$1 docker import - "$image" >/dev/null
  rm -rf "$root"
}

host=${DOCKER_HOST:-unix:///var/run/docker.sock}
if ! answers "$host"; then
  host=$own
  answers "$own" || start_engine
fi
if ! DOCKER_HOST=$host docker image inspect "$image" >/dev/null 2>&1; then
  make_image "$host"
fi
printf 'export DOCKER_HOST=%q SKILLOPT_CI_TEST_IMAGE=%q\n' "$host" "$image"
