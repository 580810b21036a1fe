@LOCK@# is_left STEP: whether anybody of it has not ended
is_left() {
  local trial
  while read -r trial; do
    [[ -e trials/$trial/ended-$1 ]] || return 0
  done <"members/$1.txt"
  return 1
}
# run STEP...: side by side; trials that failed are ranked behind the others, and the search goes on without them
run() {
  local step
  for step in "$@"; do ! is_left "$step" || begin "$step"; done
  for step in "$@"; do ! is_left "$step" || await "$step" || true; done
}
