"""The trainer. Start reading in ``trainer``. The modules, by purpose:

- the loop and its state: ``trainer``, ``state``, ``baseline``
- a step: ``plan``; ``rollout_stage``, ``reflect``, ``aggregate`` (and select), ``update``, all
  called by ``propose``; then ``evaluate`` with ``gate``
- an epoch's end: ``slow_update``; the end of a run: ``final_evaluation``
- across stages: ``prefetcher``, ``guard``, ``shard``
- without training: ``offline_eval``
"""
