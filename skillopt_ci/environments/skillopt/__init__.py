"""Environment adapters of SkillOpt (https://github.com/microsoft/SkillOpt)."""
