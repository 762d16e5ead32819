"""Paper 3, SkillDelta: whether a skill can run here, and whether it helped on tasks like this one."""
