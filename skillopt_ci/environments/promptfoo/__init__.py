"""Test files of promptfoo (https://www.promptfoo.dev): prompts, variables, assertions."""
