#!/usr/bin/env bash
# Makes what a release carries, from a build with FLASHCORE_STATIC_LLVM:
#   OUT/flashcore-VERSION-linux-ARCH.tar.gz and its .sha256
# with the executable that needs no LLVM, the C interface (libflashcore.so, which
# needs none either) and the runtime, each with headers and a CMake package, docs,
# licences, and SHA256SUMS of all of them. The same build gives the same bytes.
# usage: scripts/package.sh [BUILD [OUT]]     default: build/release, BUILD/package
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
build=${1:-build/release}
out=${2:-$build/package}

[ -f "$build/CMakeCache.txt" ] && grep -q '^FLASHCORE_STATIC_LLVM:BOOL=ON' "$build/CMakeCache.txt" || {
  echo "package: expects a build with FLASHCORE_STATIC_LLVM=ON, but got '$build'; scripts/setup.sh makes build/release" >&2
  exit 1
}
build=$(cd "$build" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
stage=$(mktemp -d "$out/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cmake --build "$build" --target flashcore flashcore-shared FlashCoreRuntime FlashCoreEmulator >"$stage/build.log" ||
  { tail -n 60 "$stage/build.log" >&2; exit 1; }
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
# A build for another machine says so (scripts/aarch64.sh).
machine=$(grep -q '^FLASHCORE_SYSROOT:[A-Z]*=.' "$build/CMakeCache.txt" && echo aarch64 || uname -m)
name=flashcore-$version-linux-$machine
root=$stage/$name

for component in Static CAPI Runtime; do
  cmake --install "$build" --component "$component" --prefix "$root" --strip >/dev/null
done
for tool in opt compile run emu; do
  ln -s flashcore "$root/bin/flashcore-$tool"
done
cp -r docs "$root/docs"
cp README.md CHANGELOG.md LICENSE THIRD_PARTY_NOTICES.md "$root"

# What was linked must be named: the archives that the linker got, and what has
# headers only. Nothing may name the machine of the build.
projects=('LLVM and MLIR' nlohmann-json CLI11 libstdc++)
links=$(ninja -C "$build" -t commands flashcore flashcore-shared |
  grep -E ' -o (bin/flashcore|lib/libflashcore\.so[^ ]*) ')
archives=$(grep -oE '[^ /]+\.a( |$)' <<<"$links" | sort -u)
for archive in $archives; do
  case $archive in
    libLLVM* | libMLIR* | libFlashCore* | libFCGPU*) ;;
    libz.a) projects+=(zlib) ;;
    libzstd.a) projects+=(Zstandard) ;;
    *) projects+=("$archive") ;;
  esac
done
for project in "${projects[@]}"; do
  grep -qF "[$project" "$root/THIRD_PARTY_NOTICES.md" || {
    echo "package: expects a notice of $project in THIRD_PARTY_NOTICES.md" >&2
    exit 1
  }
done
for path in "$source" "$build" "$stage"; do
  if files=$(grep -rlaF "$path" "$root"); then
    echo "package: expects no path of this machine, but got $path in" $files >&2
    exit 1
  fi
done

chmod -R u=rwX,go=rX "$root"
(cd "$root" && find . -type f | LC_ALL=C sort | xargs sha256sum >"$stage/SHA256SUMS" && mv "$stage/SHA256SUMS" .)
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$time" -cf - "$name" |
  gzip -n >"$stage/$name.tar.gz"
(cd "$stage" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
mv -f "$stage/$name.tar.gz" "$stage/$name.tar.gz.sha256" "$out"
echo "package: $out/$name.tar.gz, $(stat -c %s "$out/$name.tar.gz") bytes"
