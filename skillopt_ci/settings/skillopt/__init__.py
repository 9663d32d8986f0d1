"""SkillOpt's configuration files, read as they are.

A chain of files is SkillOpt's if one of them has an `env` key, which skillopt-ci's own form lacks,
or if one has a key of SkillOpt's flat form (`edit_budget: 4` outside every section) and none has
skillopt-ci's `run`, `skill` or `tasks`. Such files may also hold skillopt-ci's own sections (a
`scorer`, a `budget`, a mapping as `model.target`, …), which then win.

The sections `train`, `gradient`, `optimizer` and `evaluation` have the same keys in both forms;
`env` becomes `run`, `skill` and `tasks`, and `model` becomes model roles. A key keeps SkillOpt's
meaning where it is stated; one that is not stated has skillopt-ci's default, so the gate decides on
slow updates unless `slow_update_gate_with_selection: false` stands there. A key that is set and
means nothing here is named in a warning. Relative paths start at the configuration's folder.
"""
