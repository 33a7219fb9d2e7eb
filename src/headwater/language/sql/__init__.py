"""SQL text into terms of the calculus; `read_sql` is the way in."""

from headwater.language.sql.reader import read_sql, same_words, tables_named

__all__ = ["read_sql", "same_words", "tables_named"]
