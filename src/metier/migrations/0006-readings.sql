-- What the reranker reads of a skill, ready to be used: a cache by digest and extractor, made by `metier index`.
CREATE TABLE readings (
    digest    TEXT PRIMARY KEY,
    extractor TEXT NOT NULL,          -- name and version; a row of another one is made anew
    reading   BLOB NOT NULL           -- rerank/shelf.py
) STRICT;
