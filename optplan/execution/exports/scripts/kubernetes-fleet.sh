@LOCK@if [[ ! -e trials/job/ended-@STEP@ ]]; then
  begin train
  await train
  require trials/job/ended-@STEP@
fi
