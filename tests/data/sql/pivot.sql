-- pivot: a column for each value, a row for each of the rest
SELECT * FROM (SELECT custkey, status, price FROM orders) PIVOT (sum(price) FOR status IN ('O', 'F'));
-- duckdb:
SELECT custkey, sum(price) FILTER (WHERE status = 'O') AS o, sum(price) FILTER (WHERE status = 'F') AS f
FROM orders GROUP BY custkey;

-- whole_table: every column that is not named is a key
SELECT * FROM orders PIVOT (sum(price) FOR status IN ('O', 'F', 'Q'));
-- duckdb:
SELECT orderkey, custkey, day, sum(price) FILTER (WHERE status = 'O') AS o, sum(price) FILTER (WHERE status = 'F') AS f,
  sum(price) FILTER (WHERE status = 'Q') AS q FROM orders GROUP BY orderkey, custkey, day;

-- several: several aggregates, with names
SELECT custkey, o_total, o_n, F_total, F_n FROM (SELECT custkey, status, price FROM orders)
PIVOT (sum(price) AS total, count(*) AS n FOR status IN ('O' AS o, 'F'));
-- duckdb:
SELECT custkey, sum(price) FILTER (WHERE status = 'O'), nullif(count(*) FILTER (WHERE status = 'O'), 0),
  sum(price) FILTER (WHERE status = 'F'), nullif(count(*) FILTER (WHERE status = 'F'), 0)
FROM orders GROUP BY custkey;

-- count: of no rows a count is NULL, of NULLs it is zero
SELECT * FROM r PIVOT (count(a) FOR b IN (1, 2 AS two)) p;
-- duckdb:
SELECT s, CASE WHEN count(*) FILTER (WHERE b = 1) > 0 THEN count(a) FILTER (WHERE b = 1) END AS a,
  CASE WHEN count(*) FILTER (WHERE b = 2) > 0 THEN count(a) FILTER (WHERE b = 2) END AS b FROM r GROUP BY s;

-- texts: beside a text a count of no rows is zero
SELECT * FROM r PIVOT (max(s) AS hi, count(*) AS n FOR b IN (1, 2));
-- duckdb:
SELECT a, max(s) FILTER (WHERE b = 1), count(*) FILTER (WHERE b = 1), max(s) FILTER (WHERE b = 2),
  count(*) FILTER (WHERE b = 2) FROM r GROUP BY a;

-- pairs: a column for each pair of values
SELECT a, one, two FROM r PIVOT (count(*) FOR (b, s) IN ((1, 'x') AS one, (2, '') AS two));
-- duckdb:
SELECT a, nullif(count(*) FILTER (WHERE b = 1 AND s = 'x'), 0) AS one, nullif(count(*) FILTER (WHERE b = 2 AND s = ''), 0) AS two
FROM r GROUP BY a;

-- null_value: NULL is a value like any other
SELECT * FROM (SELECT a, b FROM r) PIVOT (count(*) FOR b IN (1, NULL AS none));
-- duckdb:
SELECT a, nullif(count(*) FILTER (WHERE b = 1), 0) AS one, nullif(count(*) FILTER (WHERE b IS NULL), 0) AS none
FROM r GROUP BY a;

-- average: a mean in each cell
SELECT * FROM (SELECT custkey, status, price FROM orders) PIVOT (avg(price) FOR status IN ('O' AS o, 'P' AS p));
-- duckdb:
SELECT custkey, avg(price) FILTER (WHERE status = 'O') AS o, avg(price) FILTER (WHERE status = 'P') AS p
FROM orders GROUP BY custkey;

-- no_keys: one row where no column is left
SELECT * FROM (SELECT status, price FROM orders) PIVOT (max(price) FOR status IN ('O', 'F', 'P'));
-- duckdb:
SELECT max(price) FILTER (WHERE status = 'O'), max(price) FILTER (WHERE status = 'F'), max(price) FILTER (WHERE status = 'P')
FROM orders;

-- filtered: a condition on the columns that come out
SELECT p.custkey, p.O AS open FROM (SELECT custkey, status, price FROM orders) PIVOT (sum(price) FOR status IN ('O')) p
WHERE p.O > 50;
-- duckdb:
SELECT custkey, sum(price) AS open FROM orders WHERE status = 'O' GROUP BY custkey HAVING sum(price) > 50;

-- joined: a pivot that is joined
SELECT c.name, p.o FROM (SELECT custkey, status, price FROM orders) PIVOT (sum(price) FOR status IN ('O' AS o)) p
JOIN customer c ON c.custkey = p.custkey;
-- duckdb:
SELECT c.name, p.o FROM (SELECT custkey, sum(price) FILTER (WHERE status = 'O') AS o FROM orders GROUP BY custkey) p
JOIN customer c ON c.custkey = p.custkey;

-- of_a_join: after a join it is of the whole join
SELECT * FROM r JOIN s USING (b) PIVOT (sum(c) FOR a IN (1, 2 AS two));
-- duckdb:
SELECT b, s, d, sum(c) FILTER (WHERE a = 1) AS one, sum(c) FILTER (WHERE a = 2) AS two FROM
(SELECT r.a, b, r.s, s.c, s.d FROM r JOIN s USING (b)) q GROUP BY b, s, d;

-- unpivot: a row for each column that is not NULL
SELECT * FROM r UNPIVOT (v FOR name IN (a, b));
-- duckdb:
SELECT s, 'a' AS name, a AS v FROM r WHERE a IS NOT NULL UNION ALL SELECT s, 'b', b FROM r WHERE b IS NOT NULL;

-- include_nulls: a row for each column
SELECT * FROM r UNPIVOT INCLUDE NULLS (v FOR name IN (a AS x, b AS y)) AS u;
-- duckdb:
SELECT s, 'x' AS name, a AS v FROM r UNION ALL SELECT s, 'y', b FROM r;

-- unpivot_pairs: several columns at once, kept if one is not NULL
SELECT * FROM r UNPIVOT ((v, w) FOR name IN ((a, b) AS ab, (b, a)));
-- duckdb:
SELECT s, 'ab' AS name, a AS v, b AS w FROM r WHERE a IS NOT NULL OR b IS NOT NULL
UNION ALL SELECT s, 'b_a', b, a FROM r WHERE a IS NOT NULL OR b IS NOT NULL;

-- unpivot_types: to the common type
SELECT name, sum(v) AS total, count(*) AS n FROM (SELECT a, x FROM t) UNPIVOT (v FOR name IN (a, x)) GROUP BY name;
-- duckdb:
SELECT name, sum(v) AS total, count(*) AS n FROM
(SELECT 'a' AS name, a::DOUBLE AS v FROM t WHERE a IS NOT NULL UNION ALL SELECT 'x', x FROM t WHERE x IS NOT NULL) q
GROUP BY name;

-- unpivot_filtered: with a name for the whole, and a condition
SELECT u.name AS k, u.v AS val FROM r UNPIVOT EXCLUDE NULLS (v FOR name IN (a, b)) u WHERE u.v > 1;
-- duckdb:
SELECT 'a' AS k, a AS val FROM r WHERE a > 1 UNION ALL SELECT 'b', b FROM r WHERE b > 1;
