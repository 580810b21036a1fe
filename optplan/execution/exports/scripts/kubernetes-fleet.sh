@LOCK@if [[ ! -e @ENDED@ ]]; then
  begin train @TRAIN@
  await @TRAIN@
  require @ENDED@
fi
