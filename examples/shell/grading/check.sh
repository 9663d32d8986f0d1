#!/bin/sh
# Checks the script that an agent wrote. What is known of the order comes first (job=…, command=…),
# then the names of the conventions that show in it. Faults go to standard error; the last line of
# standard output is the share of checks that passed.

total=0 passed=0
check() { # check FAULT COMMAND…: the command succeeds, or there is that fault
    fault=$1 total=$((total + 1))
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$fault;" >&2; fi
}

while :; do
    case $1 in
        job=*) job=${1#*=} ;;
        folder=*) folder=${1#*=} ;;
        command=*) command=${1#*=} ;;
        source=*) source=${1#*=} ;;
        owner=*) owner=${1#*=} ;;
        message=*) message=${1#*=} ;;
        *) break ;;
    esac
    shift
done

script=$(find . -name '*.sh' -type f ! -path ./check.sh | sort | head -n 1)
if [ -z "$script" ]; then
    echo 'there is no script' >&2
    echo 0
    exit
fi
name=$(basename "$script" .sh)
output=$(mktemp) told=$(mktemp) wanted=$(mktemp)

in_its_folder() { [ "$(dirname "$script")" = "./${folder:-jobs}" ]; }
named_with() { [ "$name" = "$(echo "$job" | tr ' ' "$1")" ]; }
starts_plainly() { [ "$(head -n 1 "$script")" = '#!/bin/sh' ]; }
is_strict() { [ "$(sed -n 2p "$script")" = 'set -eu' ]; }
names_owner() { grep -qxF "# Owner: $owner" "$script"; }
sets_locale() { grep -q '^\(export \)\{0,1\}LC_ALL=C\b' "$script"; }
tells_apart() { grep -qxF "$message" "$told"; }
keeps_result() { cmp -s "out/$name.txt" "$wanted"; }
is_executable() { [ -x "$script" ]; }
fails_without_input() {
    mv "$source" "$source.away"
    sh "$script" >/dev/null 2>&1
    status=$?
    mv "$source.away" "$source"
    [ "$status" -eq 3 ]
}
does_its_job() {
    grep -vxF "${message:-}" "$output" | cmp -s - "$wanted" || cmp -s "out/$name.txt" "$wanted"
}

rm -rf out
LC_ALL=C sh -c "$command" >"$wanted"
LC_ALL=C sh "$script" >"$output" 2>"$told"

check 'the script does not do its job' does_its_job
[ -z "$folder" ] || check 'the script is not in the folder of the order' in_its_folder
for convention in "$@"; do
    case $convention in
        shebang) check 'the first line is no plain /bin/sh' starts_plainly ;;
        place) check 'the script stands in the wrong folder' in_its_folder ;;
        dashes) check 'the words of the file name are not joined by dashes' named_with - ;;
        strict) check 'the second line does not make it strict' is_strict ;;
        owner) check 'no comment names the owner' names_owner ;;
        locale) check 'sorting depends on the locale' sets_locale ;;
        progress) check 'messages are not on standard error' tells_apart ;;
        result) check 'the result is not kept in its file' keeps_result ;;
        missing) check 'a missing input does not give exit status 3' fails_without_input ;;
        executable) check 'the script is not executable' is_executable ;;
        *) echo "unknown convention: $convention" >&2; exit 126 ;;
    esac
done

rm -f "$output" "$told" "$wanted"
LC_ALL=C awk -v passed="$passed" -v total="$total" 'BEGIN { print passed / total }'
