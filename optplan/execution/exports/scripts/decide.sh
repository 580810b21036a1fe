decide() {
  local code=0
  @OPTPLAN@ promote . "$1" || code=$?
  ((code == 0)) || { @OPTPLAN@ promote . --winner || true; exit "$code"; }
}
