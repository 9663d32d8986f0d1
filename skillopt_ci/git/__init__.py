"""Access to git: processes, objects, refs, remotes, locks and history."""
