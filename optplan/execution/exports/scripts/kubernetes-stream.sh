# A job of a class: submit.sh NAME WAY. `optplan submit` chooses the way.
name=$1 way=$2
[[ $name =~ ^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$ ]] || {
  echo "submit.sh: $name is no name for a job of Kubernetes: lower-case letters, digits and hyphens, up to 15" >&2
  exit 2
}
name_of() { echo "@TAG@-$1-$name"; }
write() { sed "s/@JOB@/$name/g" "manifests/$1.yaml"; }
case $way in
@CASES@  *) echo "submit.sh: there is no way $way" >&2; exit 2 ;;
esac
for step in $steps; do
  [[ ! -e trials/$name/ended-$step ]] || continue
  begin "$step"
  await "$step"
  require "trials/$name/ended-$step"
done
