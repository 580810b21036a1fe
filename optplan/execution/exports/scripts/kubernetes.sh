#!/usr/bin/env bash
# Applies the manifests in the plan's order. This folder has to be the one that the pods mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
# look KIND NAME: its name, if it is there, and what is true of it
look() {
  kubectl get@SPACE@ "$1" "$2" --ignore-not-found \
    -o 'jsonpath={.metadata.name} {.status.conditions[?(@.status=="True")].type}'
}
# begin STEP KIND NAME: what ended without its members having ended is deleted first, or it would never run again
begin() {
  local found
  found=$(look "$2" "$3")
  case "$found " in
    *" Complete "* | *" Completed "* | *" Failed "*) kubectl delete@SPACE@ --wait "$2" "$3" ;;
  esac
  write "$1" | kubectl apply -f -
}
write() { cat "manifests/$1.yaml"; }
# await KIND NAME: until it has completed; fails when it has failed, or is gone
await() {
  local found errors=0
  while ((errors < 60)); do
    if ! found=$(look "$1" "$2"); then
      errors=$((errors + 1))
    else
      errors=0
      case "$found " in
        *" Complete "* | *" Completed "*) return 0 ;;
        *" Failed "*) echo "submit.sh: $1 $2 failed" >&2; return 1 ;;
        " "*) echo "submit.sh: $1 $2 was deleted" >&2; return 1 ;;
      esac
    fi
    sleep 5
  done
  echo "submit.sh: kubectl cannot see $1 $2; submit again when it can" >&2
  return 1
}
# require MARK: until this folder shows what the pods left, which on some volumes takes a minute
require() {
  local looks
  for ((looks = 0; looks < 24; looks++)); do
    [[ ! -e $1 ]] || return 0
    sleep 5
  done
  echo "submit.sh: it has ended without $1: is this folder the one that the pods mount?" >&2
  return 1
}
