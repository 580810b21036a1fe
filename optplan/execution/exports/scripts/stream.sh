set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
name=$1 way=$2
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || { echo "submit.sh: no name for a job: $name" >&2; exit 2; }
case $way in
@CASES@  *) echo "submit.sh: there is no way $way" >&2; exit 2 ;;
esac
mkdir -p logs
