@LOCK@# is_left STEP: whether anybody of it has not ended
is_left() {
  local trial
  while read -r trial; do
    [[ -e trials/$trial/ended-$1 ]] || return 0
  done <"members/$1.txt"
  return 1
}
