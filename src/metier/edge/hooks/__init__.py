"""What an agent's host reports, and what it gets back: one dict in, one dict out, for every hook event.

`answer` holds the events, `used` finds out what the agent did with what it was shown, `chatter` knows the prompts that
need nothing, `desk` serves many working folders from one warm process, `entry` is the command that a host starts. This
file imports none of them: a host waits for `entry` on every prompt.
"""
