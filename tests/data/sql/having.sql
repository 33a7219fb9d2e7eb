-- count: groups of some size
SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) > 1;

-- not_selected: a condition on an aggregate that is not shown
SELECT b FROM s GROUP BY b HAVING sum(c) > 10;

-- alias: a condition on an alias
SELECT a, sum(b) AS total FROM r GROUP BY a HAVING total > 1;

-- key: a condition on the key
SELECT a, count(*) AS n FROM r GROUP BY a HAVING a IS NOT NULL AND a < 3;

-- several: conditions on several aggregates
SELECT b, max(c) AS hi FROM s GROUP BY b HAVING count(*) > 1 AND (min(c) IS NULL OR min(c) < 5);

-- with_where: WHERE goes before, HAVING after
SELECT a, count(*) AS n FROM r WHERE b = 1 GROUP BY a HAVING count(*) >= 2;

-- average: a condition on a decimal average
SELECT custkey, count(*) AS n FROM orders GROUP BY custkey HAVING avg(price) BETWEEN 1 AND 120;

-- distinct: a condition on a distinct count
SELECT a FROM r GROUP BY a HAVING count(DISTINCT b) > 1;

-- two_aggregates: aggregates compared with each other
SELECT a FROM r GROUP BY a HAVING count(*) <> count(b);

-- global: a condition on a global aggregate
SELECT sum(a) AS total FROM r HAVING count(*) > 2;

-- global_fails: a global aggregate that is dropped
SELECT count(*) AS n FROM r HAVING sum(a) > 1000;

-- global_of_empty: the row of an empty table may pass
SELECT count(*) AS n FROM empty HAVING count(*) = 0;

-- over_join: a condition on groups of a join
SELECT c.nation, sum(o.price) AS total
FROM customer c JOIN orders o ON c.custkey = o.custkey
GROUP BY c.nation HAVING sum(o.price) > 10 OR c.nation IS NULL;

-- subquery: compared with an aggregate of everything
SELECT custkey, sum(price) AS total FROM orders GROUP BY custkey
HAVING sum(price) > (SELECT avg(price) FROM orders);

-- filter: a condition on part of a group
SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) FILTER (WHERE b = 1) > 0;

-- expression_key: a condition on a grouped expression
SELECT a % 2 AS parity, count(*) AS n FROM r GROUP BY a % 2 HAVING a % 2 = 1;
