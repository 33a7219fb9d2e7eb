-- revenue: sum, average and count by customer
SELECT c.name, sum(o.price) AS total, avg(o.price) AS mean, count(*) AS n
FROM customer c JOIN orders o ON o.custkey = c.custkey
WHERE o.status <> 'P'
GROUP BY c.name
HAVING sum(o.price) > 1;

-- revenue_all: customers without orders too
SELECT c.custkey, c.name, coalesce(sum(o.price), 0) AS total, count(o.orderkey) AS n
FROM customer c LEFT JOIN orders o ON o.custkey = c.custkey
GROUP BY c.custkey, c.name;

-- best_customers: the largest totals
SELECT c.name, g.total
FROM customer c JOIN (SELECT custkey, sum(price) AS total FROM orders GROUP BY custkey) g ON c.custkey = g.custkey
WHERE g.total = (SELECT max(total) FROM (SELECT sum(price) AS total FROM orders WHERE custkey < 10 GROUP BY custkey) h);

-- monthly: groups by month with parts
SELECT year(day) AS y, month(day) AS m, count(*) AS n, sum(CASE WHEN status = 'O' THEN price ELSE 0 END) AS open,
       count(DISTINCT custkey) AS customers
FROM orders WHERE day IS NOT NULL GROUP BY year(day), month(day);

-- first_order: the orders of each customer's first day
SELECT o.custkey, o.orderkey, o.day FROM orders o
WHERE o.day = (SELECT min(i.day) FROM orders i WHERE i.custkey = o.custkey);

-- no_open_orders: customers with orders, none of them open
SELECT c.custkey, c.name FROM customer c
WHERE EXISTS (SELECT 1 FROM orders o WHERE o.custkey = c.custkey)
  AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.custkey = c.custkey AND o.status = 'O');

-- pairs: pairs of customers of a nation
SELECT x.name AS p, y.name AS q, x.nation FROM customer x JOIN customer y ON x.nation = y.nation AND x.name < y.name;

-- nation_report: join, outer join, groups and a choice
SELECT c.nation, count(DISTINCT c.custkey) AS customers, count(o.orderkey) AS orders,
       CASE WHEN sum(o.price) > 100 THEN 'large' WHEN sum(o.price) IS NULL THEN 'none' ELSE 'small' END AS size
FROM customer c LEFT JOIN orders o ON o.custkey = c.custkey AND o.price > 0
GROUP BY c.nation;

-- above_average_nations: a CTE used twice
WITH totals AS (SELECT c.nation, sum(o.price) AS total FROM customer c JOIN orders o ON o.custkey = c.custkey
                GROUP BY c.nation)
SELECT nation, total FROM totals WHERE total >= (SELECT avg(total) FROM totals);

-- top_of_report: groups, order and a limit
SELECT status, count(*) AS n, sum(price) AS total FROM orders WHERE status IS NOT NULL
GROUP BY status HAVING count(*) > 1 ORDER BY total DESC, status LIMIT 2;

-- union_report: a report with a total row
SELECT status AS k, count(*) AS n FROM orders WHERE status IS NOT NULL GROUP BY status
UNION ALL
SELECT 'all' AS k, count(*) AS n FROM orders;

-- in_and_not_in: both at once
SELECT a, b FROM r
WHERE b IN (SELECT b FROM s WHERE c >= 10) AND a NOT IN (SELECT a FROM t WHERE flag IS NOT NULL AND a IS NOT NULL AND a > 1);

-- distinct_over_all: distinct, join, subquery and a set operation
SELECT DISTINCT k FROM (
  SELECT r.a AS k FROM r JOIN s ON r.b = s.b
  UNION ALL
  SELECT t.a FROM t WHERE t.a IN (SELECT b FROM s)
) u WHERE k IS NOT NULL;

-- chain_of_outer: three outer joins and a count
SELECT c.name, count(o.orderkey) AS n, count(t.x) AS k, sum(t.x) AS total
FROM customer c LEFT JOIN orders o ON c.custkey = o.custkey LEFT JOIN t ON o.day = t.day
GROUP BY c.name;

-- nested_report: an inner bag with what it was made from
SELECT c.nation, count(*) AS n, collect_list(struct(c.name AS name, o.price AS price)) AS orders
FROM customer c JOIN orders o ON o.custkey = c.custkey
WHERE o.price > (SELECT avg(price) / 10 FROM orders)
GROUP BY c.nation;
-- duckdb:
SELECT c.nation, count(*) AS n, list({'name': c.name, 'price': o.price}) AS orders
FROM customer c JOIN orders o ON o.custkey = c.custkey
WHERE o.price > (SELECT avg(price) / 10 FROM orders)
GROUP BY c.nation;

-- exploded_report: elements joined, grouped and compared
SELECT s.b, sum(n.item.qty * s.c) AS total
FROM (SELECT id, explode(items) AS item FROM nested) n JOIN s ON s.c = n.item.part
WHERE n.id IN (SELECT custkey FROM customer)
GROUP BY s.b HAVING count(*) > 1;
-- duckdb:
SELECT s.b, sum(n.item.qty * s.c) AS total
FROM (SELECT id, unnest(items) AS item FROM nested) n JOIN s ON s.c = n.item.part
WHERE n.id IN (SELECT custkey FROM customer)
GROUP BY s.b HAVING count(*) > 1;

-- ratio_of_groups: two aggregates of different tables
SELECT g.b, g.n, h.m, g.n / h.m AS ratio
FROM (SELECT b, count(*) AS n FROM r GROUP BY b) g JOIN (SELECT b, count(*) AS m FROM s GROUP BY b) h ON g.b = h.b;

-- count_bug: counts of partners, zero included, grouped
SELECT q.n, count(*) AS keys FROM (SELECT r.b, (SELECT count(*) FROM s WHERE s.b = r.b) AS n FROM r) q GROUP BY q.n;

-- self_difference: rows that are in one half only
SELECT a, b FROM r WHERE b = 1 EXCEPT ALL SELECT a, b FROM r WHERE a = 1 AND s = 'x';

-- everything: one query with most clauses
WITH big AS (SELECT custkey, sum(price) AS total FROM orders GROUP BY custkey HAVING sum(price) > 0),
     keys AS (SELECT DISTINCT custkey FROM customer WHERE nation IS NOT NULL)
SELECT c.name, big.total, (SELECT count(*) FROM orders o WHERE o.custkey = c.custkey AND o.day IS NOT NULL) AS dated
FROM customer c
JOIN big ON big.custkey = c.custkey
LEFT JOIN keys k ON k.custkey = c.custkey
WHERE c.name LIKE '%n%' OR NOT EXISTS (SELECT 1 FROM t WHERE t.a = c.custkey AND t.flag)
ORDER BY big.total DESC NULLS LAST, c.name NULLS LAST
LIMIT 10;
