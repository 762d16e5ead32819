"""What the controlled test puts in place of what a skill says: near neighbours of methods, formats, tools and units.

Each line is a group of things that do the same kind of job, so that a swapped skill still reads like a skill.
"""

# ruff: noqa: E501 - tables of words

from __future__ import annotations

FORMATS: tuple[tuple[str, ...], ...] = (
    ("csv", "tsv", "parquet", "jsonl"), ("json", "yaml", "toml", "xml"), ("yml", "json"), ("pdf", "docx", "epub", "odt"),
    ("docx", "rtf", "pdf"), ("xlsx", "ods", "csv"), ("pptx", "odp", "pdf"), ("png", "jpeg", "webp", "tiff"),
    ("jpg", "png", "gif"), ("svg", "png", "eps"), ("md", "rst", "adoc"), ("markdown", "asciidoc", "html"),
    ("html", "markdown", "pdf"), ("mp4", "mov", "webm", "avi"), ("mp3", "wav", "flac", "ogg"), ("wav", "mp3", "aiff"),
    ("zip", "tar", "7z"), ("fasta", "fastq", "genbank"), ("vcf", "bed", "gff"), ("stl", "obj", "iges"),
    ("parquet", "avro", "orc"), ("ics", "csv"), ("gif", "mp4", "apng"), ("webp", "avif", "jpeg"), ("xml", "json", "ini"),
    ("toml", "ini", "json"), ("yaml", "toml", "json"), ("mermaid", "plantuml", "graphviz"), ("latex", "typst", "html"),
    ("jsonl", "csv", "parquet"), ("wasm", "elf"), ("protobuf", "avro", "thrift"), ("sqlite", "duckdb", "leveldb"),
)  # fmt: skip
TOOLS: tuple[tuple[str, ...], ...] = (
    ("npm", "pnpm", "yarn", "bun"), ("pip", "uv", "poetry", "conda"), ("pytest", "unittest", "nose2"),
    ("jest", "vitest", "mocha"), ("playwright", "cypress", "selenium", "puppeteer"), ("docker", "podman", "buildah"),
    ("kubernetes", "nomad", "swarm"), ("helm", "kustomize"), ("terraform", "pulumi", "cloudformation"),
    ("ansible", "puppet", "chef"), ("react", "vue", "svelte", "angular"), ("next.js", "nuxt", "remix"),
    ("express", "fastify", "koa"), ("django", "flask", "fastapi"), ("fastapi", "flask", "falcon"),
    ("postgres", "mysql", "mariadb"), ("postgresql", "mysql", "oracle"), ("mysql", "postgresql", "sqlite"),
    ("redis", "memcached", "valkey"), ("mongodb", "couchdb", "dynamodb"), ("kafka", "rabbitmq", "nats"),
    ("pandas", "polars", "dask"), ("numpy", "jax"), ("matplotlib", "plotly", "bokeh"), ("seaborn", "altair"),
    ("pytorch", "tensorflow", "mxnet"), ("scikit-learn", "statsmodels"), ("xgboost", "lightgbm", "catboost"),
    ("eslint", "biome", "oxlint"), ("prettier", "dprint"), ("ruff", "flake8", "pylint"), ("mypy", "pyright", "pyre"),
    ("black", "yapf"), ("webpack", "vite", "rollup", "parcel"), ("vite", "webpack", "esbuild"), ("gradle", "maven", "bazel"),
    ("cargo", "bazel"), ("cmake", "meson", "scons"), ("jq", "yq", "gron"), ("curl", "wget", "httpie"),
    ("grep", "ripgrep", "ack"), ("sed", "awk", "perl"), ("awk", "sed", "perl"), ("bash", "fish", "powershell"),
    ("git", "mercurial", "svn"), ("github", "gitlab", "bitbucket"), ("slack", "teams", "discord"), ("jira", "linear", "asana"),
    ("notion", "confluence", "coda"), ("prometheus", "influxdb", "graphite"), ("grafana", "kibana", "superset"),
    ("datadog", "newrelic", "dynatrace"), ("sentry", "rollbar", "bugsnag"), ("aws", "azure", "gcp"), ("s3", "gcs", "minio"),
    ("lambda", "cloudrun"), ("openai", "anthropic", "cohere", "mistral"), ("ffmpeg", "gstreamer", "mencoder"),
    ("imagemagick", "graphicsmagick", "vips"), ("pandoc", "asciidoctor"), ("qpdf", "pdftk", "mutool"),
    ("pypdf", "pikepdf", "pymupdf"), ("pdfplumber", "camelot", "tabula"), ("tesseract", "easyocr", "paddleocr"),
    ("prisma", "drizzle", "typeorm", "sequelize"), ("sqlalchemy", "peewee"), ("tailwind", "bootstrap", "bulma"),
    ("zustand", "redux", "mobx", "jotai"), ("zod", "yup", "joi"), ("stripe", "paypal", "adyen"), ("nginx", "caddy", "haproxy"),
    ("elasticsearch", "opensearch", "solr"), ("spark", "flink", "dask"), ("airflow", "dagster", "prefect"), ("dbt", "sqlmesh"),
    ("snowflake", "bigquery", "redshift"), ("supabase", "firebase", "appwrite"), ("vercel", "netlify", "render"),
    ("figma", "sketch", "penpot"), ("blender", "maya", "houdini"), ("unity", "godot", "unreal"), ("swiftui", "uikit"),
    ("pubmed", "scopus", "embase"), ("arxiv", "ssrn", "zenodo"), ("deseq2", "edger", "limma"), ("scanpy", "seurat"),
    ("bwa", "bowtie2", "minimap2"), ("rdkit", "openbabel"), ("typescript", "javascript", "dart"), ("python", "ruby", "perl"),
    ("rust", "zig", "go"), ("kotlin", "java", "scala"), ("obsidian", "logseq", "joplin"), ("zotero", "mendeley", "endnote"),
    ("whisper", "vosk", "deepspeech"), ("langchain", "llamaindex", "haystack"), ("chromadb", "qdrant", "weaviate"),
    ("vagrant", "packer"), ("ssh", "telnet"), ("systemd", "supervisord", "runit"), ("cron", "systemd-timer", "launchd"),
    ("semgrep", "codeql", "bandit"), ("trivy", "grype", "clair"), ("burp", "zap"), ("nmap", "masscan"),
    ("shopify", "woocommerce", "magento"), ("hubspot", "salesforce", "pipedrive"), ("gmail", "outlook", "fastmail"),
)  # fmt: skip
METHODS: tuple[tuple[str, ...], ...] = (
    ("merge", "rebase", "cherry-pick"), ("squash", "rebase", "merge"), ("append", "overwrite", "prepend"),
    ("median", "maximum"), ("average", "maximum"), ("ascending", "descending"), ("daily", "weekly", "monthly"),
    ("weekly", "monthly", "yearly"), ("monthly", "weekly", "quarterly"), ("manual", "automatic"), ("manually", "automatically"),
    ("automatic", "manual"), ("automatically", "manually"), ("synchronous", "asynchronous"), ("async", "blocking"),
    ("before", "after"), ("after", "before"), ("horizontal", "vertical"), ("vertical", "horizontal"), ("local", "remote"),
    ("locally", "remotely"), ("remote", "local"), ("public", "private"), ("private", "public"), ("staging", "production"),
    ("production", "staging"), ("read-only", "read-write"), ("incremental", "full"), ("serial", "parallel"),
    ("parallel", "sequential"), ("sequential", "parallel"), ("unit", "integration"), ("integration", "unit"),
    ("polling", "webhook"), ("webhook", "polling"), ("rest", "graphql", "soap"), ("graphql", "rest"), ("oauth", "basic-auth"),
    ("jwt", "session-cookie"), ("bootstrap", "jackknife"), ("linear", "logistic", "quadratic"), ("random", "stratified"),
    ("regex", "parser"), ("recursive", "iterative"), ("optimistic", "pessimistic"), ("breadth-first", "depth-first"),
    ("blue-green", "canary", "rolling"), ("canary", "blue-green"), ("soft-delete", "hard-delete"), ("encrypt", "hash"),
    ("inline", "external"), ("stdout", "stderr"), ("dark", "light"), ("light", "dark"), ("landscape", "portrait"),
    ("portrait", "landscape"), ("monospace", "serif"), ("formal", "informal"), ("summary", "transcript"), ("draft", "final"),
    ("annual", "quarterly"), ("quarterly", "annual"), ("left", "right"), ("right", "left"), ("top", "bottom"), ("first", "last"),
    ("oldest", "newest"), ("newest", "oldest"), ("largest", "smallest"), ("interviews", "surveys"), ("interview", "survey"),
    ("hourly", "daily"), ("keyboard", "mouse"), ("tdd", "test-last"), ("cosine", "euclidean"), ("fine-tune", "pretrain"),
    ("cached", "live"), ("email", "fax"), ("symlink", "copy"), ("streaming", "batch"), ("batch", "streaming"),
)  # fmt: skip
NAMES: tuple[str, ...] = tuple(sorted({name for group in TOOLS for name in group if len(name) > 3}))
"""Every tool of the table: what stands in for a tool that the table does not know."""
UNITS: dict[str, tuple[str, ...]] = {
    "kb": ("MB", "GB"), "mb": ("GB", "KB"), "gb": ("TB", "MB"), "ms": ("s", "min"), "s": ("min", "ms"),
    "seconds": ("minutes", "hours"), "second": ("minute", "hour"), "minutes": ("hours", "seconds"),
    "minute": ("hour", "second"), "hours": ("days", "minutes"), "hour": ("day", "minute"), "days": ("weeks", "hours"),
    "day": ("week", "hour"), "weeks": ("months", "days"), "week": ("month", "day"), "months": ("years", "weeks"),
    "years": ("months", "decades"), "px": ("rem", "pt"), "pt": ("px", "mm"), "mm": ("cm", "inches"), "cm": ("mm", "m"),
    "km": ("miles", "m"), "words": ("characters", "pages"), "characters": ("words", "lines"), "lines": ("pages", "words"),
    "pages": ("lines", "chapters"), "kg": ("g", "lb"), "hz": ("kHz", "MHz"), "khz": ("Hz", "MHz"), "dpi": ("dpcm",),
    "%": (" percentage points", "‰"), "fps": ("rpm",), "tokens": ("characters", "words"),
}  # fmt: skip


def neighbours(groups: tuple[tuple[str, ...], ...]) -> dict[str, tuple[str, ...]]:
    """Each first word of a group → the others; later members also lead back where nothing better is listed."""
    table: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for word in group:
            table.setdefault(word, tuple(w for w in group if w != word))
    for group in groups:
        table[group[0]] = group[1:]
    return table
