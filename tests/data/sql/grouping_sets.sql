-- sets: two groupings and the total
SELECT a, b, count(*) AS n, sum(b) AS total FROM r GROUP BY GROUPING SETS ((a), (b), ());
-- duckdb:
SELECT a, b, count(*) AS n, sum(b) AS total FROM r GROUP BY GROUPING SETS ((a), (b), ()) HAVING count(*) > 0;

-- bare_sets: a set of one column needs no parentheses
SELECT a, b, count(*) AS n FROM r GROUP BY GROUPING SETS (a, (a, b));

-- rollup: subtotals, and the total
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a, b);
-- duckdb:
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a, b) HAVING count(*) > 0;

-- with_rollup: the old spelling
SELECT a, b, count(*) AS n FROM r GROUP BY a, b WITH ROLLUP;
-- duckdb:
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a, b) HAVING count(*) > 0;

-- cube: all subsets
SELECT custkey, status, sum(price) AS total, count(price) AS n FROM orders GROUP BY CUBE (custkey, status);
-- duckdb:
SELECT custkey, status, sum(price) AS total, count(price) AS n FROM orders GROUP BY CUBE (custkey, status)
HAVING count(*) > 0;

-- with_cube: the old spelling
SELECT custkey, status, max(price) AS hi FROM orders GROUP BY custkey, status WITH CUBE;
-- duckdb:
SELECT custkey, status, max(price) AS hi FROM orders GROUP BY CUBE (custkey, status) HAVING count(*) > 0;

-- after_the_columns: the columns first, then the sets
SELECT a, b, count(*) AS n FROM r GROUP BY a, b GROUPING SETS ((b), (a, b));
-- duckdb:
SELECT a, b, count(*) AS n FROM r GROUP BY GROUPING SETS ((b), (a, b));

-- mixed: a plain column beside a cube
SELECT a, b, s, count(*) AS n FROM r GROUP BY a, CUBE (b, s);

-- two_rollups: the product of both
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a), ROLLUP (b);
-- duckdb:
SELECT a, b, count(*) AS n FROM r GROUP BY ROLLUP (a), ROLLUP (b) HAVING count(*) > 0;

-- composite: two columns that are rolled up as one
SELECT a, b, s, count(*) AS n FROM r GROUP BY ROLLUP ((a, b), s);
-- duckdb:
SELECT a, b, s, count(*) AS n FROM r GROUP BY ROLLUP ((a, b), s) HAVING count(*) > 0;

-- inside_sets: a rollup inside of grouping sets
SELECT a, b, s, count(*) AS n FROM r GROUP BY GROUPING SETS (ROLLUP (a, b), (s));
-- duckdb:
SELECT a, b, s, count(*) AS n FROM r GROUP BY GROUPING SETS (ROLLUP (a, b), (s)) HAVING count(*) > 0;

-- twice: a set that stands twice gives its groups twice
SELECT a, count(*) AS n FROM r GROUP BY GROUPING SETS ((a), (a));

-- twice_by_product: a column beside a rollup of it
SELECT a, count(*) AS n FROM r GROUP BY a, ROLLUP (a);

-- grouping: which columns are not grouped by, which NULL alone does not say
SELECT a, b, grouping(a) AS ga, grouping(b) AS gb, count(*) AS n FROM r GROUP BY CUBE (a, b);
-- duckdb:
SELECT a, b, grouping(a) AS ga, grouping(b) AS gb, count(*) AS n FROM r GROUP BY CUBE (a, b) HAVING count(*) > 0;

-- grouping_id: all of them in one number
SELECT a, b, grouping_id() AS g, grouping_id(a, b) AS h, count(*) AS n FROM r GROUP BY GROUPING SETS ((a), (b), (a, b));
-- duckdb:
SELECT a, b, grouping(a, b) AS g, grouping(a, b) AS h, count(*) AS n FROM r GROUP BY GROUPING SETS ((a), (b), (a, b));

-- grouping_in_case: a name for the total
SELECT CASE WHEN grouping(status) = 1 THEN 'all' ELSE coalesce(status, 'none') END AS status, sum(price) AS total
FROM orders GROUP BY ROLLUP (status);
-- duckdb:
SELECT CASE WHEN grouping(status) = 1 THEN 'all' ELSE coalesce(status, 'none') END AS status, sum(price) AS total
FROM orders GROUP BY ROLLUP (status) HAVING count(*) > 0;

-- own_value: an aggregate of a grouped column sees the rows' own values
SELECT a, sum(a) AS s, max(a) AS hi, count(a) AS n, count(DISTINCT a) AS k FROM r GROUP BY ROLLUP (a);
-- duckdb:
SELECT a, sum(a) AS s, max(a) AS hi, count(a) AS n, count(DISTINCT a) AS k FROM r GROUP BY ROLLUP (a)
HAVING count(*) > 0;

-- over_key: an expression over a column that is NULL in some sets
SELECT a + 1 AS next, coalesce(b, -1) AS b, count(*) AS n FROM r GROUP BY GROUPING SETS ((a), (b));

-- expression: an expression as the key
SELECT a % 2 AS parity, count(*) AS n FROM r GROUP BY CUBE (a % 2);
-- duckdb:
SELECT a % 2 AS parity, count(*) AS n FROM r GROUP BY CUBE (a % 2) HAVING count(*) > 0;

-- ordinal_and_alias: positions and aliases inside of the clauses
SELECT a AS x, b AS y, count(*) AS n FROM r GROUP BY GROUPING SETS (1, (x, y));
-- duckdb:
SELECT a AS x, b AS y, count(*) AS n FROM r GROUP BY GROUPING SETS (a, (a, b));

-- having: groups of some sets only
SELECT a, b, count(*) AS n FROM r GROUP BY CUBE (a, b) HAVING grouping(a) = 0 AND count(*) > 1;

-- having_on_key: a key that is not in the set is NULL in HAVING too
SELECT a, count(*) AS n FROM r GROUP BY ROLLUP (a) HAVING a IS NULL;
-- duckdb:
SELECT a, count(*) AS n FROM r GROUP BY ROLLUP (a) HAVING a IS NULL AND count(*) > 0;

-- ordered: the first groups in the order of the sets
SELECT a, b, count(*) AS n FROM r WHERE a > 0 AND b > 0 GROUP BY a, b GROUPING SETS ((a), (b))
ORDER BY grouping_id(), n DESC, a, b LIMIT 4;
-- duckdb:
SELECT a, b, count(*) AS n FROM r WHERE a > 0 AND b > 0 GROUP BY GROUPING SETS ((a), (b))
ORDER BY grouping(a, b), n DESC, a, b LIMIT 4;

-- only_total: the empty set alone is a global aggregate
SELECT count(*) AS n, sum(a) AS s FROM r GROUP BY GROUPING SETS (());

-- only_total_of_empty: which has its row always
SELECT count(*) AS n, sum(a) AS s FROM empty GROUP BY GROUPING SETS (());

-- of_empty: the total of a rollup does not
SELECT a, count(*) AS n FROM empty GROUP BY ROLLUP (a);
-- duckdb:
SELECT a, count(*) AS n FROM empty GROUP BY ROLLUP (a) HAVING count(*) > 0;

-- over_join: subtotals of a join
SELECT c.name, o.status, sum(o.price) AS total, avg(o.price) AS mean
FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY ROLLUP (c.name, o.status);
-- duckdb:
SELECT c.name, o.status, sum(o.price) AS total, avg(o.price) AS mean
FROM customer c JOIN orders o ON c.custkey = o.custkey GROUP BY ROLLUP (c.name, o.status) HAVING count(*) > 0;

-- of_groups: a query over the subtotals
SELECT g, max(n) AS hi FROM (SELECT a, b, grouping_id() AS g, count(*) AS n FROM r GROUP BY CUBE (a, b)) q GROUP BY g;
-- duckdb:
SELECT g, max(n) AS hi FROM (SELECT a, b, grouping(a, b) AS g, count(*) AS n FROM r GROUP BY CUBE (a, b)
HAVING count(*) > 0) q GROUP BY g;

-- distinct: the different counts of all sets
SELECT DISTINCT count(*) AS n FROM r GROUP BY CUBE (a, b);
-- duckdb:
SELECT DISTINCT count(*) AS n FROM r GROUP BY CUBE (a, b) HAVING count(*) > 0;
