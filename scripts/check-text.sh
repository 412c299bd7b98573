#!/usr/bin/env bash
# Fails where a file has trailing whitespace, marks of a merge conflict or no
# single newline at its end, and where a script has a syntax error. Inputs of
# tests are as a compiler or a fuzzer left them.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
empty=$(git hash-object -t tree /dev/null)
git --no-pager diff --check "$empty" -- . ':!*/Inputs/*' ':!*/corpus*/*' || failed=1
while read -r script; do
  bash -n "$script" || failed=1
done < <(git ls-files '*.sh' .ci/run)
git ls-files -z '*.py' | xargs -0 python3 -c '
import ast, sys
for name in sys.argv[1:]:
    try:
        ast.parse(open(name, encoding="utf-8").read(), name)
    except (SyntaxError, ValueError) as error:
        sys.exit(f"{name}: {error}")' || failed=1
exit $failed
