"""Writing, and removing without trace, what an agent's host needs to know of metier.

`manifest` reads what is known of each host (one TOML file in `hosts/`), `jsonc` and `tomls` change a file's text and
leave everything else as it stands, `plan` turns wishes into changes of files, shows, keeps and undoes them.
"""
