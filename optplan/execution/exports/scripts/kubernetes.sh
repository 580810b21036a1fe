#!/usr/bin/env bash
# Applies the manifests in the plan's order. This folder has to be the one that the pods mount.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
# kind_of STEP and name_of STEP: what the object is that runs it, and what that is called
kind_of() { sed -n 's/^kind: //p' "manifests/$1.yaml" | tr '[:upper:]' '[:lower:]'; }
name_of() { echo "@TAG@-$1"; }
# look KIND NAME: its name, if it is there, and what is true of it
look() {
  kubectl get@SPACE@ "$1" "$2" --ignore-not-found \
    -o 'jsonpath={.metadata.name} {.status.conditions[?(@.status=="True")].type}'
}
# begin STEP: what ended without its members having ended is deleted first, or it would never run again
begin() {
  local kind object found
  kind=$(kind_of "$1")
  object=$(name_of "$1")
  found=$(look "$kind" "$object")
  case "$found " in
    *" Complete "* | *" Completed "* | *" Failed "*) kubectl delete@SPACE@ --wait "$kind" "$object" ;;
  esac
  write "$1" | kubectl apply -f -
}
write() { cat "manifests/$1.yaml"; }
# await STEP: until it has completed; fails when it has failed, or is gone
await() {
  local kind object found errors=0
  kind=$(kind_of "$1")
  object=$(name_of "$1")
  while ((errors < 60)); do
    if ! found=$(look "$kind" "$object"); then
      errors=$((errors + 1))
    else
      errors=0
      case "$found " in
        *" Complete "* | *" Completed "*) return 0 ;;
        *" Failed "*) echo "submit.sh: $kind $object failed" >&2; return 1 ;;
        " "*) echo "submit.sh: $kind $object was deleted" >&2; return 1 ;;
      esac
    fi
    sleep 5
  done
  echo "submit.sh: kubectl cannot see $kind $object; submit again when it can" >&2
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
