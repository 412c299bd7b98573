#!/usr/bin/env bash
# Makes the release of VERSION from a clean clone of this commit, in which the
# section Unreleased of CHANGELOG.md becomes that of the version, and tries it.
# Nothing in this tree changes. Refuses where docs/Nightly.md says that a step
# failed, is missing or is older than a week.
# usage: scripts/release.sh [--check | OUT]     default: build/release-VERSION
#   --check: only say whether there may be a release now
#   OUT/source: the clone, with the commit and the tag of the release
#   OUT/files: wheels, the static executable, the archive of tools, C interface
#              and runtime, SHA256SUMS
#   OUT/notes.md
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(<VERSION)
tag=v$version
days=7

refuse() {
  echo "release: $*"
  refused=1
}

# All reasons against a release, not the first one alone.
check() {
  refused=0
  [ -z "$(git status --porcelain)" ] || refuse "expects a tree without changes, but got some: commit them"
  ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || refuse "expects a new version in VERSION, but $tag is released"
  python3 scripts/nightly-table.py --check "$days" || refuse "expects every step of the nightly to be ok: scripts/nightly.sh STEP..."
  local scratch last
  scratch=$(mktemp -d)
  cp CHANGELOG.md "$scratch"
  scripts/changelog.py release "$version" --page "$scratch/CHANGELOG.md" 2>&1 || refuse "expects CHANGELOG.md to say what is new"
  if last=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); then
    for record in c.txt python.txt; do
      git show "$last:test/Compatibility/$record" >"$scratch/$record"
    done
    scripts/interfaces.py --against "$scratch" || refuse "expects what $last promised (docs/Compatibility.md)"
    local bundles
    bundles=$(git diff --name-only --diff-filter=a "$last" -- test/Compatibility/Inputs)
    [ -z "$bundles" ] || refuse "expects the stored bundles of $last as they were, but got changes in" $bundles
  fi
  rm -r "$scratch"
  return $refused
}

make_release() {
  rm -rf "$out"
  mkdir -p "$out/files"
  out=$(cd "$out" && pwd)
  local name mail
  name=$(git config user.name) mail=$(git config user.email)
  git clone --quiet . "$out/source"
  cd "$out/source"
  scripts/changelog.py release "$version"
  git -c user.name="$name" -c user.email="$mail" commit --quiet --all --message "Release $version"
  git -c user.name="$name" -c user.email="$mail" tag --annotate "$tag" --message "FlashCore $version"
  scripts/setup.sh release
  scripts/wheel.sh release
  cp build/wheel/*.whl "$out/files"
  scripts/package.sh build/release "$out/files"
  rm "$out"/files/*.sha256 # SHA256SUMS has it
  archive=$(basename "$out"/files/*.tar.gz .tar.gz)
  tar -xzOf "$out/files/$archive.tar.gz" "$archive/bin/flashcore" >"$out/files/$archive"
  chmod 755 "$out/files/$archive"
  (cd "$out/files" && sha256sum -- * >"$scratch/SHA256SUMS" && mv "$scratch/SHA256SUMS" .)
  {
    scripts/changelog.py notes "$version"
    printf '\n## Files\n\n```\n%s\n```\n' "$(<"$out/files/SHA256SUMS")"
  } >"$out/notes.md"
}

# Each file as its users have it, without this tree's build or environment.
try_release() {
  local example=$out/source/docs/examples/attention.mlir clean=(env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$scratch")
  cd "$scratch"
  (cd "$out/files" && sha256sum --check --quiet --strict SHA256SUMS)
  echo "release: trying the executable"
  env -i PATH=/nonexistent "$out/files/$archive" run "$example" --device=emulator -- --no-cubin
  echo "release: trying the archive"
  tar -xzf "$out/files/$archive.tar.gz"
  (cd "$archive" && sha256sum --check --quiet --strict SHA256SUMS)
  "${clean[@]}" "$scratch/$archive/bin/flashcore-compile" "$example" --emit=bundle --no-cubin -o attention.fcb
  {
    "${clean[@]}" cmake -S "$out/source/docs/examples/runtime" -B example -DCMAKE_PREFIX_PATH="$scratch/$archive" \
      -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON &&
      "${clean[@]}" cmake --build example
  } >example.log 2>&1 || { cat example.log >&2 && exit 1; }
  "${clean[@]}" example/attention attention.fcb
  echo "release: trying the wheel"
  python3 -m venv venv
  venv/bin/python -m pip install --quiet "$out"/files/*"_$(uname -m).whl" numpy
  "${clean[@]}" venv/bin/flashcore attention 'b1 h4/2 s40x64 d64 causal' --device=emulator
  cd "$out/source"
  # On a system of the oldest libc that the wheel is for.
  if [ -x scripts/old-root.sh ]; then
    echo "release: trying all of it in the old root"
    scripts/old-root.sh "$out"/files/*"_$(uname -m).whl" "$out/files/$archive.tar.gz"
  fi
}

main() {
  if [ "${1:-}" = --check ]; then
    check && echo "release: $version may be made"
    return
  fi
  check || return 1
  out=${1:-build/release-$version}
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  local tree=$PWD
  make_release
  try_release
  echo "release: $out/files and $out/notes.md are made and tried. To take its commit and tag: git -C $tree fetch $out/source tag $tag && git -C $tree merge --ff-only $tag"
}
main "$@"
