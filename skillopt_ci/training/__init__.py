"""The trainer. Start reading in ``trainer``; the stages, in order:

- where training stands: ``trainer``, ``state``, ``baseline``
- a step: ``plan``, ``rollout_stage``, ``reflect``, ``aggregate`` (and select), ``update``, all
  called by ``propose``; then ``evaluate`` with ``gate``
- an epoch's end: ``slow_update``; the end of a run: ``final_evaluation``
- beside them: ``prefetcher``, ``guard``, ``shard``
- without training: ``offline_eval``
"""
