#!/usr/bin/env bash
# Builds the site of the documentation into build/site. A link that leads nowhere,
# or a page that README.md does not name, is an error.
# usage: scripts/site.sh
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/site-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet mkdocs-material "mkdocstrings[python]" mkdocs-jupyter
mkdir -p build/site-docs # mkdocs wants it before the hook fills it
"$venv/bin/mkdocs" build --quiet --strict
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages"
