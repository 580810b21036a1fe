if command -v flock >/dev/null; then
  exec 9>>submit.lock
  flock --timeout 1 9 || { # who only looks, as optplan stop does, lets go at once
    echo "submit.sh: an earlier one, or what it started, has not ended; wait for it, or end it" >&2
    exit 1
  }
fi
