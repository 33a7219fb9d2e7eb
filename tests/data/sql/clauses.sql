-- values: rows that are written out
SELECT * FROM VALUES (1, 'a'), (2, NULL), (2, NULL);
-- duckdb:
SELECT * FROM (VALUES (1, 'a'), (2, NULL), (2, NULL)) q;

-- values_named: with names, and a type that all have in common
SELECT x + 1 AS n, y FROM VALUES (1, 'a'), (2.5, 'b') AS q(x, y);
-- duckdb:
SELECT x + 1 AS n, y FROM (VALUES (1, 'a'), (2.5, 'b')) AS q(x, y);

-- values_joined: a small table beside a large one
SELECT r.a, v.word FROM r JOIN (VALUES (1, 'one'), (2, 'two')) AS v(n, word) ON r.a = v.n;

-- only_values: rows alone
VALUES (1, 2), (3, 4);

-- table: all of a table
TABLE r;

-- from_first: FROM before SELECT
FROM r SELECT a, count(*) AS n GROUP BY a;

-- from_only: FROM alone
FROM r;

-- except_columns: all columns but some
SELECT * EXCEPT (s) FROM r;
-- duckdb:
SELECT * EXCLUDE (s) FROM r;

-- except_columns_of_one: of one of the tables
SELECT r.* EXCEPT (b), s.b, 1 AS one FROM r JOIN s ON r.b = s.b;
-- duckdb:
SELECT r.* EXCLUDE (b), s.b, 1 AS one FROM r JOIN s ON r.b = s.b;

-- group_by_all: by every expression without an aggregate
SELECT a % 2 AS parity, upper(s) AS u, sum(b) + 1 AS total FROM r GROUP BY ALL;

-- group_by_all_having: and a condition on an alias
SELECT a, b, count(*) AS n FROM r GROUP BY ALL HAVING n > 1;

-- group_by_all_of_none: all rows as one group
SELECT count(*) AS n, sum(a) AS s FROM empty GROUP BY ALL;

-- order_by_all: by every column
SELECT a, b, s FROM r ORDER BY ALL LIMIT 4;
-- duckdb:
SELECT a, b, s FROM r ORDER BY ALL NULLS FIRST LIMIT 4;

-- order_by_all_desc: by every column, downwards
SELECT b, a FROM r ORDER BY ALL DESC LIMIT 5;
-- duckdb:
SELECT b, a FROM r ORDER BY ALL DESC NULLS LAST LIMIT 5;

-- having_alone: all rows are one group
SELECT 1 AS one FROM r HAVING count(*) > 1;

-- having_true: also where no aggregate stands
SELECT 1 AS one FROM empty HAVING true;
-- duckdb:
SELECT 1 AS one;

-- lateral_alias: an alias in the columns after it
SELECT a + 1 AS x, x * 2 AS y, y - x AS z FROM r;

-- lateral_alias_shadowed: a column comes before an alias
SELECT a AS b, b + 1 AS y FROM r;

-- lateral_alias_of_aggregate: of an aggregate
SELECT a, count(*) AS n, n * 10 AS m FROM r GROUP BY a HAVING m > 20;
-- duckdb:
SELECT a, count(*) AS n, count(*) * 10 AS m FROM r GROUP BY a HAVING count(*) * 10 > 20;

-- minus: another name of EXCEPT
SELECT a FROM r MINUS SELECT b FROM s;
-- duckdb:
SELECT a FROM r EXCEPT SELECT b FROM s;

-- minus_all: with repetitions
SELECT a FROM r MINUS ALL SELECT b FROM s;
-- duckdb:
SELECT a FROM r EXCEPT ALL SELECT b FROM s;

-- distinct_from: a comparison that is never NULL
SELECT a, b FROM r WHERE a IS DISTINCT FROM b;

-- not_distinct_from: and its opposite, two ways
SELECT a, b, a <=> b AS same FROM r WHERE a IS NOT DISTINCT FROM b;
-- duckdb:
SELECT a, b, a IS NOT DISTINCT FROM b AS same FROM r WHERE a IS NOT DISTINCT FROM b;

-- filter_everywhere: a condition on each kind of aggregate
SELECT b, count(*) FILTER (WHERE c > 5) AS n, sum(c) FILTER (WHERE c > 5) AS s, avg(c) FILTER (WHERE c > 5) AS m,
  min(c) FILTER (WHERE c > 5) AS lo, bool_or(c > 10) FILTER (WHERE c > 5) AS o, bool_and(c > 10) FILTER (WHERE c > 5) AS y,
  count_if(c > 10) FILTER (WHERE c > 5) AS k, count(DISTINCT c) FILTER (WHERE c > 5) AS d,
  stddev(c) FILTER (WHERE c > 5) AS v, median(c) FILTER (WHERE c > 5) AS h FROM s GROUP BY b;
-- duckdb:
SELECT b, count(*) FILTER (WHERE c > 5) AS n, sum(c) FILTER (WHERE c > 5) AS s, avg(c) FILTER (WHERE c > 5) AS m,
  min(c) FILTER (WHERE c > 5) AS lo, bool_or(c > 10) FILTER (WHERE c > 5) AS o, bool_and(c > 10) FILTER (WHERE c > 5) AS y,
  count(*) FILTER (WHERE c > 10) AS k, count(DISTINCT c) FILTER (WHERE c > 5) AS d,
  stddev(c) FILTER (WHERE c > 5) AS v, median(c) FILTER (WHERE c > 5) AS h FROM s GROUP BY b;
