"""Where skills come from: any SKILL.md as a `Skill`, folders and JSONL files as a `Library`, and what is wrong."""
