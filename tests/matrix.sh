#!/usr/bin/env bash
# The ADK-facing tests on several versions of google-adk and Python: prints one line of a table each, and fails
# when any of them fails or an interpreter is missing. Environments are made anew in a temporary folder, or kept in
# the one given as argument and used again: tests/matrix.sh [CACHE]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

ROWS=("2.10.0 3.11" "latest 3.11" "latest 3.12" "latest 3.13")
TESTS=(tests/adk tests/acceptance tests/test_samples.py)
# ADK's own deprecations of earlier days are no fault of ours; every other warning is an error as ever.
WARNINGS=(-W ignore::DeprecationWarning)
TOOLS=("pytest>=8.4,<10" "pytest-asyncio>=1.2,<2" "hypothesis>=6.150,<7")

if [ $# -gt 0 ]; then
    mkdir -p "$1" && CACHE=$(cd "$1" && pwd) || exit 1
else
    CACHE=$(mktemp -d -t kagent-memory-matrix-XXXXXX)
    trap 'rm -rf "$CACHE"' EXIT
fi

# The interpreter of a version, by its own name or as pyenv knows it.
interpreter() {
    local found
    for found in "$(command -v "python$1")" "$(PYENV_VERSION=$1 pyenv which "python$1" 2>/dev/null)"; do
        [ -n "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null &&
            echo "$found" && return
    done
    return 1
}

# An environment with this checkout and one version of ADK: "latest" is upgraded, the others stay as they are.
environment() {
    local folder=$1 python=$2 version=$3
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder" || return 1
    local adk=("google-adk==$version")
    [ "$version" = latest ] && adk=(--upgrade google-adk)
    "$folder/bin/pip" install --quiet --disable-pip-version-check --editable ".[litellm,pgserver]" "${TOOLS[@]}" "${adk[@]}"
}

# passed and failed of a run, from its JUnit file; an error is a failure, and so is a test that was skipped.
counts() {
    "$1" - "$2" <<'PYTHON'
import sys
import xml.etree.ElementTree as ElementTree

suite = ElementTree.parse(sys.argv[1]).getroot().find("testsuite")
failed = sum(int(suite.get(name)) for name in ("failures", "errors", "skipped"))
print(int(suite.get("tests")) - failed, failed)
PYTHON
}

bad=0
printf '| %-7s | %-7s | %6s | %6s |\n|---------|---------|--------|--------|\n' ADK Python passed failed
for row in "${ROWS[@]}"; do
    read -r adk version <<<"$row"
    if ! python=$(interpreter "$version"); then
        printf '| %-7s | %-7s | no such interpreter\n' "$adk" "$version"
        bad=1
        continue
    fi
    folder=$CACHE/adk-$adk-python-$version
    log=$folder.log
    if ! environment "$folder" "$python" "$adk" >"$log" 2>&1; then
        printf '| %-7s | %-7s | not installed, see below\n' "$adk" "$version"
        tail -20 "$log" >&2
        bad=1
        continue
    fi
    rm -f "$folder.xml"
    "$folder/bin/python" -m pytest "${TESTS[@]}" "${WARNINGS[@]}" --tb=short --junitxml="$folder.xml" >>"$log" 2>&1
    real=$("$folder/bin/python" -c 'import importlib.metadata as m, platform as p; print(m.version("google-adk"), p.python_version())')
    read -r installed exact <<<"$real"
    if read -r passed failed < <(counts "$folder/bin/python" "$folder.xml" 2>>"$log") && [ -n "${failed:-}" ]; then
        printf '| %-7s | %-7s | %6s | %6s |\n' "$installed" "$exact" "$passed" "$failed"
    else
        failed=1
        printf '| %-7s | %-7s | the tests did not run, see below\n' "$installed" "$exact"
    fi
    if [ "$failed" != 0 ] || [ "${passed:-0}" = 0 ]; then
        tail -40 "$log" >&2
        bad=1
    fi
    passed= failed=
done
exit "$bad"
