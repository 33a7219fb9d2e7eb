-- plain: a query in FROM
SELECT q.a, q.n FROM (SELECT a, b + 1 AS n FROM r) q;

-- star: everything of a query in FROM
SELECT * FROM (SELECT a, b FROM r WHERE b = 1) q WHERE a IS NOT NULL;

-- no_alias: the alias may be left out
SELECT a, n FROM (SELECT a, count(*) AS n FROM r GROUP BY a);

-- nested: three levels
SELECT k FROM (SELECT k FROM (SELECT a + b AS k FROM r) x WHERE k > 2) y WHERE k < 10;

-- column_names: names given with the alias
SELECT q.p, q.q FROM (SELECT a, b FROM r) AS q(p, q);

-- filter_on_aggregate: WHERE over groups
SELECT g.a, g.total FROM (SELECT a, sum(b) AS total FROM r GROUP BY a) g WHERE g.total >= 2;

-- join_two: two queries joined
SELECT x.a, y.c FROM (SELECT a, b FROM r WHERE a > 0) x JOIN (SELECT b, c FROM s WHERE c < 20) y ON x.b = y.b;

-- join_with_total: every row with the total of all
SELECT r.a, r.b, g.total FROM r CROSS JOIN (SELECT sum(b) AS total FROM r) g;

-- share: every row with the total of its group
SELECT o.orderkey, o.price, g.total
FROM orders o JOIN (SELECT custkey, sum(price) AS total FROM orders GROUP BY custkey) g
ON o.custkey = g.custkey;

-- maximum_rows: the rows that reach the maximum of their group
SELECT s.b, s.c, s.d
FROM s JOIN (SELECT b, max(c) AS hi FROM s GROUP BY b) m ON s.b = m.b AND s.c = m.hi;

-- grouped_join: groups of a join with groups
SELECT g.n, count(*) AS k, sum(s.c) AS total
FROM (SELECT b, count(*) AS n FROM r GROUP BY b) g JOIN s ON g.b = s.b GROUP BY g.n;

-- same_names: inner names do not leak
SELECT a FROM (SELECT b AS a FROM r) r WHERE a > 1;

-- distinct_count: a join with distinct keys
SELECT count(*) AS n FROM orders o JOIN (SELECT DISTINCT custkey FROM customer) k ON o.custkey = k.custkey;

-- outer_of_query: an outer join of two queries
SELECT x.a, y.b FROM (SELECT DISTINCT a FROM r) x FULL JOIN (SELECT DISTINCT b FROM s) y ON x.a = y.b;
