-- median: the middle, or between the two in the middle
SELECT b, median(c) AS m FROM s GROUP BY b;

-- median_of_all: of each type of number
SELECT median(c) AS m, median(d) AS d, median(DISTINCT c) AS k, median(c) FILTER (WHERE b = 1) AS f FROM s;
-- duckdb:
SELECT median(c) AS m, median(d::DOUBLE) AS d, median(DISTINCT c) AS k, median(c) FILTER (WHERE b = 1) AS f FROM s;

-- median_of_empty: NULL of nothing
SELECT median(a) AS m, mode(a) AS o, max_by(a, b) AS x FROM empty;

-- percentile: between two values in proportion
SELECT a, percentile(x, 0.3) AS p, percentile(x, 0) AS lo, percentile(x, 1) AS hi FROM t GROUP BY a;
-- duckdb:
SELECT a, quantile_cont(x, 0.3) AS p, min(x) AS lo, max(x) AS hi FROM t GROUP BY a;

-- within_group: the standard's spelling, both directions
SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY c) AS up, percentile_cont(0.3) WITHIN GROUP (ORDER BY c DESC) AS down
FROM s;

-- discrete: a value that is there
SELECT b, percentile_disc(0.3) WITHIN GROUP (ORDER BY c) AS up, percentile_disc(0.3) WITHIN GROUP (ORDER BY c DESC) AS down,
  percentile_disc(0) WITHIN GROUP (ORDER BY c) AS lo FROM s GROUP BY b;

-- discrete_filter: of part of a group
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY c) FILTER (WHERE c > 1) AS m FROM s;

-- mode: the most frequent value
SELECT mode(s) AS s, mode(a) FILTER (WHERE a < 2) AS a FROM r;

-- mode_tie: of several the least, or the greatest
SELECT mode() WITHIN GROUP (ORDER BY b) AS lo, mode() WITHIN GROUP (ORDER BY b DESC) AS hi FROM
(SELECT DISTINCT b FROM r) q;
-- duckdb:
SELECT min(b) AS lo, max(b) AS hi FROM r;

-- max_by: the value beside the greatest
SELECT custkey, max_by(orderkey, price) AS dear FROM orders WHERE orderkey < 10 GROUP BY custkey;

-- min_by: the value beside the least, NULLs left out
SELECT min_by(status, price) AS cheap, max_by(status, price) AS dear FROM orders;

-- by_nulls: a value that is NULL beside the greatest
SELECT max_by(d, c) AS d, min_by(b, d) AS b FROM s WHERE c IS NULL OR c > 20;
-- duckdb:
SELECT arg_max_null(d, c) AS d, arg_min_null(b, d) AS b FROM s WHERE c IS NULL OR c > 20;

-- by_struct: several values beside the greatest
SELECT max_by(struct(orderkey, status), price).status AS s FROM orders;
-- duckdb:
SELECT max_by({'orderkey': orderkey, 'status': status}, price).status AS s FROM orders;

-- by_several: an order of several columns
SELECT custkey, max_by(price, struct(day, orderkey)) AS last FROM orders
WHERE day IS NOT NULL AND orderkey > 0 GROUP BY custkey;
-- duckdb:
SELECT custkey, arg_max_null(price, (day, orderkey)) AS last FROM orders
WHERE day IS NOT NULL AND orderkey > 0 GROUP BY custkey;

-- by_filter: beside the greatest of some rows
SELECT a, max_by(b, s) FILTER (WHERE b IS NOT NULL AND s <> 'x') AS v FROM r GROUP BY a;

-- listagg: the texts of a group in order
SELECT a, listagg(s, '|') WITHIN GROUP (ORDER BY s) AS list FROM r GROUP BY a;
-- duckdb:
SELECT a, string_agg(s, '|' ORDER BY s) AS list FROM r GROUP BY a;

-- string_agg: another name, and another order
SELECT string_agg(s, ', ') WITHIN GROUP (ORDER BY a DESC, s) AS list FROM r;
-- duckdb:
SELECT string_agg(s, ', ' ORDER BY a DESC NULLS LAST, s) AS list FROM r;

-- listagg_distinct: each text once
SELECT listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s DESC) AS list FROM r;
-- duckdb:
SELECT string_agg(s, ',' ORDER BY s DESC) AS list FROM (SELECT DISTINCT s FROM r) q;

-- listagg_numbers: numbers as texts, ordered as numbers, and nothing between them
SELECT b, listagg(c) WITHIN GROUP (ORDER BY c) AS list FROM s GROUP BY b;
-- duckdb:
SELECT b, string_agg(c::VARCHAR, '' ORDER BY c) AS list FROM s GROUP BY b;

-- beside_others: with other aggregates of the same group
SELECT b, count(*) AS n, sum(c) AS total, median(c) AS m, max(c) AS hi, max_by(d, c) AS beside FROM s
WHERE c <> 10 GROUP BY b HAVING median(c) > 0;
