-- in_select: an aggregate of another table beside each row
SELECT a, (SELECT max(c) FROM s) AS hi FROM r;

-- in_select_of_empty: an aggregate of nothing is NULL, a count is 0
SELECT a, (SELECT max(a) FROM empty) AS hi, (SELECT count(*) FROM empty) AS n FROM r;

-- no_row: a subquery without a row is NULL
SELECT a, (SELECT b FROM empty) AS nothing FROM r;

-- one_row: a subquery that has one row
SELECT a, (SELECT price FROM orders WHERE orderkey = 1) AS price FROM r;

-- in_expression: arithmetic with a subquery
SELECT a, a * (SELECT count(*) FROM s) + 1 AS scaled FROM r;

-- in_where: rows above the average
SELECT orderkey, price FROM orders WHERE price > (SELECT avg(price) FROM orders);

-- in_where_equal: the rows that reach the maximum
SELECT a, x FROM t WHERE x = (SELECT max(x) FROM t);

-- in_where_null: compared with NULL nothing is left
SELECT a FROM r WHERE a > (SELECT max(a) FROM empty);

-- only: a subquery and nothing else
SELECT (SELECT count(*) FROM r) AS n, (SELECT sum(c) FROM s) AS total;

-- correlated_select: an aggregate by key
SELECT a, b, (SELECT sum(c) FROM s WHERE s.b = r.b) AS total FROM r;

-- correlated_count: keys without rows count zero
SELECT a, b, (SELECT count(*) FROM s WHERE s.b = r.b) AS n FROM r;

-- correlated_count_column: a count beside a constant
SELECT b, (SELECT count(c) + 10 FROM s WHERE s.b = r.b) AS n FROM r;

-- correlated_expression: arithmetic with a correlated subquery
SELECT a, coalesce((SELECT max(c) FROM s WHERE s.b = r.b), 0) - a AS gap FROM r;

-- correlated_where: rows above the average of their group
SELECT o.orderkey, o.custkey, o.price FROM orders o
WHERE o.price > (SELECT avg(i.price) FROM orders i WHERE i.custkey = o.custkey);

-- correlated_where_count: rows by the number of partners
SELECT a, b FROM r WHERE (SELECT count(*) FROM s WHERE s.b = r.b) > 2;

-- correlated_where_zero: rows without partners
SELECT a, b FROM r WHERE (SELECT count(*) FROM s WHERE s.b = r.b) = 0;

-- correlated_two: a correlation by two columns
SELECT x.a, x.b, (SELECT count(*) FROM r y WHERE y.a = x.a AND y.b = x.b) AS n FROM r x;

-- correlated_order: a correlation that is not an equality
SELECT a, b, (SELECT count(*) FROM s WHERE s.c < r.a * 5) AS below FROM r;

-- correlated_filter: a correlation with a condition of its own
SELECT c.name, (SELECT sum(o.price) FROM orders o WHERE o.custkey = c.custkey AND o.status = 'O') AS open
FROM customer c;

-- correlated_distinct: a distinct aggregate by key
SELECT a, (SELECT count(DISTINCT c) FROM s WHERE s.b = r.b) AS n FROM r;

-- correlated_join: a correlated subquery with a join inside
SELECT c.name, (SELECT max(t.x) FROM orders o JOIN t ON o.day = t.day WHERE o.custkey = c.custkey) AS hi
FROM customer c;

-- two_subqueries: two correlated subqueries in one row
SELECT b, (SELECT min(c) FROM s WHERE s.b = r.b) AS lo, (SELECT min(x) FROM t WHERE t.a = r.a) AS x FROM r;

-- in_case: a subquery inside a choice
SELECT a, CASE WHEN a > (SELECT avg(b) FROM r) THEN 'high' ELSE 'low' END AS level FROM r;

-- in_having: groups above the average group
SELECT a, count(*) AS n FROM r GROUP BY a
HAVING count(*) > (SELECT avg(n) FROM (SELECT count(*) AS n FROM r GROUP BY a) g);

-- correlated_having: groups compared with another table's groups
SELECT r.a, sum(r.b) AS total FROM r GROUP BY r.a
HAVING sum(r.b) > (SELECT count(*) FROM t WHERE t.a = r.a);

-- nested: a subquery in a subquery
SELECT a FROM r WHERE a = (SELECT min(b) FROM s WHERE c = (SELECT max(c) FROM s WHERE d IS NOT NULL AND b IS NOT NULL));

-- top_row: the first row of an order
SELECT a, (SELECT c FROM s ORDER BY c DESC NULLS LAST LIMIT 1) AS hi FROM r;

-- correlated_top_row: the first row of an order, by key
SELECT a, b, (SELECT c FROM s WHERE s.b = r.b ORDER BY c DESC NULLS LAST LIMIT 1) AS hi FROM r;

-- in_aggregate: an aggregate over a correlated subquery
SELECT sum(n) AS total FROM (SELECT (SELECT count(*) FROM s WHERE s.b = r.b) AS n FROM r) q;

-- grouped_inside: an aggregate of groups
SELECT a, (SELECT max(n) FROM (SELECT b, count(*) AS n FROM s GROUP BY b) g) AS hi FROM r;

-- ordered_by_its_alias: the alias of a subquery's column is its own
SELECT a, (SELECT -x.a AS a FROM r x WHERE x.a IS NOT NULL ORDER BY a LIMIT 1) AS m FROM r;
-- duckdb:
SELECT a, (SELECT max(x.a) * -1 FROM r x) AS m FROM r;

-- names_inside_from: two columns of one name where nobody can name them
SELECT q.a FROM (SELECT a FROM r WHERE EXISTS (SELECT 1, 1 FROM s)) q;
