decide() {
  local code=0
  @PROMOTE@ "$1" || code=$?
  ((code == 0)) || { @PROMOTE@ --winner || true; exit "$code"; }
}
