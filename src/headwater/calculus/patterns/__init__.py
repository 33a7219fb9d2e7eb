"""Punctuation: what of a relation is over, as data.

A *pattern* says which values of a column are meant, a *punctuation* has a pattern for each column, and a set of
punctuations means all rows that match one of them. Patterns are closed under intersection, so that promises about two
inputs become a promise about what is made from both.
"""

from headwater.calculus.patterns.pattern import (
    ANYTHING,
    NOTHING,
    Anything,
    Constant,
    Nothing,
    OneOf,
    Pattern,
    Range,
    above,
    below,
    between,
    combine,
    constant,
    matches,
    minus,
    normal,
    one_of,
    pattern,
    since,
    subsumes,
    upto,
)
from headwater.calculus.patterns.punctuation import (
    Punctuation,
    matching_rows,
    other_rows,
    unmatched,
)
from headwater.calculus.patterns.sets import EVERYTHING, NONE, Punctuations
from headwater.calculus.patterns.text import parse_punctuation, parse_punctuations

__all__ = [
    "Pattern",
    "Anything",
    "Constant",
    "Range",
    "OneOf",
    "Nothing",
    "ANYTHING",
    "NOTHING",
    "below",
    "upto",
    "above",
    "since",
    "between",
    "one_of",
    "constant",
    "pattern",
    "matches",
    "combine",
    "subsumes",
    "minus",
    "normal",
    "Punctuation",
    "matching_rows",
    "other_rows",
    "unmatched",
    "Punctuations",
    "NONE",
    "EVERYTHING",
    "parse_punctuation",
    "parse_punctuations",
]
