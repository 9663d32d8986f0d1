"""The trainer. Start reading in ``trainer``. The modules, by purpose:

- the loop and its state: ``trainer``, ``state``, ``run_context``, ``baseline``, ``fingerprint``
- a step: ``plan``; ``rollout_stage``, ``reflect``, ``aggregate`` (and select), ``update``, all
  called by ``propose``; then ``evaluate`` with ``gate`` and ``measure``
- what a step asks and is told: ``ask``, ``replies``, ``memory``, ``review_comments``, ``guard``
- an epoch's end: ``slow_update``, ``confirm``; the end of a run: ``final_evaluation``
- beside the loop: ``prefetcher`` (with shards), ``offline_eval``, ``revert``
"""
