# shellcheck shell=bash
# relink ROOT: links of packages unpacked into ROOT, which are for a system that has
# these files as its own, lead to the files in ROOT. Sourced by scripts.
relink() {
  local link target
  find "$1" -type l -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link target; do
    ln -sfr "$1$target" "$1/$link"
  done
}
