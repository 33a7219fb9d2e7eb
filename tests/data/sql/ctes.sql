-- one: a named query
WITH q AS (SELECT a, b FROM r WHERE b = 1) SELECT a FROM q;

-- star: everything of a named query
WITH q AS (SELECT * FROM s) SELECT * FROM q;

-- several: two named queries joined
WITH x AS (SELECT a, b FROM r), y AS (SELECT b, c FROM s) SELECT x.a, y.c FROM x JOIN y ON x.b = y.b;

-- chained: the second reads the first
WITH x AS (SELECT a, count(*) AS n FROM r GROUP BY a), y AS (SELECT n, count(*) AS k FROM x GROUP BY n)
SELECT n, k FROM y;

-- chain_of_three: and so on
WITH x AS (SELECT b, c FROM s WHERE c IS NOT NULL),
     y AS (SELECT b, sum(c) AS total FROM x GROUP BY b),
     z AS (SELECT max(total) AS hi FROM y)
SELECT y.b, y.total FROM y JOIN z ON y.total = z.hi;

-- twice: one named query used twice
WITH q AS (SELECT b, count(*) AS n FROM r GROUP BY b) SELECT x.b, y.b AS other FROM q x JOIN q y ON x.n = y.n;

-- twice_in_union: and in a union
WITH q AS (SELECT a FROM r WHERE a > 1) SELECT a FROM q UNION ALL SELECT a + 100 FROM q;

-- shadows_table: a named query hides a table, and reads it
WITH r AS (SELECT a, b FROM r WHERE b = 1) SELECT a, b FROM r;
-- duckdb:
SELECT a, b FROM r WHERE b = 1;

-- shadows_other_table: a named query hides a table that it does not read
WITH s AS (SELECT a AS b, x AS c FROM t) SELECT r.a, s.c FROM r JOIN s ON r.b = s.b;

-- column_names: names given with the query's name
WITH q(k, n) AS (SELECT a, count(*) FROM r GROUP BY a) SELECT k, n FROM q WHERE n > 1;

-- unused: a named query that nothing reads
WITH unused AS (SELECT b FROM s), q AS (SELECT a FROM r) SELECT a FROM q;

-- in_subquery: read by a subquery
WITH rich AS (SELECT custkey FROM orders GROUP BY custkey HAVING sum(price) > 50)
SELECT name FROM customer WHERE custkey IN (SELECT custkey FROM rich);

-- in_scalar: read by a scalar subquery
WITH m AS (SELECT avg(price) AS mean FROM orders) SELECT orderkey FROM orders WHERE price > (SELECT mean FROM m);

-- inside_from: WITH inside a subquery
SELECT q.a FROM (WITH x AS (SELECT a FROM r WHERE a < 3) SELECT a FROM x) q;

-- inner_shadows: an inner name hides an outer one
WITH x AS (SELECT 1 AS k) SELECT k, (WITH x AS (SELECT 2 AS k) SELECT max(k) FROM x) AS inner_k FROM x;

-- with_set_operation: a union that is named
WITH u AS (SELECT a AS k FROM r UNION SELECT b FROM s) SELECT count(*) AS n, sum(k) AS total FROM u;
