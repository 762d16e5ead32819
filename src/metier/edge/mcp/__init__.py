"""metier as an MCP server: three tools for any agent, and the official skills extension (SEP-2640).

`tools` is what an agent may call, `skills` what a host may list and read, `server` puts both on a wire. Only `server`
imports the SDK.
"""
